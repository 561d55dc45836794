#!/usr/bin/env bash
# Sends the README's request to a running server: demo.sh [http://host:port].
set -euo pipefail
cd "$(dirname "$0")"
rest=${1:-http://127.0.0.1:8080}
target=clusters/demo/namespaces/shop/targets/web

call() {
  local method=$1 path=$2
  shift 2
  echo "> $method $rest$path" >&2
  if ! curl -sS --fail-with-body --max-time 10 -X "$method" "$rest$path" "$@"; then
    echo >&2
    echo "no good answer from $rest: is the server running (make run)?" >&2
    exit 1
  fi
  echo
}

call POST "/v1/$target:recommend" --data-binary @request.json
