#!/usr/bin/env bash
# Fails if the contract breaks what callers, or stored records, of the last release rely on: that
# of the last tag, or, as long as there is none, of test/compatibility/testdata/contract.binpb.
# With --update it writes that file, as a release does.
set -euo pipefail
cd "$(dirname "$0")/.."
buf=(go tool -modfile=tools/buf/go.mod buf)
released=test/compatibility/testdata/contract.binpb
# buf compares single images; a folder with two modules would be two.
config='{"version":"v2","breaking":{"use":["WIRE_JSON"]}}'

if [ "${1:-}" = --update ]; then
  "${buf[@]}" build --path proto/setpoint --exclude-source-info -o "$released"
  exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
before=$released name="$released, which stands for the last release"
if tag=$(git describe --tags --abbrev=0 --match='v*' 2>/dev/null); then
  mkdir "$folder/tag"
  git archive "$tag" buf.yaml proto | tar -xC "$folder/tag"
  "${buf[@]}" build "$folder/tag" --path "$folder/tag/proto/setpoint" --exclude-source-info -o "$folder/before.binpb"
  before=$folder/before.binpb name=$tag
fi
"${buf[@]}" build --path proto/setpoint -o "$folder/now.binpb"
"${buf[@]}" breaking "$folder/now.binpb" --against "$before" --config "$config" --exclude-imports || {
  echo "This breaks callers of $name. Keep the field or method, deprecated, and add another beside it; or, if it was in no"
  echo 'release yet, write the file anew with make contract. docs/reference/compatibility.md says what may change when.'
  exit 1
}
echo "The contract breaks nothing of $name."
