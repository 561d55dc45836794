#!/usr/bin/env bash
# Asks a running server how many replicas a workload should have:
# recommend.sh [http://host:port]. Needs curl.
set -euo pipefail
cd "$(dirname "$0")"
rest=${1:-http://127.0.0.1:8080}
target=clusters/demo/namespaces/shop/targets/curl

# post METHOD BODY : calls a method of the target. A service that is away for a moment
# is asked again; the request id makes that harmless.
post() {
  curl -sS --fail-with-body --max-time 10 --retry 3 --retry-delay 1 --retry-connrefused \
    -H 'Content-Type: application/json' --data-binary @- "$rest/v1/$target:$1" <<<"$2" || {
    printf '\n(is the server running: make run?)\n' >&2
    return 1 # hold the count
  }
}

# field NAME JSON : the first field of that name, a string or a number. It does for an
# example; programs take a JSON parser.
field() { grep -oE "\"$1\": ?(\"[^\"]*\"|[-0-9.]+)" <<<"$2" | sed -E '1!d; s/^[^:]*: ?//; s/"//g'; }

# The demo's request, with an id of its own and an explanation.
id=$(date +%s%N)-$$
request=$(sed "1s/{/{\"requestId\": \"$id\", \"explain\": true,/" ../../deploy/demo/request.json)

answer=$(post recommend "$request")
action=$(field action "$answer")
echo "$action: $(field currentReplicas "$answer") → $(field desiredReplicas "$answer") replicas"
echo "because: $(field reason "$answer")"
metric=${answer#*\"explanation\"} # the first of the explanation
echo "$(field name "$metric"): ratio $(field usageRatio "$metric"), asks for $(field proposal "$metric")"
test "$action" != NONE || exit 0

# Here the workload is scaled. Then:
report=$(post reportScale "{\"recommendationId\": \"$(field recommendationId "$answer")\", \"outcome\": \"APPLIED\"}")
echo "reported: $(field reason "$report")"
# A script that goes on sleeps for its period now. From cron the next question might come
# less than a period after this change, and would be held back by it.
