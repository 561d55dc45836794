#!/usr/bin/env bash
# Generates the Python stubs from proto/: generate.sh FOLDER [PYTHON]. Takes protoc of
# grpcio-tools, or else protoc and grpc_python_plugin of the system.
set -euo pipefail
out=$1
python=${2:-python3}
proto=$(cd "$(dirname "$0")/../../proto" && pwd)
mkdir -p "$out"

# google/protobuf comes with the protobuf package; what else is imported is generated.
cd "$proto"
files=(setpoint/v1/*.proto)
cd third_party
files+=(buf/validate/*.proto google/api/*.proto google/rpc/*.proto)
includes=(-I "$proto" -I "$proto/third_party")

tools=$("$python" -m grpc_tools.protoc --version 2>/dev/null || true)
# Debian 12's has a protoc of 2017, which knows no optional fields.
if [[ $tools && ! $tools =~ \ 3\.([0-9]|1[0-4])\. ]]; then
  include=$("$python" -c 'import grpc_tools, os; print(os.path.join(os.path.dirname(grpc_tools.__file__), "_proto"))')
  "$python" -m grpc_tools.protoc "${includes[@]}" -I "$include" --python_out="$out" --grpc_python_out="$out" "${files[@]}"
elif command -v protoc >/dev/null && command -v grpc_python_plugin >/dev/null; then
  protoc "${includes[@]}" --python_out="$out" --plugin=protoc-gen-grpc_python="$(command -v grpc_python_plugin)" \
    --grpc_python_out="$out" "${files[@]}"
else
  echo 'Neither grpcio-tools nor protoc with grpc_python_plugin is there.' >&2
  exit 1
fi
