#!/usr/bin/env bash
# Follows README.md's instructions in a Debian with only README.md's requirements: Go,
# make, and curl; as an ordinary user, in a folder without a git repository, with empty
# caches. It prints how long that took. Needs root and apt; nothing is installed by hand.
#
#   scripts/newcomer.sh          # make run, the request, make demo
#   scripts/newcomer.sh test     # make test, too, as CONTRIBUTING.md has it: with git, without Redis
#
# Downloads are part of the time, as for a newcomer.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
step() { printf '== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

[ "$(id -u)" -eq 0 ] || fail 'needs root: it has a Debian of its own in a folder'
goroot=$(go env GOROOT)
[ -x "$goroot/bin/go" ] || fail "there is no Go in '$goroot' to give the newcomer"
command -v debootstrap >/dev/null || scripts/apt.sh debootstrap >/dev/null
work=$(mktemp -d)
running=
cleanup() {
  [ -z "$running" ] || { kill -- "-$running" 2>/dev/null || true; wait "$running" 2>/dev/null || true; }
  if debian_gone "$work/debian"; then rm -rf --one-file-system "$work"; fi
}
trap cleanup EXIT

step 'a Debian, with Go, make and curl'
debian "$work/debian"
root=$work/debian
# The newcomer uses this machine's network settings and trusted authorities.
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
chroot "$root" env DEBIAN_FRONTEND=noninteractive sh -c "apt-get -qq -o Acquire::Retries=3 update && apt-get -qq install --no-install-recommends make curl ${1:+git}" >"$work/apt.log" 2>&1 ||
  { tail -n 20 "$work/apt.log"; fail 'apt-get install'; }
mkdir -p "$root/usr/local/go"
# A copy, never a bind mount: removing the folder must not reach this machine's Go.
cp -a "$goroot/." "$root/usr/local/go/"
chroot "$root" useradd --create-home --shell /bin/bash newcomer
mkdir "$root/home/newcomer/setpoint"
git archive HEAD | tar -C "$root/home/newcomer/setpoint" -xf -
chroot "$root" chown -R newcomer: /home/newcomer

# Ports that README.md names may be taken here; then others are.
read -r grpc rest admin <<<"$(for port in 9090 8080 9091; do
  while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((20000 + RANDOM % 10000)); done
  printf '%s ' "$port"
done)"
# newcomer COMMAND : as the newcomer types it, in the folder.
newcomer() {
  chroot --userspec=newcomer:newcomer "$root" env -i HOME=/home/newcomer USER=newcomer PATH=/usr/local/go/bin:/usr/bin:/bin \
    ${GOPROXY:+GOPROXY="$GOPROXY"} SETPOINT_GRPC_ADDRESS=127.0.0.1:"$grpc" SETPOINT_REST_ADDRESS=127.0.0.1:"$rest" SETPOINT_ADMIN_ADDRESS=127.0.0.1:"$admin" \
    REST=http://127.0.0.1:"$rest" bash -c "cd ~/setpoint && $1"
}

# processors GROUP : seconds of processors that the group's processes, and what they waited for,
# have used.
processors() {
  cat /proc/[0-9]*/stat 2>/dev/null | sed 's/^[0-9]* (.*) //' |
    awk -v group="$1" -v ticks="$(getconf CLK_TCK)" '$3 == group { used += $12 + $13 + $14 + $15 } END { printf "%.0f", used / ticks }'
}

step 'make run, until it is ready'
start=$SECONDS
set -m
newcomer 'exec make run' >"$work/run.log" 2>&1 &
running=$!
set +m
until newcomer "curl -fs http://127.0.0.1:$admin/readyz" >/dev/null 2>&1; do
  kill -0 "$running" 2>/dev/null || { tail -n 20 "$work/run.log"; running=; fail 'make run'; }
  [ $((SECONDS - start)) -lt 3600 ] || { tail -n 20 "$work/run.log"; fail 'not ready within an hour'; }
  sleep 1
done
echo "make run: $((SECONDS - start)) s until it is ready, $(processors "$running") s of processors; caches $(du -sh "$root/home/newcomer/.cache" | cut -f1) and modules $(du -sh "$root/home/newcomer/go" | cut -f1); load $(cut -d' ' -f1 /proc/loadavg) on $(nproc) processors"
! grep -iE 'warn|error' "$work/run.log" || fail 'make run says the above'

step 'the request, as README.md has it'
request=$(awk '/^```/ { inside = !inside; next } inside && /^curl .*recommend|^curl/ { on = 1 } inside && on { print } !inside { on = 0 }' README.md | sed "s/8080/$rest/")
[ -n "$request" ] || fail 'README.md has no request'
newcomer "$request" | tee "$work/answer.json"
grep -q '"desiredReplicas": *5' "$work/answer.json" || fail 'the answer is another than that of README.md'
step 'make demo'
newcomer 'make demo' >"$work/demo.log" 2>&1 || { cat "$work/demo.log"; fail 'make demo'; }
grep -q '"desiredReplicas": *5' "$work/demo.log" || { cat "$work/demo.log"; fail 'make demo answers otherwise'; }
step 'the page'
newcomer "curl -fsS http://127.0.0.1:$rest/ui/" | grep -q '<title>' || fail 'there is no page'
step 'Ctrl-C'
kill -INT -- "-$running"
wait "$running" || true
running=

if [ "${1:-}" = test ]; then
  step 'make test'
  start=$SECONDS
  { TIMEFORMAT='%U %S'; time newcomer 'make test' >"$work/test.log" 2>&1; } 2>"$work/test.time" || { tail -n 100 "$work/test.log"; fail 'make test'; }
  echo "make test: $((SECONDS - start)) s, $(awk '{ printf "%.0f", $1 + $2 }' "$work/test.time") s of processors"
  tail -n 3 "$work/test.log"
fi
echo 'Newcomer: all went as README.md says.'
