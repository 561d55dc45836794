#!/usr/bin/env bash
# Tests the packages of bin/release, which it makes where there are none: installed, started,
# stopped, upgraded, removed and purged in a Debian of their own, in a folder that is a root for
# them; the RPMs likewise with rpm. The units are held to a score of systemd-analyze security of
# at most 2.0. Needs root and apt; the Debian is kept in the user's cache.
#
# A systemd of their own, in a container of systemd-nspawn's, then runs the units as installed, through
# a crash, an upgrade and the removal. Where the container can't be had the test says so, or fails if CI
# is set.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
step() { printf '== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

[ "$(id -u)" -eq 0 ] || fail 'needs root: it installs packages in a folder of its own'
missing=()
for program in debootstrap rpm systemd-analyze curl; do command -v $program >/dev/null || missing+=($program); done
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || fail "there is no ${missing[*]}, and no apt-get to install it with"
  scripts/apt.sh debootstrap rpm systemd curl >/dev/null
fi

arch=$(dpkg --print-architecture)
ls bin/release/*_"$arch".deb >/dev/null 2>&1 || TARGETS=linux_$arch scripts/release.sh --snapshot
IFS=$'\n' read -r -d '' -a packages < <(cut -d' ' -f1 cmd/programs/programs.txt) || true
# package NAME FORMAT : its only file.
package() {
  local files=()
  case "$2" in
    deb) files=(bin/release/"$1"_*_"$arch".deb) ;;
    rpm) files=(bin/release/"$1"-[0-9]*."$(uname -m)".rpm) ;;
  esac
  [ ${#files[@]} -eq 1 ] && [ -f "${files[0]}" ] || fail "the files of $1 are ${files[*]}"
  echo "${files[0]}"
}

step 'units: systemd-analyze'
for unit in packaging/systemd/*.service; do
  verdict=$(systemd-analyze security --offline=true "$unit" | tail -n 1)
  score=$(sed -nE 's/.*: ([0-9]+\.[0-9]+) .*/\1/p' <<<"$verdict")
  echo "  ${unit##*/} $score"
  awk -v score="${score:-10}" 'BEGIN { exit !(score <= 2.0) }' || fail "$verdict: at most 2.0"
done

step 'a Debian'
work=$(mktemp -d)
started=
cleanup() {
  [ -z "$started" ] || kill "$started" 2>/dev/null || true
  if debian_gone "$work/debian" && debian_gone "$work/live"; then rm -rf --one-file-system "$work"; fi
}
trap cleanup EXIT
debian "$work/debian"
inside() { chroot "$work/debian" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }

step 'installed'
# The version before: the same, but for its number and a line of its settings.
mkdir "$work/old" "$work/debian/packages"
for name in "${packages[@]}"; do
  cp "$(package "$name" deb)" "$work/debian/packages/$name-new.deb"
  dpkg-deb -R "$(package "$name" deb)" "$work/old/$name"
  sed -i 's/^Version: .*/Version: 0.0.0~old/' "$work/old/$name/DEBIAN/control"
  for file in "$work/old/$name"/etc/setpoint/*.yaml; do [ ! -f "$file" ] || echo '# of the version before' >>"$file"; done
  dpkg-deb -b -Zgzip -z1 --root-owner-group "$work/old/$name" "$work/debian/packages/$name-old.deb" >/dev/null
done
inside sh -c 'dpkg -i /packages/*-old.deb' >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log"; fail 'dpkg -i'; }
inside getent passwd setpoint | grep ':/nonexistent:/usr/sbin/nologin$' >/dev/null || fail 'there is no user setpoint that nobody logs in as'
inside stat -c '%a %U:%G' /etc/setpoint | grep -x '750 root:setpoint' >/dev/null || fail "/etc/setpoint is $(inside stat -c '%a %U:%G' /etc/setpoint)"
inside getent group docker >/dev/null || fail 'there is no group docker, which units of setpoint-swarm name'
for name in "${packages[@]}"; do
  inside "/usr/bin/$name" --version | grep "^$name version v" >/dev/null || fail "$name --version"
  for file in "usr/share/man/man1/$name.1.gz" "usr/share/bash-completion/completions/$name" "usr/share/doc/$name/copyright" "usr/share/doc/$name/THIRD_PARTY_LICENSES"; do
    [ -s "$work/debian/$file" ] || fail "$name lacks $file"
  done
done
inside kubectl-setpoint --help | grep 'kubectl setpoint' >/dev/null || fail 'the plugin of kubectl'

# of UNIT KEY : what the installed unit says.
of() { sed -nE "s/^$2=//p" "$work/debian/usr/lib/systemd/system/$1.service"; }
for file in "$work"/debian/usr/lib/systemd/system/setpoint*.service; do
  unit=$(basename "$file" .service)
  read -ra command <<<"$(of "$unit" ExecStart)"
  [ -x "$work/debian${command[0]}" ] || fail "$unit starts ${command[0]}, which is not there"
  # Settings as installed are such that each program takes them, with the files that they name.
  inside sh -c 'for f in webhook.keys nodes.secret; do echo "k1:0123456789abcdef0123456789abcdef" >/etc/setpoint/$f; chown root:setpoint /etc/setpoint/$f; chmod 640 /etc/setpoint/$f; done'
  state=$(of "$unit" StateDirectory)
  [ -z "$state" ] || inside install -d -o setpoint -g setpoint -m 755 "/var/lib/$state" # as systemd does
  case "${command[1]}" in
    serve | agent | node) inside setpriv --reuid=setpoint --regid=setpoint --clear-groups --no-new-privs --bounding-set=-all "${command[@]}" --check >"$work/check.log" 2>&1 ||
      { cat "$work/check.log"; fail "$unit refuses its settings as installed"; } ;;
  esac
done

# start : runs setpoint.service's program as its user until it is ready.
start() {
  local deadline=$((SECONDS + 60))
  read -ra command <<<"$(of setpoint ExecStart)"
  chroot "$work/debian" env -i PATH=/usr/bin:/bin setpriv --reuid=setpoint --regid=setpoint --clear-groups --no-new-privs --bounding-set=-all "${command[@]}" >"$work/serve.log" 2>&1 &
  started=$!
  until curl -fsS "http://127.0.0.1:$1/readyz" >/dev/null 2>&1; do
    kill -0 "$started" 2>/dev/null || { cat "$work/serve.log"; fail 'the service ended'; }
    [ $SECONDS -lt $deadline ] || { cat "$work/serve.log"; fail 'the service is not ready'; }
    sleep 0.2
  done
}
stop() {
  kill -TERM "$started"
  wait "$started" || { cat "$work/serve.log"; fail "the service stopped with $?"; }
  started=
}
# Ports of this machine may be taken; the addresses are an operator's change, too, which upgrades keep.
read -r grpc rest admin <<<"$(python3 -c 'import socket; s=[socket.socket() for _ in range(3)]; [x.bind(("127.0.0.1", 0)) for x in s]; print(*[x.getsockname()[1] for x in s])')"
sed -i "s/:9090\"/:$grpc\"/; s/:8080\"/:$rest\"/; s/:9091\"/:$admin\"/" "$work/debian/etc/setpoint/setpoint.yaml"

step 'started'
start "$admin"
curl -fsS --data-binary @deploy/demo/request.json "http://127.0.0.1:$rest/v1/clusters/demo/namespaces/shop/targets/web:recommend" >"$work/answer.json"
grep -q '"desiredReplicas": *5' "$work/answer.json" || fail 'the recommendation'
step 'stopped'
stop

step 'upgraded: settings stay'
cp "$work/debian/etc/setpoint/setpoint.yaml" "$work/edited.yaml"
inside sh -c 'dpkg -i --force-confdef --force-confold /packages/*-new.deb' >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log"; fail 'the upgrade'; }
cmp "$work/edited.yaml" "$work/debian/etc/setpoint/setpoint.yaml" || fail 'the upgrade changed settings that were edited'
cmp packaging/config/nomad.yaml "$work/debian/etc/setpoint/nomad.yaml" || fail 'the upgrade left settings that nobody edited'
inside dpkg-query -W -f '${Version}\n' setpoint | grep -v old >/dev/null || fail 'the upgrade is not installed'
start "$admin"
stop

step 'removed: settings stay, programs go'
inside sh -c "dpkg -r ${packages[*]}" >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log"; fail 'dpkg -r'; }
[ ! -e "$work/debian/usr/bin/setpoint" ] || fail 'programs are left'
cmp "$work/edited.yaml" "$work/debian/etc/setpoint/setpoint.yaml" || fail 'settings are gone before purge'

step 'purged: all goes'
rm "$work"/debian/etc/setpoint/{webhook.keys,nodes.secret}
inside sh -c "dpkg -P setpoint setpoint-nomad setpoint-swarm setpoint-webhook" >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log"; fail 'dpkg -P'; }
left=$(find "$work/debian" -xdev -path "$work/debian/proc" -prune -o -path "$work/debian/packages" -prune -o -name '*setpoint*' -print | sed "s#^$work/debian##")
[ -z "$left" ] || fail "left behind: $left"

step 'RPM: installed, removed'
for name in "${packages[@]}"; do
  file=$(package "$name" rpm)
  [ "$(rpm -qp --nosignature --qf '%{LICENSE}' "$file")" = Apache-2.0 ] || fail "licence of $file"
  grep -x "/usr/bin/$name" <<<"$(rpm -qpl --nosignature "$file")" >/dev/null || fail "$file has no /usr/bin/$name"
  cp "$file" "$work/debian/packages/"
done
[ "$(rpm -qp --nosignature --configfiles "$(package setpoint rpm)")" = /etc/setpoint/setpoint.yaml ] || fail 'setpoint.yaml is no configuration of the RPM'
# Debian's rpm knows none of the packages that are depended on.
rpm --root "$work/debian" --dbpath /var/lib/rpm --initdb
rpm --root "$work/debian" --dbpath /var/lib/rpm --nodeps --nosignature -i "$work"/debian/packages/*.rpm >"$work/rpm.log" 2>&1 || { cat "$work/rpm.log"; fail 'rpm -i'; }
inside stat -c '%a %U:%G' /etc/setpoint | grep -x '750 root:setpoint' >/dev/null || fail 'owner of /etc/setpoint by rpm'
sed -i "s/:9090\"/:$grpc\"/; s/:8080\"/:$rest\"/; s/:9091\"/:$admin\"/" "$work/debian/etc/setpoint/setpoint.yaml"
start "$admin"
stop
# Over itself, as an upgrade goes: what was edited stays.
cp "$work/debian/etc/setpoint/setpoint.yaml" "$work/edited.yaml"
rpm --root "$work/debian" --dbpath /var/lib/rpm --nodeps --nosignature -U --replacepkgs "$work"/debian/packages/*.rpm >"$work/rpm.log" 2>&1 || { cat "$work/rpm.log"; fail 'rpm -U'; }
cmp "$work/edited.yaml" "$work/debian/etc/setpoint/setpoint.yaml" || fail 'rpm -U changed settings that were edited'
start "$admin"
stop
rpm --root "$work/debian" --dbpath /var/lib/rpm --nodeps -e "${packages[@]}" >"$work/rpm.log" 2>&1 || { cat "$work/rpm.log"; fail 'rpm -e'; }
[ ! -e "$work/debian/usr/bin/setpoint" ] || fail 'rpm left programs'
[ -s "$work/debian/etc/setpoint/setpoint.yaml.rpmsave" ] || fail 'rpm did not keep settings that were edited'
step 'a systemd that runs'
command -v systemd-nspawn >/dev/null || scripts/apt.sh systemd-container >/dev/null
live=$work/live
debian "$live" systemd,systemd-sysv,dbus,curl
umount "$live/proc" # the container has its own
mkdir "$live/packages"
cp "$work"/debian/packages/*.deb "$live/packages/"
install -m 755 packaging/test/live.sh "$live/live.sh"
cat >"$live/etc/systemd/system/live.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
TimeoutStartSec=10min
ExecStart=/live.sh
ExecStopPost=systemctl poweroff --no-block
UNIT
mkdir -p "$live/etc/systemd/system/graphical.target.wants"
ln -s ../live.service "$live/etc/systemd/system/graphical.target.wants/live.service"
# Its network is its own, so ports are free; and nothing of it outlives this command.
timeout --kill-after=10 900 systemd-nspawn --quiet --directory="$live" --boot --register=no --keep-unit --private-network --link-journal=no \
  </dev/null >"$work/live.boot" 2>&1 || true
if [ ! -e "$live/live.log" ]; then
  tail -n 5 "$work/live.boot"
  [ -z "${CI:-}" ] || fail 'no container of systemd-nspawn boots here (fails instead of being left out because CI is set)'
  echo 'LEFT OUT: no container of systemd-nspawn boots here, so no unit was run by a systemd.'
  echo 'Packages: all else passed.'
else
  sed 's/^/  /' "$live/live.log"
  grep -qx 'live: all passed' "$live/live.log" || fail 'units in a systemd that runs: see above'
  echo 'Packages: all passed.'
fi
