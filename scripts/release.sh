#!/usr/bin/env bash
# Builds a release into bin/release with goreleaser, as .goreleaser.yaml says: archives, packages,
# checksums, bills of materials, the manifest for krew and the formula for Homebrew.
#
#   scripts/release.sh --snapshot     # any commit, publishes nothing
#   scripts/release.sh                # the tag that is checked out; makes a draft, needs GITHUB_TOKEN
#
# TARGETS='linux_amd64 …' leaves the other platforms out, of a snapshot only. SNAPSHOT=1.2.3 is
# the version of a snapshot.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/mode.sh
. scripts/mode.sh
goreleaser=$(go tool -modfile=tools/goreleaser/go.mod -n goreleaser)
config=.goreleaser.yaml
mkdir -p bin

if [ -n "${TARGETS:-}" ]; then
  test "${1:-}" = --snapshot || { echo 'a release has all platforms: TARGETS is for snapshots' >&2; exit 2; }
  config=bin/goreleaser.yaml
  sed "s/^      goos: .*/      targets: [${TARGETS// /, }]/; /^      goarch: /d" .goreleaser.yaml >$config
fi
# goreleaser asks for a remote, even where it publishes nothing.
if ! git remote get-url origin >/dev/null 2>&1; then
  export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/setpoint-dev/setpoint
fi
umask 022 # modes get into archives
export TZ=UTC GOMAXPROCS=${GOMAXPROCS:-$(getconf _NPROCESSORS_ONLN)}
"$goreleaser" release --config=$config --timeout=3h --clean --parallelism="${PARALLELISM:-2}" --skip=announce "$@"
scripts/formula.sh bin/release >bin/release/setpoint.rb
if command -v ruby >/dev/null; then ruby -c bin/release/setpoint.rb >/dev/null; fi
# Problems have to show before a person publishes the draft.
# shellcheck disable=SC2086 # a list
go run ./packaging/check bin/release ${TARGETS:-}
ls -l bin/release/*.{gz,zip,deb,rpm,txt,rb} 2>/dev/null || true
