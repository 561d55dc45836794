#!/usr/bin/env bash
# Makes sure that KEDA's operator and metrics adapter are there, of the version that
# tools/keda/go.mod pins, and prints the folder that has them, with KEDA's manifests in config/. It
# is in the user's cache, as scripts/control-plane.sh has it.
#
# They are built of KEDA's module, with KEDA's go.mod, without what needs the clients of other
# systems: of the scalers external, external-push, metrics-api, cpu and memory stay, of the sources of
# secrets Kubernetes and Vault. That is a third of its packages. Nothing that stays is changed, except that
# it names nothing that went.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/mode.sh
. scripts/mode.sh
cache=${SETPOINT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/setpoint}

module=github.com/kedacore/keda/v2
version=$(go list -C tools/keda -m -f '{{.Version}}' $module)
made_of=$({ go env GOVERSION GOOS GOARCH; cat scripts/keda.sh; } | git hash-object --stdin)
folder=$cache/keda/$version-${made_of::12}
mkdir -p "$folder"
# Several test processes may want them at once: one builds.
exec 9>"$folder/.lock"
if command -v flock >/dev/null; then flock 9; fi
if test -x "$folder/adapter"; then
  echo "$folder"
  exit
fi

echo 'building the operator and the metrics adapter of KEDA, which may take minutes' >&2
go mod download -C tools/keda $module
from=$(go list -C tools/keda -m -f '{{.Dir}}' $module)
sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
cp -r "$from"/{apis,cmd,config,controllers,pkg,version,go.mod,go.sum} "$sources"
chmod -R u+w "$sources"
rm -rf "$folder/config"
cp -r "$sources/config" "$folder"

(
  cd "$sources/pkg"
  find scalers -maxdepth 1 -name '*.go' ! -name external_scaler.go ! -name scaler.go ! -name cpu_memory_scaler.go ! -name metrics_api_scaler.go -delete
  rm -r scalers/{aws,azure,gcp,kafka,liiklus,openstack,splunk,sumologic}
  rm eventemitter/azure_event_grid_topic_handler.go \
    scaling/resolver/{aws_secretmanager,azure_keyvault,gcp_secretmanager}_handler.go
  sed -i '/pkg\/scalers\/azure"$/d; s/azure\.\(ServicePrincipal[A-Za-z]*\)/"\1"/' scaling/resolver/scale_resolvers.go
  cat >scalers/cut.go <<'END'
package scalers

const externalMetricType = "External"
END
  cat >eventemitter/cut.go <<'END'
package eventemitter

import "errors"

func NewAzureEventGridTopicHandler(...any) (EventDataHandler, error) { return nil, errors.New("cut out") }
END
  cat >scaling/resolver/cut.go <<'END'
package resolver

import "errors"

type cut struct{}

func (cut) Initialize(...any) error     { return errors.New("cut out") }
func (cut) Read(...any) (string, error) { return "", errors.New("cut out") }
func (cut) Stop()                       {}

func NewAwsSecretManagerHandler(...any) cut { return cut{} }
func NewAzureKeyVaultHandler(...any) cut    { return cut{} }
func NewGCPSecretManagerHandler(...any) cut { return cut{} }
END
  # Of the switch of triggers, the cases of the scalers that stay.
  awk '/TRIGGERS-START/ { inside = 1 } /TRIGGERS-END/ { inside = 0 }
    inside && /^\tcase / { keeps = /"(cpu|memory|external|external-push|metrics-api)"/ }
    inside && /^\tdefault:/ { keeps = 1 }
    !inside || keeps || /^\tswitch |^\t}|TRIGGERS/' scaling/scalers_builder.go >scaling/kept
  mv scaling/kept scaling/scalers_builder.go
)
for program in operator adapter; do
  go build -C "$sources" -ldflags='-s -w' -o "$folder/.$program" ./cmd/$program
done
mv "$folder/.operator" "$folder/operator"
mv "$folder/.adapter" "$folder/adapter" # last, as that it is there says that all is
echo "$folder"
