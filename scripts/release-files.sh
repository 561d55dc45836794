#!/usr/bin/env bash
# Makes what archives and packages hold beside programs, in bin/release-files: completions of
# shells and pages of the manual, both written by the programs themselves, the texts of licences,
# and the scripts of packages; and the playground's engine, which programs embed. goreleaser calls it (.goreleaser.yaml) with RELEASE, COMMIT and
# DATE, which get into the manual.
set -euo pipefail
cd "$(dirname "$0")/.."
into=bin/release-files
rm -rf $into
mkdir -p $into/{programs,completions,man,licenses,scripts,tools}

RELEASE=${RELEASE:-dev} scripts/wasm.sh bin/engine web/engine
IFS=$'\n' read -r -d '' -a programs < <(cut -d' ' -f1 cmd/programs/programs.txt) || true
GOOS='' GOARCH='' scripts/build.sh $into/programs "${programs[@]}" cmd/setpoint-external-metrics
# The plugin of kubectl speaks of itself by the name that it was called by.
for program in "${programs[@]}" setpoint-external-metrics; do
  mkdir -p $into/man/$program $into/completions/$program
  $into/programs/$program man $into/man/$program
  for page in $into/man/$program/*.1; do gzip -9n "$page"; done
  for shell in bash zsh fish powershell; do
    $into/programs/$program completion $shell >$into/completions/$program/$shell
  done
done
# Not for the system that is released for, and without its version.
(cd tools/licenses && GOOS='' GOARCH='' go build -o ../../$into/tools/licenses .)
(cd tools/licenses && ../../$into/tools/licenses texts) >$into/licenses/THIRD_PARTY_LICENSES
(cd tools/licenses && ../../$into/tools/licenses json) >$into/licenses/known.json
rm -rf $into/programs
printf '%s\n%s\n' "${RELEASE:-dev}" "${COMMIT:-unknown}" >$into/licenses/version

# scripts PACKAGE UNITS STATE [GROUPS] : fills in the scripts of a package.
scripts() {
  local script
  mkdir -p "$into/scripts/$1"
  for script in packaging/scripts/*.sh; do
    sed "s/@PACKAGE@/$1/; s/@UNITS@/$2/; s/@STATE@/$3/; s/@GROUPS@/${4:-}/" "$script" >"$into/scripts/$1/${script##*/}"
  done
}
scripts setpoint setpoint.service ''
scripts setpoint-nomad setpoint-nomad.service setpoint-nomad
scripts setpoint-swarm 'setpoint-swarm.service setpoint-swarm-node.service' setpoint-swarm docker
scripts setpoint-webhook setpoint-webhook.service setpoint-webhook
# Whoever checks the source out has files of the same times.
find $into -exec touch -h -d "${DATE:-1970-01-01T00:00:00Z}" {} +
