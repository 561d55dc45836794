#!/usr/bin/env bash
# Makes sure that the system's Python can speak gRPC, that stubs for it can be generated, and that it
# can build a package, for examples/python and clients/python, which the tests run. Installs Debian's packages where
# apt can; otherwise says what is missing. examples/python/run.sh does without
# them where pip reaches a package index.
set -euo pipefail
# shellcheck source=scripts/programs.sh
. "$(dirname "$0")/programs.sh"
skipped='The test of examples/python is SKIPPED, or fails where CI is set.'

packages=(python3 python3-grpcio python3-protobuf python3-pip python3-wheel mypy protobuf-compiler protobuf-compiler-grpc libprotobuf-dev)

# missing prints the missing packages. A python3 of another origin
# may come first; the packages are the system's.
missing() {
  local python has=
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import grpc, google.protobuf' 2>/dev/null; then
      has=$python
      break
    fi
  done
  test -n "$has" || echo 'grpc and protobuf for python3'
  ! command -v apt-get >/dev/null || /usr/bin/python3 -c 'import pip, wheel' 2>/dev/null || echo 'pip and wheel for /usr/bin/python3' # the client's README
  ! command -v apt-get >/dev/null || command -v mypy >/dev/null || echo 'mypy' # checks the client's types
  if [ -n "$has" ] && "$has" -c 'import grpc_tools' 2>/dev/null; then
    return
  fi
  command -v protoc >/dev/null || echo 'protoc'
  command -v grpc_python_plugin >/dev/null || echo 'grpc_python_plugin'
  test -e /usr/include/google/protobuf/descriptor.proto || echo '/usr/include/google/protobuf'
}

test -n "$(missing)" || exit 0
command -v apt-get >/dev/null || give_up 'Python has no gRPC, and there is no apt-get to install it with: run pip install grpcio-tools.'
become_root 'gRPC for Python'
"${root[@]}" "$(dirname "$0")/apt.sh" "${packages[@]}" || give_up 'gRPC for Python could not be installed.'
test -z "$(missing)" || give_up 'gRPC for Python was installed, and something is still missing.'
