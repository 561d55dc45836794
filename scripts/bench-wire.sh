#!/usr/bin/env bash
# Measures the fast path of the wire format beside generated protobuf, vtprotobuf with pools and
# protojson: bench-wire.sh [ARGUMENT OF GO TEST...]. vtprotobuf's generated
# code, tens of thousands of lines, is temporary.
set -euo pipefail
cd "$(dirname "$0")/.."
into=$(mktemp -d)
trap 'rm -rf "$into"' EXIT
api=github.com/setpoint-dev/setpoint/api
pools=$(for message in RecommendRequest Scale HorizontalPodAutoscalerSpec CrossVersionObjectReference MetricSpec ResourceMetricSource \
  MetricTarget Pod PodReadyCondition Container PodMetrics ContainerMetrics; do
  printf ', "pool=%s/setpoint/v1.%s"' "$api" "$message"
done)
cat >"$into/buf.gen.yaml" <<END
version: v2
inputs: [{directory: ., paths: [proto/setpoint/v1]}]
plugins:
  - local: [go, tool, -modfile=tools/vtprotobuf/go.mod, protoc-gen-go-vtproto]
    out: $into
    opt: ["module=$api", features=marshal+unmarshal+unmarshal_unsafe+size+pool$pools]
managed:
  enabled: true
  override: [{file_option: go_package, path: setpoint/v1, value: $api/setpoint/v1;setpointv1}]
  disable: [{path: google}, {path: buf}]
END
go tool -modfile=tools/buf/go.mod buf generate --template "$into/buf.gen.yaml"
{
  printf '{"Replace": {'
  for file in "$into"/setpoint/v1/*.go; do
    printf '"%s": "%s", ' "$PWD/api/setpoint/v1/${file##*/}" "$file"
  done
  printf '"%s": "%s"}}\n' "$PWD/bench/ways/pool_test.go" "$into/pool_test.go"
} >"$into/overlay.json"
cat >"$into/pool_test.go" <<'END'
package ways_test

import setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"

func init() { fromPool = setpointv1.RecommendRequestFromVTPool }
END
cd bench
go test -overlay="$into/overlay.json" -run='^$' -bench=. "$@" ./ways
