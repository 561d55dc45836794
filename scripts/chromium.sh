#!/usr/bin/env bash
# Installs Chromium, and axe-core of test/e2e/ui, for the tests of the web
# page. Installs them where apt and npm can; otherwise says what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/programs.sh
. scripts/programs.sh
skipped='The tests of the web page are SKIPPED or do not look for what keeps people out, and fail where CI is set.'

# missing prints the missing programs.
missing() {
  test -n "${CHROMIUM:-}" || command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || echo 'chromium'
  cmp -s test/e2e/ui/package-lock.json test/e2e/ui/node_modules/.setpoint-lock || echo 'axe-core (npm ci in test/e2e/ui)'
}

test -n "$(missing)" || exit 0
if grep -q '^chromium' <<<"$(missing)"; then
  command -v apt-get >/dev/null || give_up 'There is no Chromium, and no apt-get to install it with.'
  become_root Chromium
  "${root[@]}" scripts/apt.sh chromium || give_up 'Chromium could not be installed.'
fi
if grep -q '^axe-core' <<<"$(missing)"; then
  scripts/node.sh || give_up 'There is no npm.'
  (cd test/e2e/ui && npm ci --no-audit --no-fund && cp package-lock.json node_modules/.setpoint-lock) || give_up 'npm ci failed.'
fi
test -z "$(missing)" || give_up 'Something is still missing.'
