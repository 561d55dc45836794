#!/bin/sh
# Before files of @PACKAGE@ are removed: on Debian `remove` or `upgrade VERSION`, with rpm `0`, or
# `1` for an upgrade, during which programs keep running until they are restarted.
set -e
case "$1" in
  remove | 0) ;;
  *) exit 0 ;;
esac
test -d /run/systemd/system || exit 0
for unit in @UNITS@; do
  # If the package comes back before a purge, Debian tells its scripts of an upgrade: this file, of one that was removed.
  if test "$1" = remove && systemctl is-enabled --quiet "$unit"; then touch "/etc/setpoint/.$unit"; fi
  systemctl disable --now "$unit"
done
