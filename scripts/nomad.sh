#!/usr/bin/env bash
# Prints the path of a Nomad that tests may start: $NOMAD, the nomad on the PATH, or the packed
# one beside the checkout (../shared/nomad), unpacked to the user's cache. Without one it says so,
# and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
found=${NOMAD:-$(command -v nomad || true)}
if test -z "$found"; then
  for one in ../shared/nomad/nomad-*-"$(go env GOOS)-$(go env GOARCH)".xz; do
    test -r "$one" || continue
    folder=${SETPOINT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/setpoint}/nomad
    found=$folder/$(basename "$one" .xz)
    mkdir -p "$folder"
    exec 9>"$folder/.lock" # several may want it at once
    if command -v flock >/dev/null; then flock 9; fi
    test "$found" -nt "$one" || { xz -dc "$one" >"$found.new" && chmod +x "$found.new" && mv "$found.new" "$found"; }
    break
  done
fi
test -n "$found" && "$found" version >/dev/null 2>&1 || {
  echo 'There is no Nomad: put nomad on the PATH (https://developer.hashicorp.com/nomad/install), or set NOMAD to its file.' >&2
  exit 1
}
(cd "$(dirname "$found")" && echo "$PWD/$(basename "$found")")
