#!/usr/bin/env bash
# Builds a snapshot of the commit that is checked out twice, in clones at different paths, at
# different times and with another time zone, umask and settings of Go, and fails unless the bytes are the same.
# TARGETS='linux_amd64' is what is compared; TARGETS=all takes as long as two releases, and
# TARGETS=programs, for CI, compares setpoint with the engine that it embeds and no packages.
set -euo pipefail
cd "$(dirname "$0")/.."
targets=${TARGETS:-linux_amd64}
if [ "$targets" = all ]; then targets=; fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/reproducible.XXXXXX")
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
# build NAME : clones, builds, and keeps what a release consists of.
build() {
  git clone --quiet . "$folder/$1"
  if [ "$targets" = programs ]; then
    (
      cd "$folder/$1"
      RELEASE='' scripts/wasm.sh bin/engine web/engine
      RELEASE=v0.0.0 COMMIT=$(git rev-parse HEAD) DATE=$(git show -s --format=%cI HEAD) scripts/build.sh bin/built setpoint
      sha256sum bin/built/setpoint web/engine/engine.wasm.br web/engine/wasm_exec.js >"$folder/${1%%/*}.sums"
    ) >"$folder/${1%%/*}.log" 2>&1 || { cat "$folder/${1%%/*}.log"; exit 1; }
    rm -rf "${folder:?}/${1%%/*}"
    return
  fi
  TARGETS=$targets "$folder/$1/scripts/release.sh" --snapshot >"$folder/${1%%/*}.log" 2>&1 || { cat "$folder/${1%%/*}.log"; exit 1; }
  (
    cd "$folder/$1/bin/release"
    { find . -maxdepth 1 -type f \( ! -name '*.json' ! -name config.yaml -o -name '*.cdx.json' \); find ./krew -type f; } |
      LC_ALL=C sort | xargs sha256sum
  ) >"$folder/${1%%/*}.sums"
  rm -rf "${folder:?}/${1%%/*}"
}
(umask 022 && GOFLAGS=-buildvcs=false build first)
(umask 027 && GOFLAGS=-buildvcs=true TZ=Pacific/Auckland build second/at/another/path)
test "$targets" = programs || { test "$(wc -l <"$folder/first.sums")" -gt 10 && grep -q ' ./krew/' "$folder/first.sums"; } ||
  { echo 'a release of so few files?'; cat "$folder/first.sums"; exit 1; }
diff "$folder/first.sums" "$folder/second.sums" || { echo 'The same commit made different bytes: the files above.'; exit 1; }
echo "Two builds of $(git rev-parse --short HEAD) have the same bytes, in $(wc -l <"$folder/first.sums") files."
