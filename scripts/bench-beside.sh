#!/usr/bin/env bash
# Runs the measurements of `make bench` on the service of an older commit and of this checkout, in
# turns, and prints a table of the figures that have a goal: old, new, new of old.
#
#   scripts/bench-beside.sh COMMIT                       # some ten minutes
#   ROUNDS=5 scripts/bench-beside.sh COMMIT              # more turns, less noise
#   scripts/bench-beside.sh COMMIT -scenario=unary       # flags of bench: see cd bench && go run . -help
#
# Both are built with one command line and measured by this checkout's tool; the engine's
# benchmark is each commit's own. Run it on an idle machine. The results of each turn
# stay in bin/beside, as JSON.
set -euo pipefail
commit=${1:?usage: scripts/bench-beside.sh COMMIT [FLAGS OF BENCH]}
shift
rounds=${ROUNDS:-3}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
commit=$(git rev-parse --verify "$commit^{commit}")
# shellcheck source=scripts/mode.sh
. scripts/mode.sh
scripts/redis.sh
# All but the million of stored targets, which an older service may not have.
test $# -gt 0 || set -- -scenario='^(engine|unary-memory|unary-redis|rest|stream-redis|batch-redis|latency|pods|start)$' -duration=1s

found=$root/bin/beside
rm -rf "$found"
mkdir -p "$found"
old=$(mktemp -d)
trap 'git worktree remove --force "$old/tree" 2>/dev/null || true; rm -rf "$old"' EXIT
git worktree add --quiet --detach "$old/tree" "$commit" >/dev/null
declare -A tree=([old]="$old/tree" [new]="$root")
for side in old new; do
  (cd "${tree[$side]}" && go build -ldflags='-s -w' -o "$old/$side" ./cmd/setpoint)
done
(cd bench && go build -o "$old/bench" .)
# What a go test would compile while it measures.
for side in old new; do (cd "${tree[$side]}/conformance" && go test -run='^$' ./controller >/dev/null); done

reports_old=() reports_new=()
for round in $(seq "$rounds"); do
  for side in old new; do
    report=$found/$side-$round.json
    echo "round $round of $rounds: $side" >&2
    # A scenario that one of the two can't play is missing in its report.
    (cd "${tree[$side]}/bench" && "$old/bench" -service="$old/$side" -runs=1 "$@" -json="$report") || test -s "$report"
    declare -n reports=reports_$side
    reports+=("$report")
  done
done
echo "Medians of $rounds turns: old is $commit, new is $(git describe --always --dirty)."
"$old/bench" beside "${reports_old[@]}" -- "${reports_new[@]}"
