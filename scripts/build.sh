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
  IFS=$'\n' read -r -d '' -a programs < <(cut -d' ' -f1 cmd/programs/programs.txt) || true
fi
flags='-s -w'
# Functions of amd64 closer to each other than the linker's default of 32 bytes: a third of a MiB less
# in the image of the service, which has to stay below 30.
test "${TAGS:-}" != service || flags+=' -funcalign=8'
for setting in "release=${RELEASE:-}" "commit=${COMMIT:-}" "date=${DATE:-}"; do
  test -z "${setting#*=}" || flags+=" -X github.com/setpoint-dev/setpoint/cmd/internal/cli.$setting"
done
build=(go build -ldflags="$flags" -o "$folder/")
if [ -n "${COMMIT:-}" ]; then
  build+=(-buildvcs=false) # the bytes must not depend on Go's view of the folder
elif git rev-parse --verify -q HEAD >/dev/null 2>&1; then
  build+=(-buildvcs=auto) # `version` has the commit, whatever GOFLAGS says
fi
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
