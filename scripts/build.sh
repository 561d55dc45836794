#!/usr/bin/env bash
# Builds programs to the folder given, as static binaries: cmd/setpoint, or the named
# ones, of cmd/ or, with a slash, of any folder of the repository; "all" are setpoint and the
# programs of all platforms. RELEASE is their version, COMMIT and DATE are what they were built
# from where that is not the repository's own state; GOOS and GOARCH are for others. TAGS are
# build tags beside those of all: "service" makes setpoint the service alone. RACE=1 builds them with the race detector. An up-to-date program is not rebuilt.
set -euo pipefail
folder=${1:?usage: scripts/build.sh FOLDER [PROGRAM...|all]}
shift
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$root"
# shellcheck source=scripts/mode.sh
. scripts/mode.sh
programs=("${@:-setpoint}")
if [ "${programs[*]}" = all ]; then
  programs=()
  for folder_of in cmd/setpoint*/; do
    # A program with a module of its own is built by its name.
    test -e "$folder_of/go.mod" || programs+=("$(basename "$folder_of")")
  done
fi
flags='-s -w'
for setting in "release=${RELEASE:-}" "commit=${COMMIT:-}" "date=${DATE:-}"; do
  test -z "${setting#*=}" || flags+=" -X github.com/setpoint-dev/setpoint/cmd/internal/cli.$setting"
done
build=(go build -ldflags="$flags" -o "$folder/")
# With a given commit, the bytes must not depend on Go's view of the folder.
test -z "${COMMIT:-}" || build+=(-buildvcs=false)
# shellcheck disable=SC2154 # tags is set by mode.sh
test -z "${TAGS:-}" || build+=(-tags="$tags,$TAGS")
if [ -n "${RACE:-}" ]; then
  build+=(-race)
  export CGO_ENABLED=1
fi
ours=()
for program in "${programs[@]}"; do
  case $program in
    */*) (cd "$program" && "${build[@]}" .) ;;
    *) ours+=("./cmd/$program") ;;
  esac
done
test ${#ours[@]} -eq 0 || "${build[@]}" "${ours[@]}"
