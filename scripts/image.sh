#!/usr/bin/env bash
# Builds the image of setpoint, NAME (setpoint:dev), with the docker that is there: static
# binaries on scratch. With PROGRAM, that of one program: setpoint, the service without agents, or
# setpoint-external-metrics. GOARCH is the architecture (another than this machine's needs
# BuildKit), CA_CERTIFICATES the bundle of certificates to put in, and CONTEXT (bin/image) the
# folder that docker is given.
#
#   scripts/image.sh [NAME [PROGRAM]]
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:-setpoint:dev}
programs=all dockerfile=deploy/Dockerfile
if test -n "${2:-}"; then
  programs=cmd/$2 dockerfile=deploy/${2#setpoint-}.Dockerfile
fi
version=${VERSION:-dev}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
created=$(git show -s --format=%cI HEAD 2>/dev/null || echo 1970-01-01T00:00:00Z)

certificates=${CA_CERTIFICATES:-}
for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
  test -n "$certificates" || { test ! -s $file || certificates=$file; }
done
test -s "$certificates" || { echo 'there is no bundle of CA certificates: set CA_CERTIFICATES'; exit 1; }

# A folder of its own is the context: docker sees nothing else.
context=${CONTEXT:-bin/image}
rm -rf "$context"
mkdir -p "$context"
if test "$programs" = all; then
  RELEASE="$version" scripts/wasm.sh bin/engine web/engine
fi
arch=${GOARCH:-$(go env GOARCH)}
RELEASE="$version" COMMIT="$revision" DATE="$created" GOOS=linux GOARCH="$arch" scripts/build.sh "$context" "$programs"
install -m 0644 "$certificates" "$context"/ca-certificates.crt
# The commit's time, so that the same source makes the same image.
touch -d "$created" "$context"/*
test -z "${CONTEXT_ONLY:-}" || exit 0
platform=() # the builder before BuildKit mixes up what it kept of two platforms
test "$arch" = "$(go env GOHOSTARCH)" || platform=(--platform="linux/$arch")
docker build --quiet "${platform[@]}" --tag "$name" --file "$dockerfile" \
  --build-arg VERSION="$version" --build-arg REVISION="$revision" --build-arg CREATED="$created" "$context"
