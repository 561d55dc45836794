#!/usr/bin/env bash
# Makes sure that kube-apiserver, kube-controller-manager and kubectl are there, built
# from the module that tools/kubernetes pins, and prints the folder that has them.
# Without Go's cache of earlier builds that takes several minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
module=k8s.io/kubernetes
programs='kube-apiserver kube-controller-manager kubectl'

version=$(go list -C tools/kubernetes -m -f '{{.Version}}' $module)
folder=$PWD/bin/kubernetes/$version
mkdir -p "$folder"
# Several test processes may want them at once: one builds.
exec 9>"$folder/.lock"
if command -v flock >/dev/null; then flock 9; fi

stamp=k8s.io/component-base/version
minor=${version#v*.}
flags="-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=${version:1:1} -X $stamp.gitMinor=${minor%%.*} -X $stamp.gitTreeState=clean"
for program in $programs; do
  test -x "$folder/$program" && continue
  echo "building $program $version, which may take minutes" >&2
  go build -C tools/kubernetes -trimpath -ldflags="$flags" -o "$folder/.$program" $module/cmd/"$program"
  mv "$folder/.$program" "$folder/$program" # so that half of one is never there
done
echo "$folder"
