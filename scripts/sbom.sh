#!/bin/sh
# Writes the bill of materials of a program: sbom.sh PROGRAM FILE, for goreleaser. What is known of
# licences, and the version and commit, are in bin/release-files, where scripts/release-files.sh left it.
set -eu
known=$(dirname "$0")/../bin/release-files
"$known/tools/licenses" sbom "$1" "$known/licenses/known.json" $(cat "$known/licenses/version") >"$2"
