#!/usr/bin/env bash
# Runs the Python example: run.sh [host:port]. With the system's Python if that has
# grpcio (scripts/python.sh installs it on Debian), else in a virtual environment with
# what requirements.txt names. PYTHON chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")"

# has_grpc PYTHON : can it run the example, but for the stubs?
has_grpc() { "$1" -c 'import grpc, google.protobuf' 2>/dev/null; }

python=${PYTHON:-}
if [ -z "$python" ]; then
  for candidate in python3 /usr/bin/python3; do
    if has_grpc "$candidate"; then
      python=$candidate
      break
    fi
  done
fi
if [ -z "$python" ]; then
  python=.venv/bin/python
  test -x $python || python3 -m venv .venv
  has_grpc $python || $python -m pip install --quiet -r requirements.txt
fi

stubs=$(mktemp -d)
trap 'rm -rf "$stubs"' EXIT
./generate.sh "$stubs" "$python"
PYTHONPATH=$stubs PYTHONDONTWRITEBYTECODE=1 "$python" recommend.py "$@"
