package faults

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// deadPort is a port without a listener.
const deadPort = 1

func TestARedisThatFailsIsRefusedAndRecoversAlone(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{
		{name: "the process hangs", config: directives(), trips: true, begin: hang},
		{name: "the process is killed, and starts again with what it wrote", config: directives("appendonly yes", "appendfsync always"), trips: true, clean: true, begin: kill},
		{name: "a script of somebody else does not return", config: directives("busy-reply-threshold 50"), trips: true, clean: true, begin: busy},
		{name: "memory is full", config: directives("maxmemory-policy noeviction"), reads: true, deletes: true, clean: true, begin: fillMemory},
		{name: "it is a read-only replica", config: directives(), reads: true, clean: true, begin: replicate},
		{name: "it is a replica that serves nothing without its master", config: directives("replica-serve-stale-data no"), clean: true, begin: replicate},
		{
			name: "it can't save", config: directives("enable-protected-configs yes", `save 3600 1000000`), reads: true, clean: true,
			begin: failToSave,
		},
		{
			name: "it lacks replicas", config: directives(), reads: true, clean: true,
			begin: setting("min-replicas-to-write", "1", "0"),
		},
		{name: "it takes no more clients", config: directives(), trips: true, clean: true, begin: fillClients},
	} {
		t.Run(f.name, f.run)
	}
}

func directives(lines ...string) *redistest.Config { return &redistest.Config{Directives: lines} }

// do sends a command past the proxy.
func (r *rig) do(t testing.TB, args ...any) any {
	t.Helper()
	reply, err := r.admin.Do(context.WithoutCancel(t.Context()), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// setting starts a fault by one of Redis' settings.
func setting(name, bad, good string) func(*testing.T, *rig) func() {
	return func(t *testing.T, r *rig) func() {
		r.do(t, "CONFIG", "SET", name, bad)
		return func() { r.do(t, "CONFIG", "SET", name, good) }
	}
}

func hang(_ *testing.T, r *rig) func() {
	r.redis.Pause()
	return r.redis.Resume
}

func kill(_ *testing.T, r *rig) func() {
	r.redis.Kill()
	return r.redis.Restart
}

func replicate(t *testing.T, r *rig) func() {
	r.do(t, "REPLICAOF", "127.0.0.1", deadPort)
	return func() { r.do(t, "REPLICAOF", "NO", "ONE") }
}

// busy has Redis run a script without end, and waits until it says so.
func busy(t *testing.T, r *rig) func() {
	other := r.redis.Client(t)
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	go func() { ended <- other.Do(ctx, "EVAL", "while true do end", 0).Err() }()
	kit.Eventually(t, notice, "Redis is busy", func() error {
		if err := r.admin.Ping(t.Context()).Err(); err == nil || !strings.HasPrefix(err.Error(), "BUSY") {
			return fmt.Errorf("PING: %v", err)
		}
		return nil
	})
	return func() {
		defer cancel()
		r.do(t, "SCRIPT", "KILL")
		if err := <-ended; err == nil {
			t.Error("the script has returned")
		}
	}
}

// fillMemory fills Redis to its limit and then lowers the limit, so that routine changes free
// no memory.
func fillMemory(t *testing.T, r *rig) func() {
	const junk, size, rest = "junk:", 256 << 10, 1 << 20
	used := func() int64 {
		n, err := strconv.ParseInt(r.info(t, "memory", "used_memory"), 10, 64)
		fatal.If(t, err)
		return n
	}
	r.do(t, "CONFIG", "SET", "maxmemory", used()+4*rest)
	var keys []any
	for {
		key := fmt.Sprint(junk, len(keys))
		err := r.admin.Set(t.Context(), key, strings.Repeat("x", size), 0).Err()
		if err != nil && strings.HasPrefix(err.Error(), "OOM") {
			break
		}
		fatal.If(t, err)
		keys = append(keys, key)
	}
	r.do(t, "CONFIG", "SET", "maxmemory", used()-rest)
	return func() { r.do(t, append([]any{"DEL"}, keys...)...) }
}

func (r *rig) info(t testing.TB, section, field string) string {
	t.Helper()
	text, err := r.admin.Info(t.Context(), section).Result()
	fatal.If(t, err)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	t.Fatalf("INFO %s has no %s", section, field)
	return ""
}

// failToSave makes a snapshot fail: a directory has its name.
func failToSave(t *testing.T, r *rig) func() {
	blocked := filepath.Join(r.redis.Dir(), "blocked")
	fatal.If(t, os.Mkdir(blocked, 0o700))
	fatal.If(t, os.WriteFile(filepath.Join(blocked, "something"), nil, 0o600))
	save := func(status string) {
		kit.Eventually(t, notice, "the snapshot is "+status, func() error {
			if err := r.admin.Do(context.WithoutCancel(t.Context()), "BGSAVE").Err(); err != nil && !strings.Contains(err.Error(), "in progress") {
				return err
			}
			if got := r.info(t, "persistence", "rdb_last_bgsave_status"); got != status {
				return fmt.Errorf("rdb_last_bgsave_status is %s", got)
			}
			return nil
		})
	}
	r.do(t, "CONFIG", "SET", "dbfilename", "blocked")
	save("err")
	return func() {
		r.do(t, "CONFIG", "SET", "dbfilename", "dump.rdb")
		save("ok")
	}
}

// fillClients uses up all connections but the administrator's and closes all others.
func fillClients(t *testing.T, r *rig) func() {
	admin := r.admin.Conn()
	fatal.If(t, admin.Do(t.Context(), "CONFIG", "SET", "maxclients", 1).Err())
	fatal.If(t, admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	// The service's connections are closed now, for others' are not let in.
	kit.Eventually(t, notice, "Redis takes nobody", func() error { return refusesClients(r.redis.Addr()) })
	return func() {
		fatal.If(t, admin.Do(context.WithoutCancel(t.Context()), "CONFIG", "SET", "maxclients", 1000).Err())
		fatal.If(t, admin.Close())
	}
}

func refusesClients(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err != nil || !strings.HasPrefix(string(answer[:n]), "-ERR max number of clients") {
		return fmt.Errorf("got %q, %v", answer[:n], err)
	}
	return nil
}
