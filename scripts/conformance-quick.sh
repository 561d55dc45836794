#!/usr/bin/env bash
# Compares some thousand random steps with the newest real controller of Kubernetes, from a
# fresh seed, three hundred of each stage, and a thousand with each older one, unless that was done before with the same
# sources and passed: the user's cache remembers those. ALL=1 compares with all of them, PART=2/4 with
# each fourth of the older ones.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
newest=v1.37 older=() n=0
IFS=/ read -r part parts <<<"${PART:-1/1}"
for version in v1.36 v1.28 v1.19 v1.15; do ((n++ % parts != part - 1)) || older+=($version); done
cache=${SETPOINT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/setpoint}/conformance
comma() { local IFS=,; echo "$*"; }

# sources prints a hash of all that decides how the older ones come out: each file of ours that
# the tests and the comparison are compiled of, what they read, and the versions of the rest.
sources() {
  local module files
  files=$(
    for module in conformance "${older[@]/#/conformance/}"; do
      go list -C "$module" -deps -test -f '{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}' ./... |
        grep "^$PWD/" | grep -v // | sed "s#^$PWD/##"
    done
    git ls-files -co --exclude-standard -- go.mod go.sum scripts/conformance-quick.sh \
      ':(glob)conformance/**/go.*' ':(glob)conformance/**/testdata/**' ':(glob)clients/kubernetes/recording/testdata/**'
  )
  files=$(sort -u <<<"$files")
  { go env GOVERSION GOARCH; echo "$files"; git hash-object --stdin-paths <<<"$files"; } | git hash-object --stdin
}

# tested FOLDERS... : runs the tests of those modules.
tested() {
  local module
  for module in "$@"; do (cd "$module" && go test -timeout=45m ./...); done
}

tested conformance "conformance/$newest"
(cd conformance && go run . compare -profiles=$newest -steps=3000 -stages=300)

stamp=$cache/older-$(sources)
if test -z "${ALL:-}" -a -e "$stamp"; then
  echo "NOT COMPARED again with $(comma "${older[@]}"): passed with the same sources $(cat "$stamp")"
  exit 0
fi
tested "${older[@]/#/conformance/}"
(cd conformance && go run . compare -profiles="$(comma "${older[@]}")" -steps=1000)
mkdir -p "$cache"
echo "on $(date -u +%Y-%m-%dT%H:%M:%SZ)" >"$stamp"
