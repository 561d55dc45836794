#!/usr/bin/env bash
# Looks for known vulnerabilities in what the programs are built of. The database is on the
# network: where it can't be reached this says that nothing was checked, and .ci/run says so in its last lines.
set -uo pipefail
cd "$(dirname "$0")/.."
output=$(go tool -modfile=tools/govulncheck/go.mod govulncheck ./... 2>&1)
status=$?
printf '%s\n' "$output"
if [ $status -ne 0 ] && grep -q 'fetching vulnerabilities' <<<"$output"; then
  echo 'NOT CHECKED for vulnerabilities: the database can not be reached from here.'
  exit 0
fi
exit $status
