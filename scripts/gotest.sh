#!/usr/bin/env bash
# Runs Go's tests in the working directory's module: gotest.sh SUITE FORMAT PACKAGES
# FLAGS... With RERUN=1, which only CI sets, a test that failed gets a second try, told
# in bin/rerun/SUITE.txt: at most three tests of a suite, whole ones with all their
# subtests, and none where there was a data race, a panic, a time-out or a package that
# didn't build. See docs/decisions/a-second-try-in-ci.md.
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
mkdir -p "$into"
: >"$events"
run=("$tool" --format="$format" --packages="$packages" --jsonfile="$events")
if test -n "${RERUN:-}"; then
  run+=(--rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race
    --rerun-fails-report="$report")
fi

# standing : how many packages have ended, which ones failed, and which ones run, by events.
standing() {
  local all=
  case $packages in */...* | ./*) ;; *) all=" of $(wc -w <<<"$packages")" ;; esac
  awk -v all="$all" '
    /"Action":"start"/ || !/"Test":"/ && /"Action":"(pass|fail|skip)"/ {
      match($0, /"Package":"[^"]*"/)
      package = substr($0, RSTART + 11, RLENGTH - 12)
      sub(/^github.com\/setpoint-dev\/setpoint\//, "", package)
      if (/"Action":"start"/) { running[package] = 1; next }
      delete running[package]
      ended[package]
      if (/"Action":"fail"/) failed = failed " " package
    }
    END {
      for (p in running) now = now " " p
      print length(ended) all " packages have ended" (now ? ", running:" now : "") (failed ? "; FAILED:" failed : "")
    }' "$events" 2>/dev/null || true
}

# In a process group of its own an interrupt doesn't reach the tests before this script, which
# says so: gotestsum would list every test that had not ended as a failure.
set -m
"${run[@]}" -- "$@" </dev/null &
group=$!
heart=
if test "$format" = pkgname && test -z "${RERUN:-}"; then
  # A large package says nothing for minutes.
  while sleep "${GOTEST_EVERY:-30}"; do printf '… %d:%02d min: %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$(standing)" >&2; done &
  heart=$!
fi
set +m
# shellcheck disable=SC2317 # called by traps
interrupted() {
  trap '' INT TERM
  printf '\nINTERRUPTED after %d s: %s\n' $SECONDS "$(standing)" >&2
  test -z "$heart" || kill -- "-$heart" 2>/dev/null || true
  kill -KILL "$group" 2>/dev/null || true # gotestsum, which would print its list
  { wait "$group"; } 2>/dev/null || true
  kill -INT -- "-$group" 2>/dev/null || true
  for ((waited = 0; waited < 100; waited++)); do
    kill -0 -- "-$group" 2>/dev/null || exit 130
    sleep 0.1
  done
  kill -KILL -- "-$group" 2>/dev/null || true
  exit 130
}
trap interrupted INT TERM
code=0
wait "$group" || code=$?
trap - INT TERM
test -z "$heart" || kill -- "-$heart" 2>/dev/null || true
test -n "${RERUN:-}" || rm -f "$events"
test $code -eq 0 || exit $code
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
  !/"Test":"/ && action == "output" { # all but what its tests print; the last lines tell why
    line = $0
    sub(/^.*"Output":"/, "", line); sub(/(\\n)?"}$/, "", line)
    said[package, ++lines[package] % 40] = line
    if (line == "FAIL") ended[package]++
  }
  !/"Test":"/ && action == "fail" { failed[package]++ }
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
    for (p in failed) if (failed[p] != ended[p]) {
      print p ": did not run to its end, so no second try counts. It said last:"
      for (n = lines[p] - 39; n <= lines[p]; n++) if ((p, n % 40) in said) print "    " said[p, n % 40]
      bad = 1
    }
    for (t in open) { print t ": failed and did not pass later"; bad = 1 }
    for (t in failures) if (t in crashed) { print t ": failed with a data race or a panic, after which no second try counts"; bad = 1 }
    exit bad
  }' "$events" >&2
rm -f "$events"
