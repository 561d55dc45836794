#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other: fuzz.sh DURATION.
# Inputs that are merely interesting are hardly minimized: with large seeds that
# would take up all the time.
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:?usage: fuzz.sh DURATION}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# fuzz PACKAGE TARGET. When the time is up while an input is tried, go test may end with
# "context deadline exceeded" and nothing else, which is no finding (golang/go#75804, until Go
# 1.27): then it is run again.
fuzz() {
  local try
  for try in 1 2 3 4; do
    if go test -run='^$' -fuzz="^$2\$" -fuzztime="$duration" -fuzzminimizetime=5x "$1" 2>&1 | tee "$log"; then return 0; fi
    if grep -q 'Failing input' "$log" || ! grep -qxE ' +context deadline exceeded' "$log" || [ "$try" = 4 ]; then return 1; fi
    echo "the time was up while an input was tried, nothing was found: once more"
  done
}

targets=0
while read -r file target; do
  package=./$(dirname "$file")
  echo "== $package $target"
  fuzz "$package" "$target"
  targets=$((targets + 1))
done < <(git ls-files -co --exclude-standard '*_test.go' | sort | xargs grep -oE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func / /')
test "$targets" -gt 0 || { echo 'no fuzz targets found'; exit 1; }
echo "$targets fuzz targets, $duration each"
