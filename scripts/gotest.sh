#!/usr/bin/env bash
# Runs Go's tests in the working directory's module: gotest.sh SUITE FORMAT PACKAGES
# FLAGS... With RERUN=1, which only CI sets, a test that failed gets a second try, told
# in bin/rerun/SUITE.txt: at most three tests of a suite, whole ones with all their
# subtests, and none where there was a data race, a panic, a time-out or a package that
# didn't build. See docs/decisions/0043-a-second-try-in-ci.md.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
suite=$1 format=$2 packages=$3
shift 3
into=$root/bin/rerun
report=$into/$suite.txt events=$into/$suite.json
rm -f "$report" "$events"

# The tool is built as all tools are; only the tests may have the race detector, and with it cgo.
tool=$(go tool -modfile="$root/tools/gotestsum/go.mod" -n gotestsum)
case " $* " in *' -race '*) export CGO_ENABLED=1 ;; esac
# make lint vets the code once, instead of once per build mode.
set -- -vet=off "$@"
run=("$tool" --format="$format" --packages="$packages")
if test -n "${RERUN:-}"; then
  mkdir -p "$into"
  run+=(--rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race
    --rerun-fails-report="$report" --jsonfile="$events")
fi
# gotestsum lists the tests that an interrupt ended as failures.
trap 'printf "\nINTERRUPTED: the tests that are listed as (unknown) had not ended; only others have failed.\n" >&2; exit 130' INT
"${run[@]}" -- "$@"
trap - INT
test -n "${RERUN:-}" || exit 0
# Tests that pass say nothing here, but for those that were shorter than with FULL=1; of those
# that were skipped gotestsum tells.
sed -nE '/: proves no more with the race detector: /d; s/.*"Package":"([^"]*)","Test":"([^"]*)","Output":" *(.*FULL=1[^"]*)\\n".*/SHORTER: \1 \2: \3/p' "$events" >&2

# Failures that gotestsum reports as success. A process of tests that was killed, or
# left by os.Exit, didn't reach its other tests, and one that failed after its tests (for
# a goroutine that they leaked) has none to run again: each lacks the line FAIL with
# which such a process ends. A data race or a panic of a program that a test has started
# is one, too. And a test that was skipped the second time hasn't passed.
awk '
  function field(name) {
    return match($0, "\"" name "\":\"[^\"]*\"") ? substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 5) : ""
  }
  !/"Action":"(fail|pass|output)"/ { next }
  { package = field("Package"); action = field("Action") }
  !/"Test":"/ && action == "fail" { failed[package]++ }
  !/"Test":"/ && action == "output" && /"Output":"FAIL\\n"/ { ended[package]++ }
  /"Test":"/ {
    test = field("Test")
    root = test
    sub(/\/.*/, "", root)
    root = package "." root
    if (action == "output") { if (/WARNING: DATA RACE|panic: |fatal error: /) crashed[root] = 1 }
    else if (test ~ /\//) next
    else if (action == "fail") { failures[root] = 1; open[root] = 1 }
    else delete open[root]
  }
  END {
    for (p in failed) if (failed[p] != ended[p]) { print p ": did not run to its end, so no second try counts"; bad = 1 }
    for (t in open) { print t ": failed and did not pass later"; bad = 1 }
    for (t in failures) if (t in crashed) { print t ": failed with a data race or a panic, after which no second try counts"; bad = 1 }
    exit bad
  }' "$events" >&2
rm -f "$events"
