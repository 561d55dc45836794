#!/usr/bin/env bash
# Fails if a script pipes into a command that ends before it has read all: grep -q, grep -m or
# head. Who writes the pipe is then killed by SIGPIPE, or not, by chance; and with pipefail a
# match becomes a failure. Use grep -q … <<<"$(command)", or sed -n 1p. And if one uses mapfile, which
# macOS' bash, 3.2, lacks. Use IFS=$'\n' read -r -d '' -a lines < <(command) || true.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
while read -r file; do
  # A pipe at the end of a line goes on in the next.
  if sed -E ':a; /\|[[:space:]]*\\?$/ { N; s/\n/ /; ba }' "$file" | grep -vE '^[[:space:]]*#' |
    grep -E '[^|]\|&?[[:space:]]*(head\b|grep([[:space:]]+-[^[:space:]]+)*[[:space:]]+(-[a-zA-Z]*[qm]|--quiet|--silent|--max-count))'; then
    echo "$file: reads only the start of a pipe; see scripts/pipes.sh"
    status=1
  fi
done < <(git ls-files '*.sh' .ci/run)
! git grep -nE '^[[:space:]]*(mapfile|readarray)\b' -- '*.sh' .ci/run || status=1
exit $status
