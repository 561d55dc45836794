#!/usr/bin/env bash
# Checks spelling and prose of the pages with vale, by the rules in docs/style: .vale.ini says
# which. Decisions and reports that programs write are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
IFS=$'\n' read -r -d '' -a pages < <(git ls-files --cached --others --exclude-standard '*.md' |
  grep -vE '(^|/)testdata/|^docs/decisions/|^THIRD_PARTY\.md$|^\.github/|^tools/|^web/|^conformance/REPORT\.md$') || true
# Its parsers of other languages are C.
CGO_ENABLED=1 GOFLAGS=-trimpath go build -C tools/vale -o ../../bin/vale github.com/vale-cli/vale/v3/cmd/vale
bin/vale --output=line "${pages[@]}"
echo "${#pages[@]} pages were checked"
