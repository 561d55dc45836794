#!/usr/bin/env bash
# Makes sure that prometheus 2.30 or later is there, for the tests in test/e2e/samples,
# which start a server of their own. Installs it where apt can, and leaves the package's
# service off; otherwise says what is missing.
set -euo pipefail
# shellcheck source=scripts/programs.sh
. "$(dirname "$0")/programs.sh"
skipped='The tests of test/e2e/samples that need it are SKIPPED, or fail where CI is set.'

# missing prints the missing programs.
missing() {
  local version
  if ! command -v prometheus >/dev/null; then
    echo 'prometheus'
    return
  fi
  version=$(prometheus --version 2>&1 | sed -nE '1s/.*version ([0-9]+)\.([0-9]+).*/\1 \2/p')
  # shellcheck disable=SC2086 # two words
  set -- ${version:-0 0}
  test "$1" -gt 2 || test "$1" -eq 2 -a "$2" -ge 30 || echo "prometheus 2.30 or later, there is ${version/ /.}"
}

test -n "$(missing)" || exit 0
if command -v prometheus >/dev/null; then
  # Replacing it could stop a running server.
  give_up 'The Prometheus that is installed does not do.'
elif command -v brew >/dev/null; then
  give_up 'There is no Prometheus: run brew install prometheus.'
elif ! command -v apt-get >/dev/null; then
  give_up 'There is no Prometheus, and no apt-get to install it with.'
fi

become_root Prometheus
start_no_services
# Without recommended packages there is no exporter: the tests have one of their own.
"${root[@]}" "$(dirname "$0")/apt.sh" prometheus || give_up 'Prometheus could not be installed.'
disable_services prometheus
test -z "$(missing)" || give_up 'Prometheus was installed, and something is still missing.'
prometheus --version 2>&1 | sed -n 1p
