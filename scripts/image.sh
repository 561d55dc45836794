#!/usr/bin/env bash
# Builds the image of setpoint, NAME (setpoint:dev), with the installed docker: static
# binaries on scratch. With PROGRAM, that of one program: setpoint, the service alone, or
# setpoint-external-metrics. GOARCH is the architecture, whose programs are not run: any
# machine can make it. CA_CERTIFICATES is the bundle of certificates to put in, and CONTEXT (bin/image) the
# folder that docker is given; CONTEXT_ONLY=1 stops before docker.
#
#   scripts/image.sh [NAME [PROGRAM]]
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:-setpoint:dev}
programs=all dockerfile=deploy/Dockerfile tags=
if test -n "${2:-}"; then
  programs=cmd/$2 dockerfile=deploy/${2#setpoint-}.Dockerfile
  test "$2" != setpoint || tags=service
fi
version=${VERSION:-dev}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
# In UTC, as macOS' touch takes it.
created=$(TZ=UTC git show -s --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ HEAD 2>/dev/null || echo 1970-01-01T00:00:00Z)

certificates=${CA_CERTIFICATES:-}
for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
  test -n "$certificates" || { test ! -s $file || certificates=$file; }
done
test -s "$certificates" || { echo 'there is no bundle of CA certificates: set CA_CERTIFICATES'; exit 1; }

# The context is a folder of its own: docker sees nothing else.
context=${CONTEXT:-bin/image}
rm -rf "$context"
mkdir -p "$context"
test "${2:-}" = setpoint-external-metrics || RELEASE="$version" scripts/wasm.sh bin/engine web/engine
arch=${GOARCH:-$(go env GOARCH)}
TAGS=$tags RELEASE="$version" COMMIT="$revision" DATE="$created" GOOS=linux GOARCH="$arch" scripts/build.sh "$context" "$programs"
install -m 0644 "$certificates" "$context"/ca-certificates.crt
# The commit's time, so that the same source makes the same image.
touch -d "$created" "$context"/*
test -z "${CONTEXT_ONLY:-}" || exit 0
docker build --quiet --tag "$name" --file "$dockerfile" \
  --build-arg VERSION="$version" --build-arg REVISION="$revision" --build-arg CREATED="$created" "$context"
host=$(go env GOHOSTARCH)
test "$arch" != "$host" || exit 0
# The Dockerfiles only copy: no step runs, so the image differs by the architecture that it names,
# which builders without BuildKit can't set.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
docker save "$name" | tar --extract --directory="$work"
config=$work/$(sed -E 's/.*"Config":"([^"]*)".*/\1/' "$work/manifest.json")
sed "s/\"architecture\":\"$host\"/\"architecture\":\"$arch\"/" "$config" >"$config.new" # not -i, which macOS' sed takes otherwise
mv "$config.new" "$config"
tar --create --directory="$work" . | docker load --quiet
loaded=$(docker image inspect --format '{{.Architecture}}' "$name")
test "$loaded" = "$arch" || { echo "$name is of $loaded, not $arch: this docker checks what it loads; build with BuildKit, docker buildx build --platform linux/$arch"; exit 1; }
