#!/usr/bin/env bash
# Changes the code of packages one operator at a time and checks that a test of the
# package fails: mutation.sh DURATION [TARGET...]. Each target is a package, with an
# optional regular expression of its files after a colon, for example
# './server/limit:^(ticket|limiter)\.go$'. None: those of the decision path. A target gets at most
# DURATION; what was tried by then counts. bin/mutation has the results, and bin/mutation/REPORT.md
# the score and the survivors.
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:?usage: mutation.sh DURATION [TARGET...]}
shift
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  targets=(
    './recommender'
    './server/record'
    './store/redis'
    './server/decision'
    './server/recordings'
    './server/requests'
    './server/access:^(rights|caller)\.go$'
    './server/decisionlog'
    './server/services:^(stream|decisions)\.go$'
    './server/admission:^(enter|limited|receive|body|callerlimits)\.go$'
    './server/rest:^routes\.go$'
  )
fi
into=bin/mutation
rm -rf "$into"
mkdir -p "$into"
go build -modfile=tools/gremlins/go.mod -o "$into/gremlins" github.com/go-gremlins/gremlins/cmd/gremlins
# vet would fail mutants that a test has to; and each run of the tests is to be a real one.
export GOFLAGS="${GOFLAGS:-} -vet=off -count=1"
results=()
for target in "${targets[@]}"; do
  package=${target%%:*}
  name=$(tr -c 'a-z0-9\n' - <<<"${package#./}")
  # The tool takes files to leave out, so those wanted are turned into those that are not.
  leave_out=()
  if [[ $target == *:* ]]; then
    while read -r file; do
      file=${file#"${package#./}/"}
      [[ $file =~ ${target#*:} ]] || leave_out+=(-E "^${file//./\\.}\$")
    done < <(git ls-files "${package#./}/*.go" | grep -v '_test\.go$')
  fi
  echo "== $target, at most $duration"
  # Its log is complete even if it is interrupted.
  timeout --signal=INT --kill-after=10m "$duration" \
    "$into/gremlins" unleash --workers "${MUTATION_WORKERS:-2}" --timeout-coefficient 8 \
    "${leave_out[@]}" "$package" | tee "$into/$name.log" || test $? -eq 124
  results+=("$PWD/$into/$name.log")
done
(cd tools/gremlins && GOFLAGS='' go run ./report "${results[@]}") >"$into/REPORT.md"
cat "$into/REPORT.md"
