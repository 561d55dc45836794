#!/usr/bin/env bash
# Makes sure that h2load and slowhttptest are there, for the tests of test/e2e/edge that
# attack with the tools of others. Installs them where apt can; otherwise says what is missing.
set -euo pipefail

# missing prints what is not there, and nothing if all is.
missing() {
  command -v h2load >/dev/null || echo 'h2load (of nghttp2)'
  command -v slowhttptest >/dev/null || echo 'slowhttptest'
}

# give_up REASON : says what is missing and what follows from that.
give_up() {
  printf '%s\nMissing:\n' "$1"
  missing | sed 's/^/  /'
  echo 'The tests of test/e2e/edge that need it are SKIPPED, or fail where CI is set.'
  exit 1
}

test -n "$(missing)" || exit 0
command -v apt-get >/dev/null || give_up 'There is no apt-get to install them with.'
root=()
if test "$(id -u)" -ne 0; then
  command -v sudo >/dev/null || give_up 'Only root can install them, and there is no sudo.'
  root=(sudo -n)
fi
"${root[@]}" "$(dirname "$0")/apt.sh" nghttp2-client slowhttptest || give_up 'They could not be installed.'
test -z "$(missing)" || give_up 'They are installed and do not do.'
