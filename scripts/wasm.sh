#!/usr/bin/env bash
# Compiles the playground's engine to WebAssembly, into the folder given: engine.wasm, and Go's
# wasm_exec.js, which starts it. With a second folder both go there as well, as the service embeds
# them: engine.wasm as brotli only (.br), because every program with the page carries it.
# The compressed engine is cached in bin/engine. RELEASE=… compresses at the highest level.
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
  mv "$work/engine.wasm.br" "$kept/"
  mv "$work/engine.wasm" "$kept/" # last: it says that the other is whole
fi
cp "$kept/engine.wasm.br" "$served/"
