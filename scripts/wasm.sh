#!/usr/bin/env bash
# Compiles the playground's engine to WebAssembly, into the folder given: engine.wasm, and Go's
# wasm_exec.js, which starts it. With a second folder both go there as well, as a server sends
# them: engine.wasm compressed (.gz and .br), which is done anew only if it has changed, and
# with RELEASE as far as it goes.
set -euo pipefail
mkdir -p "${1:?usage: scripts/wasm.sh FOLDER [FOLDER]}" ${2:+"$2"}
folder=$(cd "$1" && pwd)
served=${2:+$(cd "$2" && pwd)}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go run ./playground/wasm/overlay "$work"
# The overlay's files lie elsewhere each time; -trimpath keeps that out of the program.
CGO_ENABLED=0 GOOS=js GOARCH=wasm GOFLAGS='' go build -trimpath -buildvcs=false -ldflags='-s -w' \
  -overlay="$work/overlay.json" -o "$work/engine.wasm" ./playground/wasm
exec=$(go env GOROOT)/lib/wasm/wasm_exec.js
cp "$work/engine.wasm" "$exec" "$folder/"
test -n "$served" || exit 0
cp "$exec" "$served/"
if ! gzip -dc "$served/engine.wasm.gz" 2>/dev/null | cmp -s - "$work/engine.wasm" || [ ! -e "$served/engine.wasm.br" ]; then
  (cd tools/pack && go run . ${RELEASE:+-best} "$work/engine.wasm")
  mv "$work/engine.wasm.gz" "$work/engine.wasm.br" "$served/"
fi
