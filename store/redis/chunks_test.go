package redis_test

import (
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// TestChunksOfRedis writes chunks as two instances do: there are as many as were asked for, beside the target's log, they
// expire by themselves, and they go with a deletion.
func TestChunksOfRedis(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	const length, ttl = 3, time.Hour
	open := func() (log store.ChunkLog, engine store.Log) {
		s := (&opener{url: server.URL()}).open(t, prefix, nil)
		t.Cleanup(func() { _ = s.Close() })
		return s.Chunks(length, ttl), s
	}
	one, engine := open()
	two, _ := open()
	key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
	read := func(log store.Log) (texts []string) {
		values, _, err := log.ReadLog(t.Context(), key, "", 10)
		fatal.If(t, err)
		for _, value := range values {
			texts = append(texts, string(value))
		}
		return texts
	}
	for i, text := range []string{"1", "2", "3", "4", "5"} {
		fatal.If(t, []store.Log{one, two}[i%2].AppendLog(t.Context(), []store.LogEntry{{Key: key, Value: []byte(text)}}))
	}
	for _, log := range []store.Log{one, two} {
		if got := read(log); !slices.Equal(got, []string{"5", "4", "3"}) {
			t.Errorf("chunks are %v", got)
		}
	}
	if got := read(engine); len(got) != 0 {
		t.Errorf("the target's log has %v", got)
	}
	client := server.Client(t)
	names := func() []string {
		all, err := client.Keys(t.Context(), prefix+"*").Result()
		fatal.If(t, err)
		return all
	}
	all := names()
	if len(all) != 1 {
		t.Fatalf("the store has %v", all)
	}
	if left, err := client.PTTL(t.Context(), all[0]).Result(); err != nil || left <= 0 || left > ttl {
		t.Errorf("they expire in %v, %v", left, err)
	}
	if _, err := two.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got, left := read(one), names(); len(got) != 0 || len(left) != 0 {
		t.Errorf("a deletion leaves %v in %v", got, left)
	}
}
