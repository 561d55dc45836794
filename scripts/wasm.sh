#!/usr/bin/env bash
# Compiles the playground's engine to WebAssembly, into the folder given: engine.wasm, and Go's
# wasm_exec.js, which starts it. With a second folder both go there as well, as the service embeds
# them: engine.wasm as brotli only (.br), for every program with the page carries it. If it is the
# same folder, as for a static page, gzip (.gz) is there, too, which browsers unpack by themselves.
# What was compressed is kept in bin/engine, as far as it goes with RELEASE, and quickly without.
set -euo pipefail
mkdir -p "${1:?usage: scripts/wasm.sh FOLDER [FOLDER]}" ${2:+"$2"}
folder=$(cd "$1" && pwd)
served=${2:+$(cd "$2" && pwd)}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# For the machine that this runs on, whatever else is compiled for.
GOOS='' GOARCH='' go run ./playground/wasm/overlay "$work"
# The overlay's files lie elsewhere each time; -trimpath keeps that out of the program.
CGO_ENABLED=0 GOOS=js GOARCH=wasm GOFLAGS='' go build -trimpath -buildvcs=false -ldflags='-s -w' \
  -overlay="$work/overlay.json" -o "$work/engine.wasm" ./playground/wasm
exec=$(go env GOROOT)/lib/wasm/wasm_exec.js
cp "$work/engine.wasm" "$exec" "$folder/"
test -n "$served" || exit 0
cp "$exec" "$served/"
kept=$PWD/bin/engine/compressed-${RELEASE:+best}
if ! cmp -s "$kept/engine.wasm" "$work/engine.wasm"; then
  (cd tools/pack && GOOS='' GOARCH='' go run . ${RELEASE:+-best} "$work/engine.wasm")
  rm -rf "$kept"
  mkdir -p "$kept"
  mv "$work"/engine.wasm.* "$kept/"
  mv "$work/engine.wasm" "$kept/" # last: it says that the others are whole
fi
cp "$kept/engine.wasm.br" "$served/"
if test "$served" != "$folder"; then
  rm -f "$served/engine.wasm.gz"
  exit 0
fi
# Hosts of static pages send the file as it is. Where zopfli is installed it makes it a twentieth smaller.
gz=$kept/engine.wasm.gz
if command -v zopfli >/dev/null; then
  gz=$kept/zopfli.gz
  test -e "$gz" || { zopfli --i5 -c "$kept/engine.wasm" >"$gz.new" && mv "$gz.new" "$gz"; }
fi
cp "$gz" "$served/engine.wasm.gz"
echo "$served/engine.wasm.gz: $(wc -c <"$gz") bytes"
