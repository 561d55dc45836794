#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other: fuzz.sh DURATION.
# Inputs that are merely interesting are hardly minimized: with large seeds that
# would take up all the time.
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:?usage: fuzz.sh DURATION}
targets=0
while read -r file target; do
  package=./$(dirname "$file")
  echo "== $package $target"
  go test -run='^$' -fuzz="^$target\$" -fuzztime="$duration" -fuzzminimizetime=5x "$package"
  targets=$((targets + 1))
done < <(git ls-files -co --exclude-standard '*_test.go' | sort | xargs grep -oE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func / /')
test "$targets" -gt 0 || { echo 'no fuzz targets found'; exit 1; }
echo "$targets fuzz targets, $duration each"
