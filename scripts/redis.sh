#!/usr/bin/env bash
# Makes sure that redis-server 7.0 or later, also as a sentinel, and redis-cli are
# there, for the tests of store/redis, which start servers of their own. Installs
# them where apt can, and leaves the package's service off; otherwise says what is
# missing.
set -euo pipefail

# missing prints what is not there, and nothing if all is.
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
  { redis-server --sentinel 2>&1 </dev/null || true; } | grep -qi sentinel || echo 'redis-server --sentinel'
}

# give_up REASON : says what is missing and what follows from that.
give_up() {
  printf '%s\nMissing:\n' "$1"
  missing | sed 's/^/  /'
  echo 'The tests of store/redis that need it are SKIPPED, or fail where CI or SETPOINT_REQUIRE_REDIS is set.'
  exit 1
}

test -n "$(missing)" || exit 0
if command -v redis-server >/dev/null; then
  # To replace it could stop a server that somebody runs.
  give_up 'The Redis that is installed does not do.'
elif command -v brew >/dev/null; then
  give_up 'There is no Redis: run brew install redis.'
elif ! command -v apt-get >/dev/null; then
  give_up 'There is no Redis, and no apt-get to install it with.'
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
  sudo -n true 2>/dev/null || give_up 'There is no Redis, and no right to install it: run sudo scripts/redis.sh.'
  root=(sudo -n)
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap '"${root[@]}" rm -f $policy' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy >/dev/null
  "${root[@]}" chmod 755 $policy
fi
"${root[@]}" "$(dirname "$0")/apt.sh" redis-server || give_up 'Redis could not be installed.'
if [ -d /run/systemd/system ]; then
  "${root[@]}" systemctl disable redis-server # or it starts when the machine does
fi
test -z "$(missing)" || give_up 'Redis was installed, and something is still missing.'
redis-server --version
