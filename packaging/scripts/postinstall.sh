#!/bin/sh
# After files of @PACKAGE@ were unpacked: on Debian `configure [OLD VERSION]`, with rpm `1`, or `2`
# for an upgrade. scripts/release-files.sh fills in the names.
set -e
case "$1" in
  configure) first=no; test -n "$2" || first=yes ;;
  1) first=yes ;;
  2) first=no ;;
  *) exit 0 ;; # an installation that was given up
esac
if ! getent passwd setpoint >/dev/null; then
  useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin setpoint
fi
# Supplementary groups of the units: systemd does not start a unit whose group is missing. Docker's
# packages create theirs in the same way, so the order does not matter.
for group in @GROUPS@; do
  getent group "$group" >/dev/null || groupadd --system "$group"
done
# Settings may contain secrets.
chown root:setpoint /etc/setpoint
chmod 0750 /etc/setpoint
test -d /run/systemd/system || exit 0 # a chroot, a container, another init
systemctl daemon-reload
# A unit that does not start says so; the package is installed nevertheless, and can be upgraded.
start() { if command -v deb-systemd-invoke >/dev/null; then deb-systemd-invoke start "$1"; else systemctl start "$1"; fi || true; }
for unit in @UNITS@; do
  if test -e "/etc/setpoint/.$unit"; then # removed while it was enabled, and not purged since
    rm "/etc/setpoint/.$unit"
    systemctl enable "$unit"
    start "$unit"
  elif test $first = no; then
    if systemctl is-failed --quiet "$unit"; then start "$unit"; else systemctl try-restart "$unit" || true; fi
  elif test "$unit" = setpoint.service; then
    # The service listens on this machine only, so it can start unconfigured. Agents can not.
    systemctl preset "$unit"
    if systemctl is-enabled --quiet "$unit"; then start "$unit"; fi
  fi
done
