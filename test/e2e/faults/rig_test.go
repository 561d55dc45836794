package faults

import (
	"context"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// versionLength is the length of the prefix of a history in a record: the format's byte and the
// version.
const versionLength = 9

// rig is a Redis behind a proxy, with direct access past the proxy.
type rig struct {
	redis  *redistest.Server
	proxy  *proxy
	prefix string
	// admin may do everything and does not pass the proxy.
	admin *goredis.Client
}

// newRig puts a proxy before a Redis of the test's own.
func newRig(t testing.TB, config redistest.Config) *rig {
	t.Helper()
	return rigOn(t, redistest.Start(t, config))
}

// sharedRig puts a proxy before the Redis that tests share which harm the network only.
func sharedRig(t testing.TB) *rig {
	t.Helper()
	return rigOn(t, redistest.Shared(t))
}

func rigOn(t testing.TB, server *redistest.Server) *rig {
	t.Helper()
	return &rig{redis: server, proxy: newProxy(t, server.Addr()), prefix: redistest.Prefix(t), admin: server.Client(t)}
}

// url is that of the Redis by its proxy.
func (r *rig) url() string { return strings.Replace(r.redis.URL(), r.redis.Addr(), r.proxy.address, 1) }

// start starts a service whose Redis is behind the proxy.
func (r *rig) start(t testing.TB, changes ...func(*setup)) *service {
	t.Helper()
	s := startService(t, r.url(), r.prefix, changes...)
	s.awaitReady(t)
	return s
}

// startBeside starts a service that does not pass the proxy.
func (r *rig) startBeside(t testing.TB, changes ...func(*setup)) *service {
	t.Helper()
	s := startService(t, r.redis.URL(), r.prefix, changes...)
	s.awaitReady(t)
	return s
}

// key returns the name of a target's record in Redis, empty if there is none.
func (r *rig) key(t testing.TB, target string) string {
	t.Helper()
	return recordKey(t, r.admin, r.prefix, target)
}

func recordKey(t testing.TB, node *goredis.Client, prefix, target string) string {
	t.Helper()
	// {prefix}{tag}h:{cluster}/{namespace}/{target}
	parts := strings.Split(target, "/")
	suffix := "}h:" + parts[1] + "/" + parts[3] + "/" + parts[5]
	// The test may be over, with its leftovers to be inspected.
	keys, err := node.Keys(context.WithoutCancel(t.Context()), prefix+"*"+suffix).Result()
	fatal.If(t, err)
	if len(keys) > 1 {
		t.Fatalf("%s has several records: %q", target, keys)
	}
	return strings.Join(keys, "")
}

// record returns a target's record in Redis, empty if there is none.
func (r *rig) record(t testing.TB, target string) string {
	t.Helper()
	key := r.key(t, target)
	if key == "" {
		return ""
	}
	raw, err := r.admin.Get(t.Context(), key).Result()
	fatal.If(t, err)
	return raw
}

// history returns a target's record in Redis, the zero one if there is none.
func (r *rig) history(t testing.TB, target string) *record.Record {
	t.Helper()
	return decodeRecord(t, r.record(t, target))
}

func decodeRecord(t testing.TB, raw string) *record.Record {
	t.Helper()
	if raw == "" {
		return &record.Record{}
	}
	history, err := record.Decode([]byte(raw[versionLength:]))
	fatal.If(t, err)
	return &history
}
