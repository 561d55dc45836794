# shellcheck shell=bash
# For the scripts to source that make sure that other programs are there. They define the
# function missing, which prints what is not there and nothing if all is, and set skipped:
# what follows where something is missing.

# give_up REASON : says what is missing and what follows from that.
give_up() {
  printf '%s\nMissing:\n' "$1"
  missing | sed 's/^/  /'
  # shellcheck disable=SC2154 # set by who sources this
  echo "$skipped"
  exit 1
}

# become_root WHAT : "${root[@]}" before a command has it run by root; without the right to,
# WHAT can't be installed.
become_root() {
  root=()
  test "$(id -u)" -ne 0 || return 0
  sudo -n true 2>/dev/null || give_up "There is no $1, and no right to install it: run sudo scripts/$(basename "$0")."
  root=(sudo -n)
}

# start_no_services : while the script runs, packages that are installed start none.
start_no_services() {
  local policy=/usr/sbin/policy-rc.d
  test ! -e $policy || return 0
  trap '"${root[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy >/dev/null
  "${root[@]}" chmod 755 $policy
}

# disable_services SERVICE... : or they start when the machine does.
disable_services() {
  test ! -d /run/systemd/system || "${root[@]}" systemctl disable "$@"
}
