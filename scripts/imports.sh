#!/usr/bin/env bash
# Fails if a package has a forbidden import: see «Layout» in CONTRIBUTING.md.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/mode.sh
. scripts/mode.sh
module=github.com/setpoint-dev/setpoint
status=0

# Each package with all that it depends on, a line each.
deps=$(mktemp)
trap 'rm -f "$deps"' EXIT
go list -f '{{.ImportPath}} {{join .Deps " "}}' ./... >"$deps"

# forbid PATTERN PACKAGES... : none of the packages may depend on a match.
forbid() {
  local pattern=$1 packages package found
  shift
  packages=$(go list "$@")
  test -n "$packages" || { echo "there are no packages $*"; exit 1; }
  while read -r package found; do
    found=$(tr ' ' '\n' <<<"$found" | grep -E "$pattern" || true)
    if [ -n "$found" ]; then
      printf '%s must not import:\n%s\n' "$package" "$found"
      status=1
    fi
  done < <(awk 'NR == FNR { wanted[$1]; next } $1 in wanted' - "$deps" <<<"$packages")
}

# The SDK of a platform is in its own program, setpoint-PLATFORM.
sdks="^sigs.k8s.io/controller-runtime|^k8s.io/kubectl|^github.com/(docker|moby)/|^github.com/hashicorp/nomad"
# The engine is pure: the quantity parser is its only dependency.
forbid "^$module/(api|server|store|clients|cmd|simulation|hpa|web)|^google.golang.org/|^go.uber.org/|^k8s.io/api/|^net/http$" ./recommender/...
forbid "^$module/(api|server|store|clients|cmd|hpa)|^google.golang.org/|^go.uber.org/|^k8s.io/api/|^net/http$" ./simulation/...
# Stages and fleets are as pure as the engine that they surround.
forbid "^$module/(api|server|store|clients|cmd|simulation|hpa|web)|^google.golang.org/|^go.uber.org/|^k8s.io/api/|^net/http$" ./stages/... ./fleet/...
# Libraries for people's commands and for other programs are no commands.
forbid "^$module/cmd|^k8s.io/client-go/(discovery|dynamic|kubernetes|rest|tools|transport)(/|$)|$sdks" ./check ./explain ./lint ./replay ./sources ./playground
# What brings specs to them knows neither a cluster nor a server that listens.
forbid "^$module/(cmd|store/|server$|server/(rest|services|simulations|watches|admission|decision)$)|^k8s.io/client-go/(discovery|dynamic|kubernetes|rest|tools|transport)(/|$)|^sigs.k8s.io/controller-runtime" ./hpa
forbid "^$module/(api|server|recommender|clients|cmd)|^google.golang.org/" ./store/...
forbid "^$module/(server|recommender|store|cmd)" ./clients/...
# The kit that starts it in tests has engines.
IFS=$'\n' read -r -d '' -a service < <(go list ./server/... | grep -v /servertest$) || true
forbid "^$module/(clients|cmd|store/)|^k8s.io/api/" "${service[@]}"
forbid "^$module/(server|recommender|store|clients|cmd)" ./api/...
# A decision knows neither a caller nor a price: package requests does.
imports=$(go list -f '{{join .Imports "\n"}}' ./server/decision ./server/recordings)
found=$(grep -E "^$module/server/(access|admission|auth|calls|cost|encoded|gate|health|limit|overrides|requests|services|simulations|streams|waits|watches|wire)(/|$)" <<<"$imports" || true)
if [ -n "$found" ]; then
  printf 'server/decision and server/recordings must not import:\n%s\n' "$found"
  status=1
fi
# The loop of every platform's agent knows no platform; of Kubernetes it takes the quantity
# parser only, as the engine does. Its vocabulary of settings has the queries of the sources below.
IFS=$'\n' read -r -d '' -a loop < <(go list ./clients/agent/... | grep -v /settings$) || true
forbid "^k8s.io/(api|client-go|metrics|kubectl)(/|$)|^sigs.k8s.io/controller-runtime|^github.com/(docker|moby)/|^github.com/hashicorp/nomad|^$module/clients/(kubernetes|swarm|nomad|webhook)" "${loop[@]}"
# Sources of metrics are read for any platform; of client-go they take the JSONPath, which is
# two packages on top of the standard library.
forbid "^k8s.io/(api|metrics|kubectl)(/|$)|^k8s.io/client-go/(discovery|dynamic|kubernetes|rest|tools|transport)(/|$)|^sigs.k8s.io/controller-runtime|^github.com/(docker|moby)/|^github.com/hashicorp/nomad|^$module/clients/(agent$|kubernetes|nomad|setpoint|swarm|webhook)" ./clients/samples/... ./clients/agent/settings
IFS=$'\n' read -r -d '' -a internal < <(go list ./cmd/internal/... | grep -v /agentcmd$) || true
forbid "^k8s.io/client-go|$sdks" "${internal[@]}" ./server/... ./recommender/... ./store/... ./clients/setpoint
# The agents' shared package has the sources of metrics, and with them that JSONPath.
forbid "^k8s.io/client-go/(discovery|dynamic|kubernetes|rest|tools|transport)(/|$)|$sdks|^$module/clients/(kubernetes|swarm|nomad|webhook)" ./cmd/internal/agentcmd
# So has the service, for stored specs.
forbid "^k8s.io/client-go/(discovery|dynamic|kubernetes|rest|tools|transport)(/|$)|$sdks" ./cmd/setpoint/...
# Test kits stay in tests, and engines out of the server. cmd/internal/clitest is a kit itself.
IFS=$'\n' read -r -d '' -a commands < <(go list ./cmd/... | grep -v /clitest$) || true
forbid "^$module/(internal/(process|testlength|testpages|testpki)|recommender/historytest|server/servertest|store/(redis/redistest|storetest)|clients/(agent/agenttest|kubernetes/internal/kubernetestest)|test/)" "${commands[@]}" "${service[@]}" ./explain ./lint ./replay ./sources ./store/memory ./store/redis
# User-written YAML is parsed in one place, by one set of rules. The chart's
# generator reads the comments of its own file, and the check of a release what goreleaser wrote.
found=$(git grep -nE '\b[a-z0-9]*yaml[a-z0-9]*\.(Unmarshal|YAMLToJSON|NewDecoder)' -- '*.go' ':!*_test.go' ':!internal/document' ':!test' ':!tools' ':!conformance' ':!clients/kubernetes/internal/kubernetestest' ':!deploy/helm/generate' ':!packaging/check' || true)
if [ -n "$found" ]; then
  printf 'YAML is read by internal/document:\n%s\n' "$found"
  status=1
fi
# The program of the service's own image has 30 MiB, which Kubernetes' types would take a fifth of.
alone=$(go list -tags="$tags,service" -deps ./cmd/setpoint)
if grep -E "^k8s.io/api/|^$module/clients/kubernetes" <<<"$alone"; then
  echo 'The service alone (build tag service) must not import these: cmd/setpoint/others.go'
  status=1
fi
exit $status
