#!/usr/bin/env bash
# Makes sure that Node.js 18 or later and npm are there, for examples/node, which the
# tests run, and for the page in web. Installs them where apt can; otherwise says what is missing.
set -euo pipefail
# shellcheck source=scripts/programs.sh
. "$(dirname "$0")/programs.sh"
skipped='Without it the test of examples/node is SKIPPED, or fails where CI is set, and the page in web is not bundled.'

# missing prints the missing programs.
missing() {
  local version
  command -v npm >/dev/null || echo 'npm'
  if ! command -v node >/dev/null; then
    echo 'node'
    return
  fi
  version=$(node --version)
  version=${version#v}
  test "${version%%.*}" -ge 18 || echo "node 18 or later, there is $version"
}

test -n "$(missing)" || exit 0
if command -v brew >/dev/null; then
  give_up 'There is no Node.js: run brew install node.'
elif ! command -v apt-get >/dev/null; then
  give_up 'There is no Node.js, and no apt-get to install it with: install nodejs and npm.'
fi
become_root Node.js
"${root[@]}" "$(dirname "$0")/apt.sh" nodejs npm || give_up 'Node.js could not be installed.'
test -z "$(missing)" || give_up 'Node.js was installed, and something is still missing.'
node --version
