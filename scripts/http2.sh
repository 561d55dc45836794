#!/usr/bin/env bash
# Makes sure that h2load and slowhttptest are there, for the tests of test/e2e/edge that
# attack with the tools of others. Installs them where apt can; otherwise says what is missing.
set -euo pipefail
# shellcheck source=scripts/programs.sh
. "$(dirname "$0")/programs.sh"
skipped='The tests of test/e2e/edge that need it are SKIPPED, or fail where CI is set.'

# missing prints the missing programs.
missing() {
  command -v h2load >/dev/null || echo 'h2load (of nghttp2)'
  command -v slowhttptest >/dev/null || echo 'slowhttptest'
}

test -n "$(missing)" || exit 0
command -v apt-get >/dev/null || give_up 'There is no apt-get to install them with.'
become_root h2load
"${root[@]}" "$(dirname "$0")/apt.sh" nghttp2-client slowhttptest || give_up 'They could not be installed.'
test -z "$(missing)" || give_up 'They are installed and do not do.'
