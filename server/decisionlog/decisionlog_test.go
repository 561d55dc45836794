package decisionlog

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/store"
)

// stuckStore is a log that writes only once it is released.
type stuckStore struct {
	store.Log
	released chan struct{}
	written  int
}

func (s *stuckStore) AppendLog(_ context.Context, entries []store.LogEntry) error {
	<-s.released
	s.written += len(entries)
	return nil
}

// Decisions that wait to be written are limited in bytes, however few they are; after a
// write there is space again.
func TestTheBacklogOfDecisionsIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	s := &stuckStore{released: make(chan struct{})}
	l := New(s, nil, zap.NewNop(), 0)
	large := Entry{decision: make([]byte, 64<<10)}
	const fit = maxQueuedBytes / (64 << 10)
	appendAll := func() {
		for range 2 * fit {
			l.Append(store.Key{Cluster: "c", Namespace: "n", Target: "t"}, large)
		}
	}
	appendAll()
	l.mu.Lock()
	bytes, dropped := l.backlog.size+l.writing, l.dropped
	l.mu.Unlock()
	if bytes > maxQueuedBytes || dropped < fit {
		t.Errorf("%d bytes wait and %d decisions were dropped, want %d bytes at most", bytes, dropped, maxQueuedBytes)
	}
	close(s.released)
	fatal.If(t, l.Flush(t.Context(), store.Key{Cluster: "c", Namespace: "n"}))
	l.Append(store.Key{}, large)
	l.Close()
	if want := 2*fit - dropped + 1; s.written != want || l.backlog.size+l.writing != 0 {
		t.Errorf("%d decisions were written and %d bytes are left, want %d and none", s.written, l.backlog.size+l.writing, want)
	}
}

// failingStore is a log that fails while there are errors.
type failingStore struct {
	store.Log
	errs []error
}

func (s *failingStore) AppendLog(context.Context, []store.LogEntry) error {
	if len(s.errs) == 0 {
		return nil
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return err
}

// An outage is two lines of the log, however many decisions are not written.
func TestAnOutageIsToldOnce(t *testing.T) {
	t.Parallel()
	seen, lines := observer.New(zap.WarnLevel)
	l := New(&failingStore{errs: []error{io.EOF, io.EOF, io.EOF}}, nil, zap.New(seen), 0)
	key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
	for range 5 {
		l.Append(key, Entry{decision: []byte("x")})
		fatal.If(t, l.Flush(t.Context(), key))
	}
	l.Close()
	got := lines.AllUntimed()
	if len(got) != 2 || got[0].ContextMap()["error"] != "EOF" || got[1].ContextMap()["failed"] != int64(3) || l.Lost() != 3 {
		t.Errorf("%+v, and %d are lost", got, l.Lost())
	}
}

// While one shard of several is away, writes fail and succeed in turn: that is two lines a minute.
func TestAnOutageOfAShardIsToldOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen, lines := observer.New(zap.WarnLevel)
		s := &failingStore{}
		l := New(s, nil, zap.New(seen), 0)
		defer l.Close()
		const each = 50
		for range 2 {
			for range each {
				s.errs = []error{io.EOF}
				for range 2 {
					l.Append(store.Key{Cluster: "c", Namespace: "n", Target: "t"}, Entry{decision: []byte("x")})
					synctest.Wait()
				}
			}
			time.Sleep(time.Minute)
		}
		l.Append(store.Key{Cluster: "c", Namespace: "n", Target: "t"}, Entry{decision: []byte("x")})
		synctest.Wait()
		var failed []any
		for _, line := range lines.AllUntimed() {
			failed = append(failed, line.ContextMap()["failed"])
		}
		if want := []any{nil, int64(1), nil, int64(each), int64(each - 1)}; !slices.Equal(failed, want) || l.Lost() != 2*each {
			t.Errorf("the lines say %v, want %v; %d are lost", failed, want, l.Lost())
		}
	})
}

// Of a write that fails in part, only what was not written counts as lost.
func TestWhatOtherShardsHaveTakenIsNotLost(t *testing.T) {
	t.Parallel()
	seen, lines := observer.New(zap.WarnLevel)
	l := New(&failingStore{errs: []error{store.BatchError{nil, io.EOF, nil}}}, nil, zap.New(seen), 0)
	key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
	for _, entries := range [][]Entry{{{decision: []byte("x")}, {decision: []byte("y")}, {decision: []byte("z")}}, {{decision: []byte("x")}}} {
		l.Append(key, entries...)
		fatal.If(t, l.Flush(t.Context(), key))
	}
	l.Close()
	if got := lines.AllUntimed(); len(got) != 2 || got[1].ContextMap()["failed"] != int64(1) || l.Lost() != 1 {
		t.Errorf("%+v, and %d are lost", got, l.Lost())
	}
}

// heldStore is a log and a feed that notes what is written, a write at a time.
type heldStore struct {
	store.Log
	may     chan struct{}
	written [][]store.LogEntry
}

func (s *heldStore) AppendLog(_ context.Context, entries []store.LogEntry) error {
	<-s.may
	s.written = append(s.written, entries)
	return nil
}

// A burst of one cluster or namespace, with few large entries or many small ones, delays and drops
// its own entries only.
func TestABurstDelaysAndDropsItsOwn(t *testing.T) {
	t.Parallel()
	key := func(cluster, namespace string) store.Key {
		return store.Key{Cluster: cluster, Namespace: namespace, Target: "t"}
	}
	for name, tc := range map[string]struct {
		burst func(i int) store.Key
		bytes int
	}{
		"a namespace":                    {func(int) store.Key { return key("shared", "burst") }, 100},
		"a namespace of large ones":      {func(int) store.Key { return key("shared", "burst") }, maxLoggedBytes},
		"a cluster":                      {func(i int) store.Key { return key("burst", fmt.Sprint(i%100)) }, 100},
		"a cluster of large ones":        {func(i int) store.Key { return key("burst", fmt.Sprint(i%100)) }, maxLoggedBytes},
		"a cluster of single namespaces": {func(i int) store.Key { return key("burst", fmt.Sprint(i)) }, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &heldStore{may: make(chan struct{}, 1<<20)}
			l := New(s, nil, zap.NewNop(), 0)
			const burst, honest = 2 * maxQueued, 500
			for i := range burst {
				l.Append(tc.burst(i), Entry{decision: make([]byte, tc.bytes)})
			}
			for i := range honest {
				l.Append(key([]string{"shared", "own"}[i%2], fmt.Sprint("n", i%5)), Entry{decision: []byte(fmt.Sprint("honest ", i))})
			}
			for range cap(s.may) {
				s.may <- struct{}{}
			}
			l.Close()
			theirs, before := 0, 0
			for _, entries := range s.written {
				for _, e := range entries {
					switch {
					case strings.Contains(string(e.Value), "honest"):
						theirs++
					case theirs < honest:
						before++
					}
				}
			}
			if theirs != honest {
				t.Errorf("%d of %d decisions of others are written", theirs, honest)
			}
			// One write was under way before they came.
			if most := maxWritten + 2*honest + maxWritten; before > most {
				t.Errorf("%d decisions of the burst are written before those of others, want %d at most", before, most)
			}
		})
	}
}

// What the feed gets is small, whatever a decision has, and says what was decided.
func TestWhatTheFeedGetsIsSmall(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\u00e9", 16<<10)
	d := recommender.Decision{
		Current: 3, Desired: 5, At: time.Now(), Reason: long, Error: long,
		Status: recommender.Status{CurrentReplicas: 3, DesiredReplicas: 5},
		Basis: recommender.Basis{
			Min: math.MaxInt32, Max: math.MaxInt32, Bounded: true, Proposal: math.MaxInt32, Decided: true, Limit: math.MaxInt32, Direction: recommender.Up, HasLimit: true,
			UpWindow: math.MaxInt32, DownWindow: math.MaxInt32, Windowed: true, Proposals: [4]int32{-1, -1, -1, -1}, ProposalsLen: 4,
		},
	}
	for range 64 {
		d.Status.Conditions = append(d.Status.Conditions, recommender.Condition{Type: long[:316], Status: "True", Reason: long[:1024], Message: long})
	}
	d.Adjusted = &recommender.Adjusted{}
	for range 4 { // as many as one decision tells
		d.Adjusted.Overrides = append(d.Adjusted.Overrides, recommender.Adjustment{Stage: recommender.StageOverride, Rule: recommender.OverrideBegins, Before: -1, After: -1, Message: strings.Repeat("o", recommender.MaxAdjustmentText), Until: time.Now()})
	}
	for _, entry := range []Entry{OfDecision(&d, strings.Repeat("r", 128), 7), OfPending(&d, strings.Repeat("r", 128), 7)} {
		value := entry.feed()
		const beside = 100 // the basis, and what is around both
		if len(value) > maxFedBytes+beside {
			t.Errorf("the feed gets %d bytes, want %d at most", len(value), maxFedBytes+beside)
		}
		if key := 3*253 + 2; key+len(value) > store.MaxFeedEntryBytes {
			t.Errorf("with the longest names these are %d bytes, more than the store takes", key+len(value))
		}
		fed, ok := ReadFed(value)
		if decision := fed.Decision(); !ok || decision.GetCurrentReplicas() != 3 || decision.GetDesiredReplicas() != 5 || !strings.HasPrefix(decision.GetReason(), "\u00e9") || len(decision.GetAdjustments()) != 4 {
			t.Errorf("%v is read", decision)
		}
	}
}

// A namespace that always has decisions waiting takes room for these, and none for those that were
// written.
func TestABacklogThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	t.Parallel()
	var b backlog
	key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
	e := queued{key: key, decisions: []Entry{{decision: []byte("decision")}}}
	for range 3 {
		b.add(e, e.size())
	}
	for range 10_000 {
		b.add(e, e.size())
		b.take()
	}
	cluster := b.of(key.Cluster)
	namespace := cluster.of(key.Namespace)
	if room := cap(namespace.entries); b.count != 3 || room > 64 {
		t.Errorf("%d decisions wait, in the room of %d", b.count, room)
	}
	for _, l := range []*lane{&b.lane, cluster, namespace} { // by which is chosen who loses some
		if l.size != 3*e.size() {
			t.Errorf("%q has %d bytes, want %d", l.name, l.size, 3*e.size())
		}
	}
}

// A decision that tells that an override begins or ends is logged and kept for long, however much it repeats the one before.
func TestADecisionThatTellsOfAnOverrideIsNoRepeat(t *testing.T) {
	t.Parallel()
	before := recommender.History{Last: recommender.LastDecision{At: 1, From: 3, To: 3}}
	d := recommender.Decision{Current: 3, Desired: 3, Adjusted: &recommender.Adjusted{Plain: 3}}
	if !Repeats(&d, &before, &recommender.Adjusted{Plain: 3}) {
		t.Error("the same is no repeat")
	}
	d.Adjusted.Overrides = []recommender.Adjustment{{Stage: recommender.StageOverride, Rule: recommender.OverrideEnds}}
	if Repeats(&d, &before, &recommender.Adjusted{Plain: 3}) {
		t.Error("it is a repeat")
	}
}
