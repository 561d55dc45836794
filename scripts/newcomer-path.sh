#!/usr/bin/env bash
# Prints the PATH that make test has. With CI set it is FOLDER, which gets links to the programs of
# scripts/newcomer-programs.txt, as far as they are installed: tests and scripts that start any other
# program fail in CI as they would on a newcomer's machine. Otherwise it is PATH, unchanged.
#
#   scripts/newcomer-path.sh FOLDER
set -euo pipefail
folder=$1
if [ -z "${CI:-}" ]; then
  echo "$PATH"
  exit 0
fi
rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
sed '/^#/d; s/^[^:]*: //' "$(dirname "$0")/newcomer-programs.txt" | tr ' ' '\n' | while read -r name; do
  if found=$(type -P "$name"); then ln -s "$found" "$folder/$name"; fi
done
echo 'CI: tests find only the programs of scripts/newcomer-programs.txt.' >&2
echo "$folder"
