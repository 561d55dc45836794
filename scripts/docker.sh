#!/usr/bin/env bash
# Makes sure that dockerd, docker, docker-compose, haproxy and what else the tests of deploy/
# run are there; they start a daemon of their own. Installs them where apt can, and leaves the
# packages' services off; otherwise says what is missing.
set -euo pipefail
cd "$(dirname "$0")"
PATH=$PATH:/usr/sbin:/sbin
./redis.sh || true # what is missing is said below

# missing prints what is not there, and nothing if all is.
missing() {
  local program
  for program in dockerd docker docker-compose containerd runc haproxy redis-server openssl ip; do
    command -v $program >/dev/null || echo $program
  done
}

# give_up REASON : says what is missing and what follows from that.
give_up() {
  printf '%s\nMissing:\n' "$1"
  missing | sed 's/^/  /'
  echo 'The tests of deploy/ that need it are SKIPPED, or fail where CI is set.'
  exit 1
}

test -n "$(missing)" || exit 0
command -v apt-get >/dev/null || give_up 'There is no Docker, and no apt-get to install it with.'
root=()
if [ "$(id -u)" -ne 0 ]; then
  sudo -n true 2>/dev/null || give_up 'There is no Docker, and no right to install it: run sudo scripts/docker.sh.'
  root=(sudo -n)
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap '"${root[@]}" rm -f $policy' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy >/dev/null
  "${root[@]}" chmod 755 $policy
fi
"${root[@]}" ./apt.sh || give_up 'There is no Docker, and no list of packages to be had.'
packages=(docker.io docker-compose haproxy openssl iproute2)
# Since Debian 13 the client comes by itself.
if apt-cache show docker-cli >/dev/null 2>&1; then packages+=(docker-cli); fi
"${root[@]}" ./apt.sh "${packages[@]}" || give_up 'Docker could not be installed.'
if [ -d /run/systemd/system ]; then
  "${root[@]}" systemctl disable docker.service docker.socket containerd.service haproxy.service # or they start when the machine does
fi
test -z "$(missing)" || give_up 'Docker was installed, and something is still missing.'
dockerd --version
