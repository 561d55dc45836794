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
# Groups that units name beside the user's: systemd starts no unit whose group is not there. Docker's
# own packages make theirs in the same way, whichever comes first.
for group in @GROUPS@; do
  getent group "$group" >/dev/null || groupadd --system "$group"
done
# What the programs read may name secrets.
chown root:setpoint /etc/setpoint
chmod 0750 /etc/setpoint
test -d /run/systemd/system || exit 0 # a chroot, a container, another init
systemctl daemon-reload
for unit in @UNITS@; do
  if test $first = no; then
    systemctl try-restart "$unit"
  elif test "$unit" = setpoint.service; then
    # It serves this machine only, so it can start as it is. Agents have to be configured first.
    systemctl preset "$unit"
    if systemctl is-enabled --quiet "$unit"; then
      if command -v deb-systemd-invoke >/dev/null; then deb-systemd-invoke start "$unit"; else systemctl start "$unit"; fi
    fi
  fi
done
