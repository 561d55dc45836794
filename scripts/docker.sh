#!/usr/bin/env bash
# Makes sure that dockerd, docker, docker-compose, haproxy and what else the tests of deploy/
# run are there; they start a daemon of their own. Installs them where apt can, and leaves the
# packages' services off; otherwise says what is missing.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=scripts/programs.sh
. ./programs.sh
skipped='The tests of deploy/ that need it are SKIPPED, or fail where CI is set.'
PATH=$PATH:/usr/sbin:/sbin
./redis.sh || true # what is missing is said below

# missing prints the missing programs.
missing() {
  local program
  for program in dockerd docker docker-compose containerd runc haproxy redis-server openssl ip; do
    command -v $program >/dev/null || echo $program
  done
}

test -n "$(missing)" || exit 0
command -v apt-get >/dev/null || give_up 'There is no Docker, and no apt-get to install it with.'
become_root Docker
start_no_services
"${root[@]}" ./apt.sh || give_up 'There is no Docker, and no list of packages to be had.'
packages=(docker.io docker-compose haproxy openssl iproute2)
# Since Debian 13 the client comes by itself.
if apt-cache show docker-cli >/dev/null 2>&1; then packages+=(docker-cli); fi
"${root[@]}" ./apt.sh "${packages[@]}" || give_up 'Docker could not be installed.'
disable_services docker.service docker.socket containerd.service haproxy.service
test -z "$(missing)" || give_up 'Docker was installed, and something is still missing.'
dockerd --version
