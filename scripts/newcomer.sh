#!/usr/bin/env bash
# Runs README.md's commands in a Debian with only what it asks for, as an ordinary user without
# an identity of git's, with empty caches. It prints how long that took. Needs root and apt;
# nothing is installed by hand.
#
#   scripts/newcomer.sh            # all of the below
#   scripts/newcomer.sh run        # make run, the request and make demo: Go, make and curl, from an archive without git
#   scripts/newcomer.sh test       # make test: Go, make, curl and git, in a clone, without Redis
#   scripts/newcomer.sh programs   # prints scripts/newcomer-programs.txt as that Debian has it
#
# Downloads are part of the time, as for a newcomer.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
# shellcheck source=scripts/debian.sh
. scripts/debian.sh
step() { printf '== %s\n' "$*" >&2; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

what=${1:-all}
case $what in all | run | test | programs) ;; *) fail "'$what' is none of all, run, test, programs" ;; esac
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
# installed PACKAGE... : installs packages there.
installed() {
  chroot "$root" env DEBIAN_FRONTEND=noninteractive sh -c "apt-get -qq -o Acquire::Retries=3 update && apt-get -qq install --no-install-recommends $*" >"$work/apt.log" 2>&1 ||
    { tail -n 20 "$work/apt.log"; fail 'apt-get install'; }
}
installed make curl

# programs : the list of the programs there, as far as a user without rights has them on the PATH.
programs() {
  sed -n '/^# Debian/q; p' scripts/newcomer-programs.txt
  # shellcheck disable=SC2016 # for the shell there
  chroot "$root" bash -euc '. /etc/os-release; echo "# $PRETTY_NAME"
    for package in $(dpkg-query -W -f "\${Package}\n" | LC_ALL=C sort -u); do
      names=$(dpkg -L "$package" | sed -nE "s#^(/usr)?/bin/([^/]+)\$#\2#p" | grep -v "$(uname -m)" | LC_ALL=C sort -u | tr "\n" " ")
      test -z "$names" || echo "$package: ${names% }"
    done
    echo "update-alternatives: awk which"'
  sed -n '/^# Beside/,$p' scripts/newcomer-programs.txt
}

if [ "$what" = programs ]; then
  installed git
  programs
  exit 0
fi

mkdir -p "$root/usr/local/go"
# A copy, never a bind mount: removing the folder must not reach this machine's Go.
cp -a "$goroot/." "$root/usr/local/go/"
chroot "$root" useradd --create-home --shell /bin/bash newcomer

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

if [ "$what" != test ]; then
  step 'make run, until it is ready'
  mkdir "$root/home/newcomer/setpoint"
  git archive HEAD | tar -C "$root/home/newcomer/setpoint" -xf -
  chroot "$root" chown -R newcomer: /home/newcomer
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
  grep -q '"desiredReplicas": *5' "$work/answer.json" || fail 'the answer differs from the one in README.md'
  step 'make demo'
  newcomer 'make demo' >"$work/demo.log" 2>&1 || { cat "$work/demo.log"; fail 'make demo'; }
  grep -q '"desiredReplicas": *5' "$work/demo.log" || { cat "$work/demo.log"; fail 'make demo answers otherwise'; }
  step 'the page'
  grep -q '<title>' <<<"$(newcomer "curl -fsS http://127.0.0.1:$rest/ui/")" || fail 'there is no page'
  step 'Ctrl-C'
  kill -INT -- "-$running"
  wait "$running" || true
  running=
  rm -rf "$root/home/newcomer/setpoint"
fi

if [ "$what" != run ]; then
  installed git
  if ! programs >"$work/programs.txt" || ! diff "$work/programs.txt" scripts/newcomer-programs.txt; then
    # Of another release, or of a relative, the list is not.
    ! cmp -s <(grep -x '# Debian.*' "$work/programs.txt") <(grep -x '# Debian.*' scripts/newcomer-programs.txt) ||
      fail 'this Debian has (<) other programs than scripts/newcomer-programs.txt (>): scripts/newcomer.sh programs prints the list'
  fi
  step 'make test'
  git clone --quiet --no-local --depth 1 . "$root/home/newcomer/setpoint"
  chroot "$root" chown -R newcomer: /home/newcomer
  # Or git makes up an identity where this machine's name has a domain.
  chroot "$root" git config --system user.useConfigOnly true
  start=$SECONDS
  # Not with the addresses for make run: variables of that name are settings, which tests set themselves.
  # shellcheck disable=SC2016 # for the shell there
  { TIMEFORMAT='%U %S'; time newcomer 'unset "${!SETPOINT_@}" && make test' >"$work/test.log" 2>&1; } 2>"$work/test.time" || { tail -n 100 "$work/test.log"; fail 'make test'; }
  echo "make test: $((SECONDS - start)) s, $(awk '{ printf "%.0f", $1 + $2 }' "$work/test.time") s of processors; load $(cut -d' ' -f1 /proc/loadavg) on $(nproc) processors"
  grep -vE '^(✓|∅) ' "$work/test.log"
fi
echo 'Newcomer: all went as README.md says.'
