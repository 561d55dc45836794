# shellcheck shell=bash
# To be sourced by scripts that install other programs. They define the function missing,
# which prints the missing programs, and set skipped: the consequence of a missing one.

# give_up REASON : reports what is missing, and the consequence.
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

# start_no_services : while the script runs, installed packages start no services.
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
