#!/usr/bin/env bash
# Makes sure that the version before this one is installed: setpoint, setpoint-kubernetes and
# the Helm chart (chart/), and prints the folder that has them. That is what SETPOINT_PREVIOUS
# names, or the last tag before this commit, or as long as there is none the first commit that
# reads what today's writes. It is in the user's cache (SETPOINT_CACHE, or else setpoint/ in
# XDG_CACHE_HOME or ~/.cache), by commit. It needs the history: git fetch --unshallow.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${SETPOINT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/setpoint}

name=${SETPOINT_PREVIOUS:-$(git describe --tags --abbrev=0 --match='v*' HEAD^ 2>/dev/null || true)}
name=${name:-9f488e2609e0be1bf1a7752d631f314fa2844485}
commit=$(git rev-parse --verify --quiet "$name^{commit}") || {
  echo "there is no $name here; in a shallow clone: git fetch --unshallow --tags" >&2
  exit 1
}
folder=$cache/previous/${commit::12}-$(go env GOVERSION)
mkdir -p "$folder"
exec 9>"$folder/.lock"
if command -v flock >/dev/null; then flock 9; fi
if [ ! -d "$folder/chart" ]; then
  echo "building what ${name::12} has, which may take minutes" >&2
  tree=$(mktemp -d "$folder/.tree.XXXXXX")
  trap 'rm -rf "$tree"' EXIT
  git archive "$commit" | tar -x -C "$tree"
  COMMIT=$commit "$tree/scripts/build.sh" "$folder" setpoint setpoint-kubernetes >&2
  mv "$tree/deploy/helm/setpoint" "$folder/chart" # last, so that half of it is never there
fi
echo "$folder"
