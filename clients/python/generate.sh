#!/usr/bin/env bash
# Generates setpoint/v1 from the contract into a folder: generate.sh [FOLDER] [--google], the
# folder of this package unless one is given. --google adds google/api and google/rpc, which
# otherwise come with googleapis-common-protos. PYTHON chooses the interpreter, which needs
# protobuf, and grpcio-tools where there is no protoc.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
google=
test "${*: -1}" != --google || { google=yes; set -- "${@:1:$#-1}"; }
out=$(mkdir -p "${1:-$here}" && cd "${1:-$here}" && pwd)
python=${PYTHON:-python3}
"$python" -c 'import google.protobuf' 2>/dev/null || {
  echo "$python has no protobuf: pip install protobuf (Debian: apt-get install python3-protobuf, PYTHON=/usr/bin/python3)." >&2
  exit 1
}
protoc=(protoc)
command -v protoc >/dev/null || protoc=("$python" -m grpc_tools.protoc)
"${protoc[@]}" --version >/dev/null 2>&1 || {
  echo 'protoc is missing: pip install grpcio-tools, or install protobuf-compiler.' >&2
  exit 1
}
files=$(mktemp)
trap 'rm -f "$files"' EXIT

cd "$here/../../proto"
"${protoc[@]}" -I . -I third_party --include_imports --descriptor_set_out="$files" setpoint/v1/*.proto google/rpc/error_details.proto
# Rules of validation are the service's; without them nothing needs buf's package.
"$python" - "$files" <<'PYTHON'
import sys
from google.protobuf import descriptor_pb2

RULES = "buf/validate/validate.proto"
with open(sys.argv[1], "rb") as file:
    files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
kept = descriptor_pb2.FileDescriptorSet()


def strip(message):
    if not message.options.map_entry:
        message.ClearField("options")
    for field in message.field:
        field.ClearField("options")
    for nested in message.nested_type:
        strip(nested)


for file in files.file:
    if file.name == RULES:
        continue
    if RULES in file.dependency:
        dependencies = [name for name in file.dependency if name != RULES]
        del file.dependency[:]
        file.dependency.extend(dependencies)
        for message in file.message_type:
            strip(message)
    kept.file.append(file)
with open(sys.argv[1], "wb") as file:
    file.write(kept.SerializeToString())
PYTHON
names=(setpoint/v1/*.proto)
test -z "$google" || names+=(google/api/annotations.proto google/api/http.proto google/rpc/status.proto google/rpc/error_details.proto)
"${protoc[@]}" --descriptor_set_in="$files" --python_out="$out" --pyi_out="$out" "${names[@]}"
touch "$out/setpoint/v1/__init__.py"
# protoc writes a second argument self for a field of that name, at which type checkers end.
"$python" - "$out/setpoint/v1/operations_service_pb2.pyi" <<'PYTHON'
import re
import sys

with open(sys.argv[1], "r+", encoding="utf-8") as file:
    text = re.sub(r"def __init__\(self(?=.*\bself: )", "def __init__(__self", file.read())
    file.seek(0)
    file.write(text)
PYTHON
