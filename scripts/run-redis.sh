#!/usr/bin/env bash
# Serves with histories in a Redis on this machine: `run-redis.sh COMMAND…` runs the
# command with --redis for the Redis at 127.0.0.1:REDIS_PORT (6379), or for
# one that it starts there, with its data in bin/redis, and ends with the command.
set -euo pipefail
cd "$(dirname "$0")/.."
port=${REDIS_PORT:-6379}
scripts/redis.sh

answers() { [ "$(redis-cli -h 127.0.0.1 -p "$port" ping 2>/dev/null)" = PONG ]; }

if answers; then
  echo "using the Redis at 127.0.0.1:$port"
  exec "$@" --redis "redis://127.0.0.1:$port"
fi
mkdir -p bin/redis
redis-server --bind 127.0.0.1 --port "$port" --dir bin/redis --appendonly yes --save '' --logfile redis.log &
redis=$!
trap 'kill "$redis" 2>/dev/null || true; wait "$redis" 2>/dev/null || true' EXIT
for _ in $(seq 100); do
  answers && break
  kill -0 "$redis" 2>/dev/null || { echo "redis-server did not start: see bin/redis/redis.log" >&2; exit 1; }
  sleep 0.05
done
echo "started a Redis at 127.0.0.1:$port; its data are in bin/redis"
# The service drains on the terminal's signals, which reach it as well.
trap ':' INT TERM
"$@" --redis "redis://127.0.0.1:$port" &
service=$!
trap 'kill -TERM "$service" 2>/dev/null || true' INT TERM
status=0
while kill -0 "$service" 2>/dev/null; do
  wait "$service" && status=0 || status=$?
done
exit "$status"
