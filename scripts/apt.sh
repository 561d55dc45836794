#!/usr/bin/env bash
# Installs packages with apt, as root: apt.sh [PACKAGE...]. It waits for other users
# of apt, and retries a mirror that did not answer. Without packages it only updates the
# package lists.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
options=(-y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3)
tries=5
for ((try = 1; try <= tries; try++)); do
  if apt-get "${options[@]}" update && { test $# -eq 0 || apt-get "${options[@]}" install --no-install-recommends "$@"; }; then
    exit 0
  fi
  test $try -eq $tries || sleep 10 # another may be reading the lists, which is not waited for
done
exit 1
