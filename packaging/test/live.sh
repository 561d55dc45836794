#!/bin/bash
# Runs in a container that was booted with systemd, for scripts/test-packages.sh: packages in
# /packages; NAME-old.deb is the version before. Its output goes to /live.log.
exec >/live.log 2>&1
set -eu
export DEBIAN_FRONTEND=noninteractive
fail() {
  echo "FAILED: $*"
  journalctl --no-pager -n 40 -u 'setpoint*' || true
  exit 1
}
# await WHAT COMMAND... : polls.
await() {
  local what=$1 tries
  shift
  for ((tries = 0; tries < 600; tries++)); do
    ! "$@" >/dev/null 2>&1 || return 0
    sleep 0.2
  done
  fail "not $what within two minutes"
}
ready() { curl -fsS http://127.0.0.1:9091/readyz; }
main() { systemctl show -P MainPID setpoint.service; }
another() { [ "$(main)" != 0 ] && [ "$(main)" != "$before" ] && ready; }

dpkg -i /packages/*-old.deb >/dpkg.log 2>&1 || { cat /dpkg.log; fail 'dpkg -i'; }
complaints=$(systemd-analyze verify --man=no /usr/lib/systemd/system/setpoint*.service 2>&1 | grep setpoint || true)
[ -z "$complaints" ] || fail "systemd-analyze verify: $complaints"
systemctl is-enabled --quiet setpoint.service || fail 'the package does not enable the service'
await 'ready after the installation' ready
[ "$(stat -c %U "/proc/$(main)")" = setpoint ] || fail "the service runs as $(stat -c %U "/proc/$(main)")"
grep -q '^CapEff:[[:space:]]*0*$' "/proc/$(main)/status" || fail 'the service has capabilities'
grep -q '<title>' <<<"$(curl -fsS http://127.0.0.1:8080/ui/)" || fail 'there is no page'
echo "installed: setpoint.service is enabled and ready, as user setpoint, without capabilities"
systemd-analyze --no-pager security 'setpoint.service' | tail -n 1

# Agents are not started by their packages. What keeps one from running must be its platform, which
# is not here, and never what the unit takes from it: systemd's own statuses are 200 and above.
getent group docker >/dev/null || fail 'there is no group docker, which the units of Swarm name: systemd would end them with 216/GROUP'
for unit in setpoint-nomad setpoint-swarm setpoint-swarm-node setpoint-webhook; do
  ! systemctl is-enabled --quiet $unit.service || fail "$unit is enabled"
  systemctl start $unit.service || true
  await "started: $unit" sh -c "[ \"\$(systemctl show -P ExecMainStartTimestampMonotonic $unit.service)\" != 0 ]"
  sleep 1 # what a sandbox forbids shows at the start; a program that goes on is right, too
  status=$(systemctl show -P ExecMainStatus $unit.service) code=$(systemctl show -P ExecMainCode $unit.service)
  [ "$status" -lt 200 ] && [ "$code" != 2 ] || fail "$unit: systemd ended it, code $code, status $status"
  echo "$unit.service: $(systemctl is-active $unit.service || true), status $status"
  systemctl stop $unit.service
  systemctl reset-failed $unit.service 2>/dev/null || true
done

before=$(main)
kill -KILL "$before"
await 'running again after it was killed' another
echo 'killed: systemd started it again'

state() { for property in ActiveState NRestarts ExecMainStatus; do systemctl show -P $property setpoint.service; done | paste -sd' ' -; }
# refused WHAT COMMAND... : the command runs into settings that are refused, which stops the service for good.
refused() {
  local what=$1
  shift
  sed -i 's/^grpc-address:/grpc-adress:/' /etc/setpoint/setpoint.yaml
  "$@" >/refused.log 2>&1 || { cat /refused.log; fail "$what with settings that are refused"; }
  sleep 5 # systemd would have started it twice
  [ "$(state)" = 'failed 0 78' ] || fail "with refused settings, after $what, the service is $(state), not failed without restarts by 78"
  sed -i 's/^grpc-adress:/grpc-address:/' /etc/setpoint/setpoint.yaml
}
refused 'systemctl restart' sh -c '! systemctl restart setpoint.service'
systemctl start setpoint.service
ready >/dev/null || fail 'started, and not ready'
refused 'an upgrade' dpkg -i --force-confdef --force-confold /packages/setpoint-old.deb
echo 'settings that are refused: a restart says so, systemd does not repeat it, and the package can be upgraded'

echo '# edited' >>/etc/setpoint/setpoint.yaml
before=$(main)
dpkg -i --force-confdef --force-confold /packages/*-new.deb >/dpkg.log 2>&1 || { cat /dpkg.log; fail 'the upgrade'; }
await 'running in the new version' another
grep -qx '# edited' <<<"$(tail -n 1 /etc/setpoint/setpoint.yaml)" || fail 'the upgrade changed settings that were edited'
# It failed before, and runs again: an upgrade may be what mends it.
echo 'upgraded: the service runs on as another process, with its settings'

systemctl stop setpoint.service
[ "$(systemctl show -P Result setpoint.service)" = success ] || fail "it stopped with $(systemctl show -P Result setpoint.service)"
systemctl start setpoint.service
await 'ready again' ready
dpkg -r setpoint setpoint-kubernetes setpoint-nomad setpoint-swarm setpoint-webhook >/dpkg.log 2>&1 || { cat /dpkg.log; fail 'dpkg -r'; }
! systemctl is-active --quiet setpoint.service || fail 'the service runs on without its package'
! ready 2>/dev/null || fail 'something still answers'
echo 'removed: the service is stopped'

dpkg -i --force-confdef --force-confold /packages/setpoint-new.deb /packages/setpoint-nomad-new.deb >/dpkg.log 2>&1 || { cat /dpkg.log; fail 'dpkg -i after dpkg -r'; }
await 'ready after it was removed and installed again' ready
systemctl is-enabled --quiet setpoint.service || fail 'the package does not enable the service when it comes back'
! systemctl is-enabled --quiet setpoint-nomad.service || fail 'an agent that nobody enabled is enabled'
grep -qx '# edited' <<<"$(tail -n 1 /etc/setpoint/setpoint.yaml)" || fail 'settings that were edited are gone'
echo 'installed again: the service runs, with its settings'
echo 'live: all passed'
