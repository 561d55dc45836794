#!/usr/bin/env bash
# Writes a command's output to a file, atomically and only if it differs, so that a concurrent
# build sees neither half a file nor a needless change:
#
#   scripts/put.sh FILE COMMAND...
#
# Or it puts all files below one folder into another, and removes from the folders named there
# what the first one does not have:
#
#   scripts/put.sh --tree FROM TO FOLDER...
set -euo pipefail

# put FROM TO : moves a file into the place of another one.
put() {
  if cmp -s "$1" "$2"; then
    rm "$1"
    return
  fi
  chmod 644 "$1"
  mkdir -p "$(dirname "$2")"
  mv "$1" "$2.new" # which may lie on another file system
  mv "$2.new" "$2"
}

if [ "$1" != --tree ]; then
  file=$1
  shift
  new=$(mktemp)
  trap 'rm -f "$new"' EXIT
  "$@" >"$new"
  put "$new" "$file"
  exit 0
fi
from=$2 to=$3
shift 3
for folder in "$@"; do
  test -d "$to/$folder" || continue
  while IFS= read -r file; do
    test -e "$from/$folder/$file" || rm "$to/$folder/$file"
  done < <(cd "$to/$folder" && find . -type f)
done
while IFS= read -r file; do
  put "$from/$file" "$to/$file"
done < <(cd "$from" && find . -type f)
