#!/usr/bin/env bash
# Builds setpoint to the file given, as a static binary; RELEASE is its version, GOOS and
# GOARCH are for others.
#
# Without -s -w and grpcnotrace it is twice as large: that tag leaves out pages of gRPC's
# that nothing here serves, and with them templates, for which the linker would have to
# keep all methods of all types.
set -euo pipefail
output=${1:?usage: scripts/build.sh FILE}
cd "$(dirname "$0")/.."
CGO_ENABLED=0 go build -trimpath -tags=grpcnotrace -ldflags="-s -w${RELEASE:+ -X main.release=$RELEASE}" -o "$output" ./cmd/setpoint
