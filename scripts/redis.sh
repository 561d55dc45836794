#!/usr/bin/env bash
# Makes sure that redis-server 7.0 or later, also as a sentinel, and redis-cli are
# there, for the tests of store/redis, which start servers of their own. Installs
# them where apt can, and leaves the package's service off; otherwise says what is
# missing.
set -euo pipefail
# shellcheck source=scripts/programs.sh
. "$(dirname "$0")/programs.sh"
skipped='The tests of store/redis that need it are SKIPPED, or fail where CI or SETPOINT_REQUIRE_REDIS is set.'

# missing prints the missing programs.
missing() {
  local version
  command -v redis-cli >/dev/null || echo 'redis-cli'
  if ! command -v redis-server >/dev/null; then
    echo 'redis-server'
    return
  fi
  version=$(redis-server --version | sed -E 's/.* v=([0-9.]+).*/\1/')
  test "${version%%.*}" -ge 7 || echo "redis-server 7.0 or later, there is $version"
  # A sentinel that gets no configuration file complains of that and exits.
  grep -qi sentinel <<<"$(redis-server --sentinel 2>&1 </dev/null)" || echo 'redis-server --sentinel'
}

test -n "$(missing)" || exit 0
if command -v redis-server >/dev/null; then
  # Replacing it could stop a running server.
  give_up 'The Redis that is installed does not do.'
elif command -v brew >/dev/null; then
  give_up 'There is no Redis: run brew install redis.'
elif ! command -v apt-get >/dev/null; then
  give_up 'There is no Redis, and no apt-get to install it with.'
fi

become_root Redis
start_no_services
"${root[@]}" "$(dirname "$0")/apt.sh" redis-server || give_up 'Redis could not be installed.'
disable_services redis-server
test -z "$(missing)" || give_up 'Redis was installed, and something is still missing.'
redis-server --version
