package decision

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func newTruth(o TruthOptions, engine store.Store) *Truth {
	return NewTruth(o, engine, func(log store.Log) *decisionlog.Log { return decisionlog.New(log, nil, zap.NewNop(), 0) })
}

// keep keeps a decision of a target at an instant.
func keep(t *Truth, key store.Key, at time.Time) {
	j := &Job{
		Request: Request{Key: key, Now: at, SpecHash: 1, Input: &recommender.Input{Options: recommender.DefaultOptions()}},
		Outcome: Outcome{Decision: recommender.Decision{At: at}}, targets: &Targets{Truth: t}, room: new(room),
	}
	j.noteTruth(&record.Record{})
	j.keepTruth()
}

func keyed(cluster string, i int) store.Key {
	return store.Key{Cluster: cluster, Namespace: "n", Target: fmt.Sprint("t", i)}
}

// written is how many entries a target has in the store.
func written(tb testing.TB, t *Truth, key store.Key) int {
	tb.Helper()
	values, _, err := t.chunks.ReadLog(tb.Context(), key, "", 1000)
	if err != nil {
		tb.Fatal(err)
	}
	return len(values)
}

// TestABufferIsBoundedAndShared floods an instance with targets of one cluster: its memory is bounded, and another
// cluster's targets are kept.
func TestABufferIsBoundedAndShared(t *testing.T) {
	truth := newTruth(TruthOptions{Bytes: DayOfTruth, Age: time.Hour, Buffer: 4 << 20}, memory.New(memory.Options{}))
	defer truth.Close()
	now := time.Now()
	const flood = 20_000
	for i := range flood {
		keep(truth, keyed("flood", i), now)
	}
	if used := truth.used.Load(); used > 4<<20 || used < 1<<20 {
		t.Errorf("%d bytes are used", used)
	}
	missing := 0
	for i := range 500 {
		key := keyed("other", i)
		keep(truth, key, now)
		if chunks, _, err := truth.Read(t.Context(), key.String(), "", 0, 10); err != nil || len(chunks) != 1 {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d of 500 targets of another cluster are not kept", missing)
	}
}

// TestChunksEndByThemselves holds when chunks are written, and that what is idle takes no memory.
func TestChunksEndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		truth := newTruth(TruthOptions{Bytes: DayOfTruth, Age: 24 * time.Hour, Buffer: 1 << 20}, memory.New(memory.Options{}))
		key := keyed("c", 1)
		keep(truth, key, time.Now())
		if n := written(t, truth, key); n != 0 {
			t.Errorf("%d chunks at once", n)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if n := written(t, truth, key); n == 0 {
			t.Error("no chunk after ten minutes")
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if used := truth.used.Load(); used != 0 {
			t.Errorf("an idle target takes %d bytes", used)
		}
		n := written(t, truth, key)
		keep(truth, key, time.Now())
		truth.Close()
		if written(t, truth, key) <= n {
			t.Error("a stop loses what is not yet written")
		}
	})
}

// TestATargetIsBounded keeps many decisions of one target with texts that differ: what the store has is bounded.
func TestATargetIsBounded(t *testing.T) {
	const most = LeastTruthBytes
	engine := memory.New(memory.Options{})
	truth := newTruth(TruthOptions{Bytes: most, Age: time.Hour, Buffer: 1 << 20}, engine)
	key, now := keyed("c", 1), time.Now()
	for i := range 5000 {
		j := &Job{
			Request: Request{Key: key, Now: now.Add(time.Duration(i) * time.Second), SpecHash: 1, Input: &recommender.Input{Options: recommender.DefaultOptions()}},
			Outcome: Outcome{Decision: recommender.Decision{At: now.Add(time.Duration(i) * time.Second), Error: fmt.Sprintf("%x", i*i*i*7919)}}, targets: &Targets{Truth: truth}, room: new(room),
		}
		j.noteTruth(&record.Record{})
		j.keepTruth()
	}
	truth.Close()
	values, _, err := truth.chunks.ReadLog(t.Context(), key, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, value := range values {
		size += len(value)
	}
	if size > most+1000 || size < most/4 {
		t.Errorf("%d bytes of a target, with --recording-bytes=%d", size, most)
	}
}
