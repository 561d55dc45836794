package redis_test

import (
	"bufio"
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// documentedRights are the rights that docs/operate/redis.md lists: those for any Redis, and those
// for a Cluster besides.
func documentedRights(t testing.TB) (all, cluster []string) {
	t.Helper()
	page, err := os.Open(filepath.Join("..", "..", "docs", "operate", "redis.md"))
	fatal.If(t, err)
	defer func() { _ = page.Close() }()
	for lines := bufio.NewScanner(page); lines.Scan(); {
		list, more, _ := strings.Cut(lines.Text(), "(and for a Cluster: ")
		if strings.HasPrefix(lines.Text(), "    +") {
			all = append(all, strings.Fields(list)...)
			cluster = append(cluster, strings.Fields(strings.TrimSuffix(more, ")"))...)
		}
	}
	if len(all) < 20 || len(cluster) == 0 {
		t.Fatalf("the page lists %q and %q", all, cluster)
	}
	return all, cluster
}

// userLine is the line of an ACL for a user setpoint with these rights.
func userLine(rights ...[]string) string {
	line := "user setpoint on >secret ~*"
	for _, r := range rights {
		line += " " + strings.Join(r, " ")
	}
	return line
}

// asUser puts the user of userLine into a URL.
func asUser(url string) string { return strings.Replace(url, "://", "://setpoint:secret@", 1) }

// refusesNothing fails the test if a master has refused a command for want of rights, or a
// password, by the end of the test.
func refusesNothing(t *testing.T, c *goredis.Client) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		log, err := c.Do(ctx, "acl", "log", 10).Slice()
		if err != nil {
			t.Error(err)
		}
		for _, entry := range log {
			t.Errorf("%s refused %v", c.Options().Addr, entry)
		}
		stats, err := c.Info(ctx, "commandstats").Result()
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(stats) {
			if strings.Contains(line, "rejected_calls=") && !strings.Contains(line, "rejected_calls=0,") {
				t.Errorf("%s: %s", c.Options().Addr, strings.TrimSpace(line))
			}
		}
	})
}

// A user with no more rights than the documentation asks for can do everything, and asks for
// nothing that is refused.
func TestSuiteWithFewRights(t *testing.T) {
	t.Parallel()
	all, _ := documentedRights(t)
	server := redistest.Start(t, redistest.Config{Directives: []string{"user default off", userLine(all)}})
	admin := server.Client(t)
	refusesNothing(t, admin)
	suite(t, asUser(server.URL()), only(admin))
}

// So in a Cluster, where the driver has questions of its own.
func TestSuiteWithFewRightsOnACluster(t *testing.T) {
	t.Parallel()
	all, further := documentedRights(t)
	cluster := redistest.StartCluster(t, 3, 0, redistest.Config{Calm: true, Directives: []string{"user default off", userLine(all, further)}})
	for _, s := range cluster.Servers() {
		refusesNothing(t, s.Client(t))
	}
	suite(t, asUser(cluster.URL()), cluster.Client(t).ForEachMaster)
}

// Redis propagates a script that writes more than once as MULTI and EXEC, and when it loads its
// append-only file, it refuses each EXEC if user default has no rights.
func TestARestartWithoutRightsOfTheDefaultUserLosesNothing(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]struct {
		directives []string
		rewrite    bool
	}{
		"AsItIs":          {},
		"WithoutPreamble": {directives: []string{"aof-use-rdb-preamble no"}},
		"Rewritten":       {rewrite: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, _ := documentedRights(t)
			server := redistest.Start(t, redistest.Config{Directives: append(o.directives, "appendonly yes", "user default off", userLine(all))})
			admin := server.Client(t)
			refusesNothing(t, admin)
			s := open(t, asUser(server.URL()), "a:", func(o *redis.Options) { o.TTL = time.Hour })
			change(t, s, 0)
			if o.rewrite {
				fatal.If(t, admin.BgRewriteAOF(t.Context()).Err())
				awaitRewrite(t, admin)
			}
			change(t, s, 1000)
			before := kept(t, admin)
			if len(before) < 100 {
				t.Fatalf("only %d keys before", len(before))
			}
			server.Restart()
			after := kept(t, admin)
			for key, value := range before {
				if after[key] != value {
					t.Errorf("%s is %q, before the restart %q", key, after[key], value)
				}
			}
			if len(after) != len(before) {
				t.Errorf("%d keys, before the restart %d", len(after), len(before))
			}
		})
	}
}

// change does all that changes records, indexes and logs, with keys from a number on.
func change(t *testing.T, s *redis.Store, from int) {
	t.Helper()
	specs, err := s.Part(store.Specs, 0)
	fatal.If(t, err)
	observations, err := s.Part(store.Observations, time.Hour)
	fatal.If(t, err)
	for _, part := range []store.Store{s, specs, observations} {
		batch := numbered(from, from+20)
		results, err := part.CompareAndSwapBatch(t.Context(), batch)
		fatal.If(t, err)
		for i := range 10 { // changed again, one by one and together
			batch[i].Old, batch[i].Value = results[i].Record.Version, []byte("again")
		}
		if _, err := part.CompareAndSwapBatch(t.Context(), batch[:10]); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for _, swap := range numbered(from+100, from+110) {
			all.Go(func() {
				r, err := part.CompareAndSwap(t.Context(), swap)
				if err == nil {
					swap.Old, swap.Value = r.Record.Version, []byte("again")
					_, err = part.CompareAndSwap(t.Context(), swap)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, swap := range batch[5:8] {
			if existed, err := part.Delete(t.Context(), swap.Key); err != nil || !existed {
				t.Fatal(existed, err)
			}
		}
		if p, ok := part.(store.PartStore); ok {
			if r, err := p.DeleteVersion(t.Context(), batch[15].Key, results[15].Record.Version); err != nil || !r.Swapped {
				t.Fatal(r, err)
			}
		}
	}
	var entries []store.LogEntry
	for _, swap := range numbered(from, from+20) {
		entries = append(entries, store.LogEntry{Key: swap.Key, Value: []byte("entry")})
	}
	for range 2 * logLength {
		fatal.If(t, s.AppendLog(t.Context(), entries))
	}
	if err := s.AppendLog(t.Context(), append(entries, entries...)); err != nil { // several of a full log
		t.Fatal(err)
	}
	if _, err := s.Secret(t.Context(), "page-tokens", []byte("secret")); err != nil {
		t.Fatal(err)
	}
}

// kept returns all keys with their contents and whether they expire, without those that may be
// lost.
func kept(t *testing.T, c *goredis.Client) map[string]string {
	t.Helper()
	all := make(map[string]string)
	keys, err := c.Keys(t.Context(), "*").Result()
	fatal.If(t, err)
	for _, key := range keys {
		value, err := c.Dump(t.Context(), key).Result()
		fatal.If(t, err)
		expires, err := c.PExpireTime(t.Context(), key).Result()
		fatal.If(t, err)
		all[key] = value + expires.String()
	}
	maps.DeleteFunc(all, func(key, _ string) bool {
		return strings.HasSuffix(key, "}f") || strings.HasSuffix(key, "}p") || key == "a:instances"
	})
	return all
}

func awaitRewrite(t *testing.T, c *goredis.Client) {
	t.Helper()
	for deadline := time.Now().Add(unhurried); ; time.Sleep(5 * time.Millisecond) {
		text, err := c.Info(t.Context(), "persistence").Result()
		fatal.If(t, err)
		if strings.Contains(text, "aof_rewrite_in_progress:0\r\n") && strings.Contains(text, "aof_rewrite_scheduled:0\r\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the file is still being rewritten")
		}
	}
}
