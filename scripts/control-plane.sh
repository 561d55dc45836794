#!/usr/bin/env bash
# Makes sure that etcd, kube-apiserver, kube-controller-manager and kubectl are there, built
# from the modules that tools/etcd and tools/kubernetes pin, and prints the folder that has
# them. It is in the user's cache, by what it was built of, so that every checkout finds it:
# SETPOINT_CACHE, or else setpoint/ in XDG_CACHE_HOME or ~/.cache. Without Go's cache of earlier
# builds, to build them takes several minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/mode.sh
. scripts/mode.sh
cache=${SETPOINT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/setpoint}

version=$(go list -C tools/kubernetes -m -f '{{.Version}}' k8s.io/kubernetes)
made_of=$({ go env GOVERSION GOOS GOARCH; cat scripts/control-plane.sh tools/{etcd,kubernetes}/go.{mod,sum}; } | git hash-object --stdin)
folder=$cache/control-plane/$version-${made_of::12}
mkdir -p "$folder"
# Several test processes may want them at once: one builds.
exec 9>"$folder/.lock"
if command -v flock >/dev/null; then flock 9; fi

# build NAME FOLDER PACKAGE FLAGS : builds a program unless it is there.
build() {
  test ! -x "$folder/$1" || return 0
  echo "building $1, which may take minutes" >&2
  go build -C "$2" -ldflags="-s -w $4" -o "$folder/.$1" "$3"
  mv "$folder/.$1" "$folder/$1" # so that half of one is never there
}

stamp=k8s.io/component-base/version
minor=${version#v*.}
stamped="-X $stamp.gitVersion=$version -X $stamp.gitMajor=${version:1:1} -X $stamp.gitMinor=${minor%%.*} -X $stamp.gitTreeState=clean"
for program in kube-apiserver kube-controller-manager kubectl; do
  build $program tools/kubernetes k8s.io/kubernetes/cmd/$program "$stamped"
done
build etcd tools/etcd go.etcd.io/etcd/server/v3 ''
echo "$folder"
