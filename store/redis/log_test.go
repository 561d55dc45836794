package redis_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// logged returns a store with a log of three entries, and the log's name in Redis.
func logged(t *testing.T) (s *redis.Store, key store.Key, name string) {
	t.Helper()
	server := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	s = (&opener{url: server.URL()}).open(t, prefix, nil)
	t.Cleanup(func() { _ = s.Close() })
	key = store.Key{Cluster: "c", Namespace: "n", Target: "t"}
	for _, value := range []string{"1", "2", "3"} {
		fatal.If(t, s.AppendLog(t.Context(), []store.LogEntry{{Key: key, Value: []byte(value)}}))
	}
	names, err := server.Client(t).Keys(t.Context(), prefix+"*}l:c/n/t").Result()
	if err != nil || len(names) != 1 {
		t.Fatalf("the log is one of %v, %v", names, err)
	}
	return s, key, names[0]
}

// What is under a log's name and is no log is told, neither read nor written to, and
// goes with the target.
func TestForeignLogsAreUnreadable(t *testing.T) {
	t.Parallel()
	for name, commands := range map[string][][]any{
		"a stream":             {{"del"}, {"xadd", "*", "v", "entry"}},
		"a string":             {{"set", "entry"}},
		"an element too short": {{"rpush", "\x01"}},
		"an empty element":     {{"rpush", ""}},
		"another format":       {{"rpush", "\x02\x00\x00\x00\x00\x00\x00\x01entry"}},
		"a list of something":  {{"del"}, {"rpush", "something"}},
		"a damaged element":    {{"lset", -1, "\x02"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, key, log := logged(t)
			admin := redistest.Shared(t).Client(t)
			for _, c := range commands {
				fatal.If(t, admin.Do(t.Context(), append([]any{c[0], log}, c[1:]...)...).Err())
			}
			before, err := admin.Dump(t.Context(), log).Result()
			fatal.If(t, err)
			if values, _, err := s.ReadLog(t.Context(), key, "", 10); !errors.Is(err, store.ErrUnreadable) {
				t.Errorf("ReadLog returned %q, %v, want ErrUnreadable", values, err)
			}
			for _, kept := range []bool{false, true} {
				if err := s.AppendLog(t.Context(), []store.LogEntry{{Key: key, Value: []byte("4"), Kept: kept}}); !errors.Is(err, store.ErrUnreadable) {
					t.Errorf("AppendLog returned %v, want ErrUnreadable", err)
				}
			}
			if after, err := admin.Dump(t.Context(), log).Result(); err != nil || after != before {
				t.Errorf("it was changed: %q, now %q, %v", before, after, err)
			}
			if failures := s.Stats().Failures; failures != 0 {
				t.Errorf("%d commands count as failed, though Redis performed all", failures)
			}
			if _, err := s.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if values, _, err := s.ReadLog(t.Context(), key, "", 10); err != nil || len(values) > 0 {
				t.Errorf("after Delete: %q, %v", values, err)
			}
		})
	}
}

// An entry follows one that is kept longer, also where the clock of who appended that, and the entries before it, which
// are gone, was ahead; and such a one is not taken for an entry if it is none.
func TestEntriesFollowThoseKeptLonger(t *testing.T) {
	t.Parallel()
	s, key, log := logged(t)
	admin, kept := redistest.Shared(t).Client(t), strings.Replace(log, "}l:", "}c:", 1)
	const number = "\x0f\x00\x00\x00\x00\x00\x00" // some hundred years ahead
	for _, tc := range []struct {
		element string
		want    error
	}{{"\x02" + number + number + "kept", nil}, {"\x01" + number + number + "kept", store.ErrUnreadable}, {"\x02" + number, store.ErrUnreadable}} {
		fatal.If(t, admin.Del(t.Context(), log, kept).Err())
		fatal.If(t, admin.RPush(t.Context(), kept, tc.element).Err())
		if err := s.AppendLog(t.Context(), []store.LogEntry{{Key: key, Value: []byte("after")}}); !errors.Is(err, tc.want) {
			t.Errorf("after %q: %v, want %v", tc.element, err, tc.want)
		}
		if tc.want != nil {
			if err := s.AppendLog(t.Context(), []store.LogEntry{{Key: key, Value: []byte("after"), Kept: true}}); !errors.Is(err, tc.want) {
				t.Errorf("kept longer after %q: %v, want %v", tc.element, err, tc.want)
			}
			continue
		}
		values, _, err := s.ReadLog(t.Context(), key, "", 10)
		if err != nil || len(values) != 2 || string(values[0]) != "after" || string(values[1]) != "kept" {
			t.Errorf("newest first it is %q, %v", values, err)
		}
	}
}

// Where somebody has removed elements, positions are wrong, but pages end.
func TestPagesEndWhereElementsAreMissing(t *testing.T) {
	t.Parallel()
	s, key, log := logged(t)
	_, next, err := s.ReadLog(t.Context(), key, "", 1)
	fatal.If(t, err)
	admin := redistest.Shared(t).Client(t)
	elements, err := admin.LRange(t.Context(), log, 0, -1).Result()
	if err != nil || len(elements) != 3 {
		t.Fatalf("%q, %v", elements, err)
	}
	fatal.If(t, admin.LRem(t.Context(), log, 1, elements[1]).Err())
	if values, _, err := s.ReadLog(t.Context(), key, next, 1); !errors.Is(err, store.ErrUnreadable) {
		t.Errorf("from where elements are missing: %q, %v, want ErrUnreadable", values, err)
	}
}

// A position is of use however long after: when what it was given for is gone, when
// the log is another one, and when the log has lost its end, as in a failover.
func TestPositionsOfOtherTimes(t *testing.T) {
	t.Parallel()
	s, key, log := logged(t)
	_, next, err := s.ReadLog(t.Context(), key, "", 1)
	if err != nil || strings.Trim(next, "-0123456789") != "" {
		t.Fatalf("position %q, %v", next, err)
	}
	admin := redistest.Shared(t).Client(t)
	fatal.If(t, admin.LTrim(t.Context(), log, 0, 0).Err())
	for _, tc := range []struct {
		position string
		want     []string
	}{
		{next, []string{"1"}}, {"1-0", nil}, {"9007199254740991-9007199254740991", []string{"1"}},
	} {
		var got []string
		values, more, err := s.ReadLog(t.Context(), key, tc.position, 5)
		for _, value := range values {
			got = append(got, string(value))
		}
		if err != nil || more != "" || !slices.Equal(got, tc.want) {
			t.Errorf("from %s: %q, %q, %v, want %q", tc.position, got, more, err, tc.want)
		}
	}
	for _, position := range []string{"9007199254740992-1", "1-9007199254740992", "1", "01-1", "+1-1", "1.0", "1-", "-1", "1--1", "1-01", "1-1-1", "0x1-1", "1e3-1", "18446744073709551616-1"} {
		if _, _, err := s.ReadLog(t.Context(), key, position, 5); !errors.Is(err, store.ErrInvalidPosition) {
			t.Errorf("from %s: %v, want ErrInvalidPosition", position, err)
		}
	}
	if _, err := s.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, s.AppendLog(t.Context(), []store.LogEntry{{Key: key, Value: []byte("new")}}))
	if values, _, err := s.ReadLog(t.Context(), key, next, 5); err != nil || len(values) > 0 {
		t.Errorf("of a log that is gone: %q, %v, want nothing", values, err)
	}
}

// What the feed takes, of entries of the usual size.
func TestMemoryOfTheFeed(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	const n = 4000
	s := (&opener{url: server.URL()}).open(t, prefix, func(o *redis.Options) { o.FeedLength = 2 * n })
	t.Cleanup(func() { _ = s.Close() })
	for i := 0; i < n; i += 100 {
		var entries []store.FeedEntry
		for j := range 100 {
			key := store.Key{Cluster: "production", Namespace: "shop", Target: "target-" + strings.Repeat("x", (i+j)%20)}
			entries = append(entries, store.FeedEntry{Key: key, Value: make([]byte, 110)})
		}
		fatal.If(t, s.AppendFeed(t.Context(), entries))
	}
	admin := server.Client(t)
	names, err := admin.Keys(t.Context(), prefix+"*}f").Result()
	if err != nil || len(names) != s.FeedParts() {
		t.Fatalf("%v, %v", names, err)
	}
	bytes := int64(0)
	for _, name := range slices.Concat(names, []string{names[0] + "t", names[1] + "t", names[2] + "t", names[3] + "t"}) {
		usage, err := admin.MemoryUsage(t.Context(), name, 0).Result()
		fatal.If(t, err)
		bytes += usage
	}
	t.Logf("%d bytes an entry of 110 bytes", bytes/n)
	if bytes > 400*n {
		t.Errorf("%d entries take %d bytes", n, bytes)
	}
	testpages.Figure(t, "../../docs/operate/redis.md", "An entry of the usual 110 B takes some # B", float64(bytes)/n, 0.1)
}
