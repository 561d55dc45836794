#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other: fuzz.sh DURATION [2/4], which runs those of each
# fourth package, from the second. FUZZWORKERS is how many processes try inputs of a target at a time; without
# it, one for each processor. A package's targets share one build: with coverage's counters, all that it
# imports is compiled for it.
# Merely interesting inputs are hardly minimized: with large seeds that would take all
# the time.
set -euo pipefail
export GUARD=1 # FuzzCost measures
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
duration=${1:?usage: fuzz.sh DURATION [PART/PARTS]}
part=${2:-1/1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
log=$folder/log found=$(go env GOCACHE)/fuzz # where go test -fuzz keeps what it found interesting
module=$(go list -m)

# fuzz PACKAGE TARGET. When the time is up while an input is tried, testing may end with
# "context deadline exceeded" and nothing else, which is no finding (golang/go#75804, until Go
# 1.27): then it is run again.
fuzz() {
  local try
  for try in 1 2 3 4; do
    if (cd "$1" && "$folder/fuzz.test" -test.run='^$' -test.fuzz="^$2\$" -test.fuzztime="$duration" -test.fuzzminimizetime=5x \
      -test.fuzzcachedir="$found/$module/$1" ${FUZZWORKERS:+-test.parallel="$FUZZWORKERS"}) 2>&1 | tee "$log"; then return 0; fi
    if grep -q 'Failing input' "$log" || ! grep -qxE ' +context deadline exceeded' "$log" || [ "$try" = 4 ]; then return 1; fi
    echo "the time was up while an input was tried, nothing was found: once more"
  done
}

targets=0 packages=0 built= passed=
while read -r file target; do
  package=$(dirname "$file")
  if [ "$package" = "$passed" ]; then continue; fi
  if [ "$package" != "$built" ]; then
    packages=$((packages + 1))
    if ((packages % ${part#*/} != ${part%/*} % ${part#*/})); then passed=$package; continue; fi
    # make lint vets.
    go test -c -vet=off -fuzz=. -o "$folder/fuzz.test" "./$package"
    built=$package
  fi
  echo "== ./$package $target"
  fuzz "$package" "$target"
  targets=$((targets + 1))
done < <(git ls-files -co --exclude-standard '*_test.go' | sort | xargs grep -oE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func / /')
test "$targets" -gt 0 || { echo 'no fuzz targets found'; exit 1; }
echo "$targets fuzz targets (part $part), $duration each, by ${FUZZWORKERS:-$(getconf _NPROCESSORS_ONLN)} processes at a time"
