# shellcheck shell=bash
# A Debian in a folder, to be sourced by scripts that need a clean system. It is made once
# with debootstrap, and kept in the user's cache. Needs root.

# debian FOLDER [PACKAGES] : unpacks one there, with /proc; minimal, with certificates, and the
# packages, named with commas between.
debian() {
  local cache=${XDG_CACHE_HOME:-$HOME/.cache}/setpoint/debian suite mirror kept lock
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } | sed -nE 's/^(deb (\[[^]]*\] )?|URIs: )(https?:[^ ]+).*/\3/p' | sed -n 1p)
  kept=$cache/$suite${2:+-${2//,/-}}.tar
  mkdir -p "$cache"
  # Two concurrent scripts would create it in one folder, and remove each other's mounts.
  exec {lock}>"$cache/.lock"
  flock "$lock" || return 1
  if [ ! -s "$kept" ]; then
    # An interrupted run may have left its mounts.
    debian_gone "$cache/new" || return 1
    debootstrap --variant=minbase --include="ca-certificates${2:+,$2}" "$suite" "$cache/new" "${mirror:-http://deb.debian.org/debian}" >"$cache/debootstrap.log" 2>&1 ||
      { tail -n 20 "$cache/debootstrap.log"; echo 'FAILED: debootstrap' >&2; return 1; }
    rm -rf "$cache/new/var/cache/apt/archives"/*.deb
    tar -C "$cache/new" -cf "$kept.new" .
    mv "$kept.new" "$kept"
    debian_gone "$cache/new" || return 1
  fi
  exec {lock}>&- # others need not wait for what is unpacked
  mkdir -p "$1"
  tar -C "$1" -xf "$kept"
  mount -t proc proc "$1/proc"
}

# debian_gone FOLDER : removes it. While anything is mounted below it nothing is removed: a
# mount may be this machine's own, on the same file system.
debian_gone() {
  local folder name mounted
  [ -d "$1" ] || return 0
  # By the kernel's name: a symbolic link would hide the mounts.
  folder=$(realpath "$1") || return 1
  for name in proc sys; do umount "$folder/$name" 2>/dev/null || umount --lazy "$folder/$name" 2>/dev/null || true; done
  # Without that knowledge nothing is removed either: callers may ignore a failure here.
  mounted=$(awk -v folder="$folder/" 'index($2 "/", folder) == 1 { print $2 }' /proc/mounts) || return 1
  [ -z "$mounted" ] || { printf 'still mounted, so %s is left:\n%s\n' "$folder" "$mounted" >&2; return 1; }
  rm -rf --one-file-system "$folder"
}
