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
read -r -d '' -a names < <(sed '/^#/d; s/^[^:]*: //' "$(dirname "$0")/newcomer-programs.txt") || true
IFS=$'\n' read -r -d '' -a programs < <(type -P "${names[@]}") || true # without those that are not installed
ln -s "${programs[@]}" "$folder"
echo 'CI: tests find only the programs of scripts/newcomer-programs.txt.' >&2
echo "$folder"
