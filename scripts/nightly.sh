#!/usr/bin/env bash
# Runs everything at full length, one thing after the other, and writes
# bin/nightly/REPORT.md: what passed, how long it took, and the results. A failure
# does not stop the rest; the exit code reports whether anything failed.
# FUZZTIME (10m), MUTATIONTIME (2h) and CONFORMANCESTEPS (100000) bound the three that
# could go on for ever. nightly.sh [NAME...] runs only those.
set -uo pipefail
cd "$(dirname "$0")/.."
into=bin/nightly
mkdir -p "$into"
export RERUN= # no second tries here: each failure is reported
export FULL=1 # nor shorter tests
export FUZZTIME=${FUZZTIME:-10m} MUTATIONTIME=${MUTATIONTIME:-2h} CONFORMANCESTEPS=${CONFORMANCESTEPS:-100000}
report=$into/REPORT.md
failed=0
details=()

# step NAME TIMEOUT COMMAND... : runs a command into $into/NAME.log.
step() {
  local name=$1 bound=$2 start=$SECONDS result=passed
  shift 2
  if [ ${#only[@]} -gt 0 ] && [[ " ${only[*]} " != *" $name "* ]]; then return; fi
  echo "== $name"
  timeout --kill-after=1m "$bound" "$@" >"$into/$name.log" 2>&1
  local code=$?
  if [ $code -ne 0 ]; then
    result="**FAILED** ($code)"
    failed=1
  fi
  ran=$((ran + 1))
  printf '| %s | %s | %d s | `%s` |\n' "$name" "$result" $((SECONDS - start)) "$*" >>"$report"
  details+=("$name")
}

# What starts daemons, or installs packages in a folder of its own, needs root.
root=()
test "$(id -u)" -eq 0 || root=(sudo --non-interactive --preserve-env=CI,FULL,PATH,HOME)
only=("$@")
ran=0
{
  printf '# Nightly report\n\n%s, commit %s, %s, %s processors.\n\n' \
    "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(git rev-parse --short HEAD)" "$(go version | cut -d' ' -f3-)" "$(nproc)"
  printf '| What | Result | Time | Command |\n|---|---|---:|---|\n'
} >"$report"

# Each step has a place in the matrix of .github/workflows/nightly.yml.
step lint 30m make lint
step prose 15m make prose
step race 1h make test-race
step examples 1h make test-examples
step clients 1h make test-clients
step guard 15m make guard
step promises 1h make promises
step modules 1h make test-modules
step e2e 1h make e2e
step web 10m make test-web
step docs 30m "${root[@]}" make test-docs
step e2e-ui 30m make e2e-ui
step e2e-deploy 1h "${root[@]}" make e2e-deploy
step e2e-swarm 1h "${root[@]}" make e2e-swarm
step e2e-kubernetes 1h make e2e-kubernetes
step e2e-nomad 30m "${root[@]}" make e2e-nomad
step e2e-chart 30m make e2e-chart
step e2e-keda 30m "${root[@]}" make e2e-keda
step figures-kubernetes 3h make figures-kubernetes FIGURES=500,2000,10000
step figures-period 1h make figures-period OBJECTS=1000
step live-swarm 45m "${root[@]}" env LIVE=5m go -C test/e2e test -count=1 -timeout=40m -v -run='^TestWhatIsPredictedOfASwarm$' ./swarm
step release 2h make release-snapshot
step packages 30m "${root[@]}" make test-packages
step reproducible 3h make release-reproducible TARGETS=all
step newcomer 2h "${root[@]}" scripts/newcomer.sh
step conformance 8h make conformance-nightly
step attack 3h make attack
step fuzz 24h make fuzz
step mutation 12h make mutation

# section TITLE COMMAND... : the result of a step, if it ran.
section() {
  local name=$1 title=$2
  shift 2
  [[ " ${details[*]:-} " == *" $name "* ]] || return 0
  printf '\n## %s\n\n' "$title" >>"$report"
  "$@" >>"$report" 2>/dev/null || printf 'No result: see `%s/%s.log`.\n' "$into" "$name" >>"$report"
}
quoted() { printf '```\n'; "$@"; local code=$?; printf '```\n'; return $code; }
section conformance 'Conformance' quoted grep -A48 '^profile' "$into/conformance.log"
section attack 'Attacks' quoted tail -n 40 "$into/attack.log"
section figures-kubernetes 'Figures beside the native controller' sed -nE 's/^ *(\|.*\|)$/\1/p' "$into/figures-kubernetes.log"
section figures-period 'The agent at a period of 3 s' sed -nE 's/^ *(\|.*\|)$/\1/p' "$into/figures-period.log"
section fuzz 'Fuzzing' quoted grep -E '^(==|ok|FAIL|---|[0-9]+ fuzz targets|fuzz: elapsed: [0-9hm]+s, .*\(total)' "$into/fuzz.log"
section mutation 'Mutation' cat bin/mutation/REPORT.md
test "$ran" -ge ${#only[@]} || { echo "some of these are no steps: ${only[*]}"; exit 1; }
echo "$report"
exit $failed
