#!/usr/bin/env bash
# Makes sure that etcd is there, built from the module that tools/etcd pins, and prints
# the folder that has it.
set -euo pipefail
cd "$(dirname "$0")/.."
module=go.etcd.io/etcd/server/v3

version=$(go list -C tools/etcd -m -f '{{.Version}}' $module)
folder=$PWD/bin/etcd/$version
mkdir -p "$folder"
# Several test processes may want it at once: one builds.
exec 9>"$folder/.lock"
if command -v flock >/dev/null; then flock 9; fi

if ! test -x "$folder/etcd"; then
  echo "building etcd $version" >&2
  go build -C tools/etcd -trimpath -ldflags='-s -w' -o "$folder/.etcd" $module
  mv "$folder/.etcd" "$folder/etcd" # so that half of one is never there
fi
echo "$folder"
