#!/usr/bin/env bash
# Generates src/gen from the contract, with protoc and the plugin of node_modules.
set -euo pipefail
cd "$(dirname "$0")"
out=$PWD/src/gen
plugin=$PWD/node_modules/.bin/protoc-gen-es
command -v protoc >/dev/null || { echo 'protoc is missing: install protobuf-compiler.' >&2; exit 1; }
test -x "$plugin" || { echo 'protoc-gen-es is missing: run npm ci first.' >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out"
cd ../../proto
files=(setpoint/v1/*.proto)
proto=$PWD
cd third_party
files+=(buf/validate/*.proto google/api/*.proto google/rpc/*.proto)
protoc -I "$proto" -I . --plugin=protoc-gen-es="$plugin" --es_out="$out" --es_opt=target=ts,import_extension=js,json_types=true "${files[@]}"
