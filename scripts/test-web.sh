#!/usr/bin/env bash
# Checks the types of web/src, and runs its tests (*.test.ts) with Node.js' test runner, bundled
# by the esbuild that bundles the page: Node.js 18 reads no TypeScript.
set -euo pipefail
cd "$(dirname "$0")/.."
into=$PWD/bin/web-tests
rm -rf "$into"
for folder in clients/typescript web; do (cd $folder && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); done
clients/typescript/generate.sh # the types of the API's JSON
(cd web && npx --no-install tsc -p .)
IFS=$'\n' read -r -d '' -a tests < <(find web/src -name '*.test.ts' | sort) || true
go tool -modfile=tools/esbuild/go.mod esbuild "${tests[@]}" --bundle --platform=node --format=esm \
  --jsx=automatic --jsx-import-source=preact --loader:.css=empty \
  --out-extension:.js=.mjs --outbase=web/src --outdir="$into" --log-level=warning
IFS=$'\n' read -r -d '' -a bundles < <(find "$into" -name '*.mjs' | sort) || true
node --test "${bundles[@]}"
