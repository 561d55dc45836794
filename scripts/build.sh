#!/usr/bin/env bash
# Builds programs of cmd/ to the folder given, as static binaries: setpoint, or those that are
# named; "all" are setpoint and the programs of all platforms. RELEASE is their version, GOOS
# and GOARCH are for others.
#
# Without -s -w and grpcnotrace it is twice as large: that tag leaves out pages of gRPC's
# that nothing here serves, and with them templates, for which the linker would have to
# keep all methods of all types.
#
# -s throws debugging information away, which takes a fifth of the time to compile: it is not
# made. The standard library is compiled as go test does, so that either finds what the other
# left.
set -euo pipefail
folder=${1:?usage: scripts/build.sh FOLDER [PROGRAM...|all]}
shift
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$root"
programs=("${@:-setpoint}")
if [ "${programs[*]}" = all ]; then
  programs=(setpoint setpoint-kubernetes)
fi
cli=github.com/setpoint-dev/setpoint/cmd/internal/cli
CGO_ENABLED=0 go build -trimpath -gcflags=all=-dwarf=false -gcflags=std= -tags=grpcnotrace -ldflags="-s -w${RELEASE:+ -X $cli.release=$RELEASE}" \
  -o "$folder/" "${programs[@]/#/./cmd/}"
