#!/usr/bin/env bash
# Runs one test as often as told, and says how many runs failed:
#
#   one.sh TEST RUNS [PACKAGE] [FLAGS...]    one.sh TestX/row 50 ./test/e2e/edge -race
#
# A package of any module will do; if it is empty, it is the one that has the test.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:?name a test: RUN=TestX} runs=$2 package=${3:-}
shift $(($# < 3 ? $# : 3))
if test -z "$package"; then
  IFS=$'\n' read -r -d '' -a found < <(git grep -lE "^func ${name%%/*}\(" -- '*_test.go' | xargs -rn1 dirname | sort -u) || true
  case ${#found[@]} in
    1) package=${found[0]} ;;
    0) echo "no package has a test ${name%%/*}: RUN=TestX" >&2; exit 2 ;;
    *) echo "name one by PKG=: ${found[*]/#/./} have a test ${name%%/*}" >&2; exit 2 ;;
  esac
fi
package=./${package#./} module=$package
until test -f "$module/go.mod"; do module=$(dirname "$module"); done
below=${package#"$module"}
case " $* " in *' -race '*) export CGO_ENABLED=1 ;; esac
verbose=()
test "$runs" -ne 1 || verbose=(-v)
mkdir -p bin
code=0
go test -C "$module" "./${below#/}" -run="^${name//\//\$/^}\$" -count="$runs" -timeout=0 ${verbose[@]+"${verbose[@]}"} "$@" 2>&1 | tee bin/one.log || code=$?
printf '%s: %d of %d runs failed. bin/one.log has the output.\n' "$name" "$(grep -c "^--- FAIL: ${name%%/*}" bin/one.log)" "$runs"
exit $code
