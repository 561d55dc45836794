#!/bin/sh
# After files of @PACKAGE@ were removed. Settings and state stay until Debian's `purge`; rpm has
# no purge, and keeps edited settings. The user stays: it may own other files.
set -e
if test -d /run/systemd/system; then systemctl daemon-reload; fi
test "$1" = purge || exit 0
for unit in @UNITS@; do rm -f "/etc/setpoint/.$unit"; done
for folder in @STATE@; do rm -rf "/var/lib/$folder"; done
rmdir /etc/setpoint 2>/dev/null || true # others may have files in it
