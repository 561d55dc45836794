//go:build unix

// Package redistest starts real Redis servers for tests: single ones, clusters and
// sentinels, on loopback and free ports. It needs redis-server 7.0 or later, see
// Require.
//
//	s := redistest.Start(t, redistest.Config{Directives: []string{"appendonly yes"}})
//	s.Client(t).Set(t.Context(), "key", "value", 0)
//	s.Kill()
//	s.Restart()
//
// Servers stop with the test that started them. All tests of a process share Shared and
// SharedCluster, and separate their keys by Prefix. When the process exits, even when
// it is killed, no server and no temporary file remains. A test that failed logs the
// end of its servers' logs.
//
// Methods that fail end the value's test with FailNow, so call them on that test's
// goroutine.
package redistest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const (
	// startTimeout limits each wait while servers start, which takes milliseconds on an
	// idle machine.
	startTimeout = 30 * time.Second
	pollInterval = 5 * time.Millisecond
)

// Require skips the test if there is no redis-server on PATH. Where CI or
// SETPOINT_REQUIRE_REDIS is set it fails the test instead: a skipped check must not
// look passed. Every function that starts a server calls it.
func Require(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	}
	const missing = "NOT CHECKED: there is no redis-server on PATH; scripts/redis.sh installs it"
	for _, name := range []string{"CI", "SETPOINT_REQUIRE_REDIS"} {
		if os.Getenv(name) != "" {
			t.Fatalf("%s (fails instead of being skipped because %s is set)", missing, name)
		}
	}
	t.Skip(missing)
}

var (
	sharedServer = sync.OnceValues(func() (*instance, error) {
		return newInstance(spec{})
	})
	sharedCluster = sync.OnceValues(func() ([]*instance, error) {
		return formCluster(3, 0, Config{Calm: true})
	})
)

// Shared returns a server for all tests of this process; the first caller starts it.
// Tests must not stop, pause, flush or configure it.
func Shared(t testing.TB) *Server {
	t.Helper()
	Require(t)
	in, err := sharedServer()
	fatal.If(t, err)
	return borrow(t, in)
}

// SharedCluster returns the cluster of three masters that all tests of this
// process share, on the terms of Shared.
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	Require(t)
	instances, err := sharedCluster()
	fatal.If(t, err)
	return &Cluster{t: t, servers: each(t, instances, borrow)}
}

// Prefix returns a unique prefix for a test's keys: the test's name and a random part,
// without special characters of patterns or hash tags.
func Prefix(t testing.TB) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, t.Name())
	return name + "-" + rand.Text() + ":"
}

// CommandStats returns how often the server, or a cluster's nodes together, has
// executed each command of any client: names as in INFO commandstats, like "get" and
// "cluster|nodes". It counts commands that scripts call, and each INFO of an earlier
// call.
func CommandStats(t testing.TB, client redis.UniversalClient) map[string]int64 {
	t.Helper()
	total := make(map[string]int64)
	add := func(ctx context.Context, node *redis.Client) error {
		stats, err := commandStats(ctx, node)
		for name, calls := range stats {
			total[name] += calls
		}
		return err
	}
	var err error
	switch c := client.(type) {
	case *redis.Client:
		err = add(t.Context(), c)
	case *redis.ClusterClient:
		var mu sync.Mutex
		err = c.ForEachShard(t.Context(), func(ctx context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			return add(ctx, node)
		})
	default:
		t.Fatalf("CommandStats of a %T", client)
	}
	fatal.If(t, err)
	return total
}

func commandStats(ctx context.Context, client *redis.Client) (map[string]int64, error) {
	fields, err := info(ctx, client, "commandstats")
	if err != nil {
		return nil, err
	}
	stats := make(map[string]int64, len(fields))
	for field, value := range fields {
		name, isCommand := strings.CutPrefix(field, "cmdstat_")
		if !isCommand {
			continue
		}
		// calls=21,usec=175,usec_per_call=8.33,rejected_calls=0,failed_calls=0
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		if stats[name], err = strconv.ParseInt(calls, 10, 64); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
	}
	return stats, nil
}

// info returns the fields of INFO's sections.
func info(ctx context.Context, client *redis.Client, sections ...string) (map[string]string, error) {
	text, err := client.Info(ctx, sections...).Result()
	if err != nil {
		return nil, fmt.Errorf("INFO of %s: %w", client.Options().Addr, err)
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// eventually calls f until it returns nil. After startTimeout it returns f's last
// error.
func eventually(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %v: %w", startTimeout, err)
		case <-time.After(pollInterval):
		}
	}
}
