package feed_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/feed"
	"github.com/setpoint-dev/setpoint/store"
)

// source is a feed of two parts that can fail and lose its end.
type source struct {
	mu    sync.Mutex
	items [2][]store.FeedItem // guarded by mu
	err   error               // guarded by mu
	full  error               // of appending; guarded by mu
	reads int                 // guarded by mu
	// handed is how many entries were read; guarded by mu
	handed int
}

func (s *source) FeedParts() int { return 2 }

func (s *source) AppendFeed(_ context.Context, entries []store.FeedEntry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		return s.full
	}
	for _, e := range entries {
		part := int(e.Key.Target[0]) % 2
		number := uint64(1)
		if n := len(s.items[part]); n > 0 {
			number = s.items[part][n-1].Position.Number + 1
		}
		at := store.FeedPosition{Millis: uint64(time.Now().UnixMilli()), Number: number}
		s.items[part] = append(s.items[part], store.FeedItem{Position: at, Key: e.Key, Value: e.Value, First: len(s.items[part]) == 0})
	}
	return nil
}

func (s *source) ReadFeed(_ context.Context, reads []store.FeedRead, limit int) ([]store.FeedPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.err != nil {
		return nil, s.err
	}
	pages := make([]store.FeedPage, len(reads))
	for i, read := range reads {
		for _, item := range s.items[read.Part] {
			pages[i].Newest = item.Position
			if read.After.Before(item.Position) && len(pages[i].Items) < limit {
				pages[i].Items = append(pages[i].Items, item)
				s.handed++
			}
		}
	}
	return pages, nil
}

func (s *source) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// fixture is a hub in a bubble of its own time.
type fixture struct {
	t      *testing.T
	source *source
	log    *decisionlog.Log
	hub    *feed.Hub
}

func newFixture(t *testing.T, options feed.Options) *fixture {
	f := &fixture{t: t, source: &source{}}
	f.log = decisionlog.New(nil, f.source, nopLogger(), 1000)
	f.hub = feed.New(f.source, options)
	return f
}

func (f *fixture) close() {
	f.log.Close()
	f.hub.Close()
}

// decide appends decisions of a target: each goes from 1 replica to so many.
func (f *fixture) decide(target string, replicas ...int32) {
	f.t.Helper()
	for _, n := range replicas {
		d := recommender.Decision{Current: 1, Desired: n, At: time.Now()}
		f.log.Append(store.Key{Cluster: "c", Namespace: "n", Target: target}, decisionlog.OfDecision(&d, "", 0))
	}
	fatal.If(f.t, f.log.Flush(f.t.Context(), store.Key{Cluster: "c", Namespace: "n"}))
	time.Sleep(time.Millisecond) // parts are in the order of milliseconds
}

func (f *fixture) watch(filter feed.Filter, from []store.FeedPosition) *feed.Watcher {
	f.t.Helper()
	w, err := f.hub.Watch(f.t.Context(), filter, from, feed.Viewer{})
	fatal.If(f.t, err)
	return w
}

// take takes the next event. It waits while the watcher reads what was before it.
func (f *fixture) take(w *feed.Watcher, most int) (e feed.Event, ok bool, err error) {
	for {
		if e, ok, err = w.Take(f.t.Context(), most); ok || err != nil {
			return e, ok, err
		}
		synctest.Wait()
		select {
		case <-w.Ready():
		default:
			return e, false, nil
		}
	}
}

// want takes the next events, once there was time for a look at the store, and checks their
// targets, counts and what was missed before them. It returns the last one's position.
func (f *fixture) want(w *feed.Watcher, want ...string) []store.FeedPosition {
	f.t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	var at []store.FeedPosition
	for i := 0; ; i++ {
		e, ok, err := f.take(w, 1)
		fatal.If(f.t, err)
		if !ok {
			if i < len(want) {
				f.t.Errorf("nothing comes, want %s", want[i])
			}
			return at
		}
		at = e.Position
		var r setpointv1.WatchedDecision
		fatal.If(f.t, proto.Unmarshal(e.Decisions[0], &r))
		got := fmt.Sprintf("%s %d", strings.TrimPrefix(r.GetTarget(), "clusters/c/namespaces/n/targets/"), r.GetDecision().GetDesiredReplicas())
		if e.Missed > 0 {
			got += fmt.Sprintf(", %d missed", e.Missed)
		}
		if e.Uncounted {
			got += ", some missed"
		}
		if i >= len(want) || got != want[i] {
			f.t.Errorf("%d: got %s, want %q", i, got, want)
		}
	}
}

// In a second every watcher has what it asked for, in the order of time.
func TestDecisionsReachWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{})
		defer f.close()
		f.decide("before", 2)
		all := f.watch(feed.Filter{}, nil)
		one := f.watch(feed.Filter{Cluster: "c", Namespace: "n", Target: "b"}, nil)
		changes := f.watch(feed.Filter{Cluster: "c", ChangesOnly: true}, nil)
		other := f.watch(feed.Filter{Cluster: "other"}, nil)
		f.decide("a", 2)
		f.decide("b", 1)
		f.decide("a", 3)
		f.want(all, "a 2", "b 1", "a 3")
		f.want(one, "b 1")
		f.want(changes, "a 2", "a 3")
		f.want(other)
	})
}

// Nothing is read while nobody watches.
func TestNothingIsReadWithoutWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{})
		defer f.close()
		w := f.watch(feed.Filter{}, nil)
		f.decide("a", 2)
		f.want(w, "a 2")
		w.Close()
		w.Close()
		time.Sleep(time.Second)
		reads := 0
		f.source.change(func() { reads = f.source.reads })
		time.Sleep(time.Hour)
		f.source.change(func() { reads = f.source.reads - reads })
		if reads > 0 || f.hub.Watchers() != 0 || f.hub.BufferedBytes() != 0 {
			t.Errorf("%d reads, %d watchers, %d bytes", reads, f.hub.Watchers(), f.hub.BufferedBytes())
		}
		f.decide("a", 3)
		again := f.watch(feed.Filter{}, nil)
		f.decide("a", 4)
		f.want(again, "a 4")
	})
}

// A slow watcher is told how many it missed, gets the newest, and slows nobody; whether it was
// its own queue that was full or what all share.
func TestSlowWatchersAreNotified(t *testing.T) {
	for name, options := range map[string]feed.Options{"queue": {Queue: 3}, "buffer": {BufferBytes: 4 << 10}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, options)
				defer f.close()
				slow, quick := f.watch(feed.Filter{}, nil), f.watch(feed.Filter{}, nil)
				total := 0
				for n := range int32(10) {
					f.decide("a", n+2)
					f.want(quick, fmt.Sprintf("a %d", n+2))
				}
				for {
					e, ok, err := slow.Take(t.Context(), 2)
					fatal.If(t, err)
					if !ok {
						break
					}
					total += int(e.Missed) + len(e.Decisions)
					if e.Uncounted {
						t.Error("it was counted")
					}
				}
				if total != 10 || f.hub.BufferedBytes() > 32<<20 {
					t.Errorf("%d decisions were taken or missed, want 10", total)
				}
			})
		})
	}
}

// Who comes back gets what lies between, whether it is new to the hub or not, and nothing twice;
// also where the other instance was ahead.
func TestResuming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{Poll: 10 * time.Second})
		defer f.close()
		other := feed.New(f.source, feed.Options{})
		defer other.Close()
		w, err := other.Watch(t.Context(), feed.Filter{}, nil, feed.Viewer{})
		fatal.If(t, err)
		keeps := f.watch(feed.Filter{}, nil)
		f.decide("a", 2, 3)
		f.decide("b", 4)
		at := f.want(w, "a 2", "a 3", "b 4")
		f.decide("a", 5)
		// This hub has not looked since, and the other one has seen three of four.
		again := f.watch(feed.Filter{}, at)
		f.decide("b", 6)
		time.Sleep(10 * time.Second)
		f.want(again, "a 5", "b 6")
		f.want(keeps, "a 2", "a 3", "b 4", "a 5", "b 6")
		f.want(f.watch(feed.Filter{}, make([]store.FeedPosition, 2)), "a 2", "a 3", "b 4", "a 5", "b 6")
	})
}

// What the store has dropped since a position is told: how many, where all were the watcher's.
func TestTrimmedFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{})
		defer f.close()
		w := f.watch(feed.Filter{}, nil)
		f.decide("a", 2)
		at := f.want(w, "a 2")
		f.decide("a", 3, 4, 5, 6)
		f.source.change(func() { part := int('a') % 2; f.source.items[part] = f.source.items[part][3:] })
		f.want(f.watch(feed.Filter{}, at), "a 5, 2 missed", "a 6")
		f.want(f.watch(feed.Filter{Cluster: "c"}, at), "a 5, some missed", "a 6")
		f.want(w, "a 5, 2 missed", "a 6")
	})
}

// Who found the feed empty is told what was dropped since, as is the hub that did; who asks for
// what is still held since an instant misses nothing by what was before.
func TestTrimmedSinceTheFeedWasEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{})
		defer f.close()
		w := f.watch(feed.Filter{}, nil)
		empty := w.Beat().Position
		instant := []store.FeedPosition{{Millis: 1}, {Millis: 1}}
		f.source.change(func() { f.source.err = store.ErrUnavailable })
		f.decide("a", 2, 3, 4)
		f.source.change(func() {
			f.source.err = nil
			part := int('a') % 2
			f.source.items[part] = f.source.items[part][1:]
		})
		f.want(w, "a 3, some missed", "a 4")
		f.want(f.watch(feed.Filter{}, empty), "a 3, some missed", "a 4")
		f.want(f.watch(feed.Filter{Cluster: "c"}, empty), "a 3, some missed", "a 4")
		f.want(f.watch(feed.Filter{}, instant), "a 3", "a 4")
		f.decide("b", 5) // a part that has its first entry still
		f.want(f.watch(feed.Filter{Target: "b"}, []store.FeedPosition{empty[0], instant[1]}), "b 5")
	})
}

// Where all is dropped between where a watcher was and where the hub is, nothing of it is left to
// show the gap.
func TestTrimmedUpToTheHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{Poll: 10 * time.Second})
		defer f.close()
		w := f.watch(feed.Filter{}, nil)
		empty := w.Beat().Position
		f.decide("a", 2)
		time.Sleep(10 * time.Second)
		at := f.want(w, "a 2")
		f.decide("a", 3, 4)
		time.Sleep(10 * time.Second)
		f.want(w, "a 3", "a 4")
		f.decide("a", 5)
		part := int('a') % 2
		f.source.change(func() { f.source.items[part] = f.source.items[part][3:] })
		resumed, anew := f.watch(feed.Filter{}, at), f.watch(feed.Filter{}, empty)
		time.Sleep(10 * time.Second)
		f.want(resumed, "a 5, 2 missed")
		f.want(anew, "a 5, some missed")
	})
}

// What this version can't read of a decision, as of a newer one's, is missed, not left out without a word: by the watchers
// that would have got it.
func TestDecisionsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{})
		defer f.close()
		w, resumed, other := f.watch(feed.Filter{}, nil), f.watch(feed.Filter{}, nil), f.watch(feed.Filter{Target: "b"}, nil)
		at := resumed.Beat().Position
		f.decide("a", 2, 3)
		f.source.change(func() {
			first := &f.source.items[int('a')%2][0]
			first.Value = append(first.Value[:2:2], "of another version"...)
		})
		f.want(w, "a 3, some missed")
		f.want(f.watch(feed.Filter{}, at), "a 3, some missed")
		f.decide("b", 4)
		f.want(other, "b 4")
	})
}

// A watcher that asked for an instant goes on from where it has read to, once it has: also where
// the instant is to come, or nothing was there yet.
func TestInstantsBecomePositions(t *testing.T) {
	for name, instant := range map[string]time.Duration{"past": -time.Hour, "to come": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, feed.Options{})
				defer f.close()
				begin := store.FeedPosition{Millis: uint64(time.Now().Add(instant).UnixMilli())}
				w := f.watch(feed.Filter{Target: "a"}, []store.FeedPosition{begin, begin})
				f.want(w)
				at := w.Beat().Position
				f.decide("b", 2, 3)
				part := int('b') % 2
				f.want(f.watch(feed.Filter{}, at), "b 2", "b 3")
				f.source.change(func() { f.source.items[part] = f.source.items[part][1:] })
				f.want(f.watch(feed.Filter{}, at), "b 3, some missed")
			})
		})
	}
}

// While the store is away watchers wait, and lose nothing; where it has lost its end, they are
// told that something may be missing, and go on.
func TestStoresThatAreAwayAndThatForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{})
		defer f.close()
		w := f.watch(feed.Filter{}, nil)
		f.decide("a", 2, 3)
		at := f.want(w, "a 2", "a 3")
		f.source.change(func() { f.source.err = store.ErrUnavailable })
		f.decide("a", 4)
		f.want(w)
		f.source.change(func() { f.source.err = nil })
		f.want(w, "a 4")
		part := int('a') % 2
		f.source.change(func() { f.source.items[part] = f.source.items[part][:1] })
		time.Sleep(time.Second)
		f.decide("a", 5)
		f.want(w, "a 5, some missed")
		f.decide("a", 6)
		f.want(w, "a 6")
		// The position is of an entry that was lost: what came in its place is not skipped.
		f.source.change(func() { f.source.items[part] = f.source.items[part][:1] })
		again := f.watch(feed.Filter{}, at)
		time.Sleep(time.Second)
		f.decide("a", 7)
		at = f.want(again, "a 7, some missed")
		// What could not be appended is reported with the next one.
		f.source.change(func() { f.source.full = store.ErrUnavailable })
		f.decide("a", 8)
		f.source.change(func() { f.source.full = nil })
		f.decide("a", 9, 10)
		f.want(again, "a 9, some missed", "a 10")
		f.want(f.watch(feed.Filter{}, at), "a 9, some missed", "a 10")
	})
}

// Reading what was before a watcher is done in parts, so that its caller hears something meanwhile,
// and resumes where it was.
func TestLongReplaysAreInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{})
		defer f.close()
		for range 3000 {
			f.log.Append(store.Key{Cluster: "c", Namespace: "n", Target: "a"}, decisionlog.OfDecision(&recommender.Decision{Current: 1, Desired: 2, At: time.Now()}, "", 0))
		}
		f.decide("a", 3) // also flushes
		f.decide("b", 3)
		begin := []store.FeedPosition{{Millis: 1}, {Millis: 1}}
		w := f.watch(feed.Filter{Target: "b"}, begin)
		for range 5 {
			if _, ok, err := w.Take(t.Context(), 1); ok || err != nil {
				t.Fatalf("after a while: %v, %v", ok, err)
			}
			<-w.Ready()
		}
		at := w.Beat().Position
		if number := at[int('a')%2].Number; number == 0 || number >= 3000 {
			t.Errorf("after a while it is at %v, want a part of what there is", at)
		}
		again := f.watch(feed.Filter{Target: "b"}, at)
		for _, w := range []*feed.Watcher{w, again} {
			f.want(w, "b 3")
			w.Close()
		}
	})
}

// One that asks for much with many watchers does not keep another from its turn, and what is read
// while the hub is closed ends.
func TestCallersTakeTurnsWithReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{})
		f.decide("a", 2)
		slow := &slowSource{source: f.source}
		hub := feed.New(slow, feed.Options{})
		begin := []store.FeedPosition{{Millis: 1}, {Millis: 1}}
		watch := func(caller string) *feed.Watcher {
			w, err := hub.Watch(t.Context(), feed.Filter{}, begin, feed.Viewer{Caller: caller})
			fatal.If(t, err)
			if _, ok, err := w.Take(t.Context(), 1); ok || err != nil {
				t.Fatalf("before anything was read: %v, %v", ok, err)
			}
			return w
		}
		slow.takes.Store(int64(time.Second))
		for range 100 {
			watch("much")
		}
		few := watch("few")
		began := time.Now()
		<-few.Ready()
		// One read is under way, and one of the other caller's comes first, each with its rest.
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("a caller of one watcher waits %v for one of a hundred", took)
		}
		if e, ok, err := few.Take(t.Context(), 10); !ok || err != nil || len(e.Decisions) != 1 {
			t.Errorf("%v, %v, %v", e, ok, err)
		}
		hub.Close()
		f.close()
	})
}

// A replay reads each entry once, however the entries are spread over the parts.
func TestReplaysReadNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{})
		defer f.close()
		const n = 5000
		for i := range n {
			f.log.Append(store.Key{Cluster: "c", Namespace: "n", Target: []string{"a", "b"}[i/(n-n/10)]}, decisionlog.OfDecision(&recommender.Decision{Current: 1, Desired: 2, At: time.Now()}, "", 0))
			if i%100 == 0 {
				f.decide("b", 1) // both parts have entries of all times, one has many more
			}
		}
		f.decide("a", 2)
		had := 0
		f.source.change(func() { f.source.handed = 0; had = len(f.source.items[0]) + len(f.source.items[1]) })
		w := f.watch(feed.Filter{Target: "none"}, []store.FeedPosition{{Millis: 1}, {Millis: 1}})
		for range 100 {
			f.want(w)
		}
		f.source.change(func() {
			if f.source.handed != had {
				t.Errorf("a replay of %d entries read %d", had, f.source.handed)
			}
		})
	})
}

// However many watchers of however many callers ask for all there is, again and again, the store is
// not busy with that for more than a quarter of the time.
func TestReadsAreAShareOfTheStoresTime(t *testing.T) {
	for _, takes := range []time.Duration{time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, feed.Options{})
				defer f.close()
				for range 1000 {
					f.log.Append(store.Key{Cluster: "c", Namespace: "n", Target: "a"}, decisionlog.OfDecision(&recommender.Decision{Current: 1, Desired: 2, At: time.Now()}, "", 0))
				}
				f.decide("a", 2)
				slow := &slowSource{source: f.source}
				slow.takes.Store(int64(takes))
				hub := feed.New(slow, feed.Options{Poll: 24 * time.Hour})
				defer hub.Close()
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				for i := range 100 {
					running.Go(func() {
						for ctx.Err() == nil {
							w, err := hub.Watch(ctx, feed.Filter{Target: "none"}, []store.FeedPosition{{Millis: 1}, {Millis: 1}}, feed.Viewer{Caller: fmt.Sprint("caller ", i%3)})
							if err != nil {
								return
							}
							for range 3 {
								_, _, _ = w.Take(ctx, 100)
								select {
								case <-w.Ready():
								case <-ctx.Done():
								}
							}
							w.Close()
						}
					})
				}
				time.Sleep(time.Second)
				began, busy := time.Now(), slow.busy.Load()
				time.Sleep(400 * takes)
				share := float64(slow.busy.Load()-busy) / float64(time.Since(began))
				cancel()
				running.Wait()
				if share > 0.27 || share < 0.2 {
					t.Errorf("replays take %.2f of the store's time", share)
				}
			})
		})
	}
}

// What nobody waits for takes no room from what somebody does.
func TestWhatNobodyWatchesTakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{BufferBytes: 4 << 10})
		defer f.close()
		w := f.watch(feed.Filter{Target: "a"}, nil)
		f.decide("a", 2)
		for range 1000 {
			f.log.Append(store.Key{Cluster: "c", Namespace: "n", Target: "b"}, decisionlog.OfDecision(&recommender.Decision{Current: 1, Desired: 2, At: time.Now()}, "", 0))
		}
		f.decide("b", 3)
		f.want(w, "a 2")
	})
}

// slowSource is a feed whose reads take a while.
type slowSource struct {
	*source
	takes atomic.Int64 // nanoseconds
	busy  atomic.Int64 // how long it has read, in nanoseconds
}

func (s *slowSource) ReadFeed(ctx context.Context, reads []store.FeedRead, limit int) ([]store.FeedPage, error) {
	began := time.Now()
	defer func() { s.busy.Add(int64(time.Since(began))) }()
	select {
	case <-time.After(time.Duration(s.takes.Load())):
		return s.source.ReadFeed(ctx, reads, limit)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// What waits together comes together, in its order, as much as is asked for and fits.
func TestDecisionsComeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{})
		defer f.close()
		w := f.watch(feed.Filter{}, nil)
		for n := range int32(700) {
			f.log.Append(store.Key{Cluster: "c", Namespace: "n", Target: "a"}, decisionlog.OfDecision(&recommender.Decision{Current: 1, Desired: n, At: time.Now()}, "", 0))
		}
		f.decide("a", 700)
		time.Sleep(time.Second)
		next, events := int32(0), 0
		for {
			e, ok, err := f.take(w, 500)
			fatal.If(t, err)
			if !ok {
				break
			}
			events++
			bytes := 0
			for _, encoded := range e.Decisions {
				var r setpointv1.WatchedDecision
				if err := proto.Unmarshal(encoded, &r); err != nil || r.GetDecision().GetDesiredReplicas() != next {
					t.Fatalf("%v, %v, want %d", &r, err, next)
				}
				next++
				bytes += len(encoded)
			}
			if len(e.Decisions) > 500 || bytes > 40<<10 || e.Missed > 0 || e.Uncounted {
				t.Errorf("%d decisions of %d bytes, %d missed", len(e.Decisions), bytes, e.Missed)
			}
			if again := f.watch(feed.Filter{}, e.Position); events == 1 {
				if e, ok, err := f.take(again, 1); !ok || err != nil || len(e.Decisions) != 1 {
					t.Errorf("resumed: %v, %v, %v", e, ok, err)
				} else if at := new(setpointv1.WatchedDecision); proto.Unmarshal(e.Decisions[0], at) != nil || at.GetDecision().GetDesiredReplicas() != next {
					t.Errorf("resumed with %v, want %d", at, next)
				}
			}
		}
		if next != 701 || events < 2 || events > 100 {
			t.Errorf("%d decisions came in %d events", next, events)
		}
	})
}

// Who gives up need not wait for a store that is slow for another one.
func TestWatchingGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{asked: make(chan struct{})}
		hub := feed.New(s, feed.Options{})
		defer hub.Close()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = hub.Watch(ctx, feed.Filter{}, nil, feed.Viewer{}) }()
		<-s.asked
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if _, err := hub.Watch(short, feed.Filter{}, nil, feed.Viewer{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		cancel()
	})
}

// stuck is a feed that answers when its caller has gone.
type stuck struct {
	source
	asked chan struct{}
}

func (s *stuck) ReadFeed(ctx context.Context, _ []store.FeedRead, _ int) ([]store.FeedPage, error) {
	close(s.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestTooManyWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{MaxWatchers: 1})
		w := f.watch(feed.Filter{}, nil)
		if _, err := f.hub.Watch(t.Context(), feed.Filter{}, nil, feed.Viewer{}); !errors.Is(err, feed.ErrTooMany) {
			t.Errorf("%v", err)
		}
		w.Close()
		f.watch(feed.Filter{}, nil)
		f.close()
		if _, err := f.hub.Watch(t.Context(), feed.Filter{}, nil, feed.Viewer{}); !errors.Is(err, feed.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

// A watcher gets what it may see at the moment that it takes it.
func TestRightsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, feed.Options{})
		defer f.close()
		var mu sync.Mutex
		may := true
		w, err := f.hub.Watch(t.Context(), feed.Filter{}, nil, feed.Viewer{Sees: func(string, string) bool {
			mu.Lock()
			defer mu.Unlock()
			return may
		}})
		fatal.If(t, err)
		f.decide("a", 2)
		f.want(w, "a 2")
		f.decide("a", 3)
		time.Sleep(time.Second)
		mu.Lock()
		may = false
		mu.Unlock()
		f.decide("a", 4)
		f.want(w)
	})
}

// A backlog of new decisions, of many pages, keeps the store busy for half of the time.
func TestABacklogIsReadInHalfOfTheStoresTime(t *testing.T) {
	for _, takes := range []time.Duration{time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, feed.Options{})
				defer f.close()
				slow := &slowSource{source: f.source}
				slow.takes.Store(int64(takes))
				hub := feed.New(slow, feed.Options{Poll: time.Hour})
				defer hub.Close()
				w, err := hub.Watch(t.Context(), feed.Filter{Target: "none"}, nil, feed.Viewer{})
				fatal.If(t, err)
				defer w.Close()
				const pages = 20
				for range pages {
					for range 500 {
						f.log.Append(store.Key{Cluster: "c", Namespace: "n", Target: "a"}, decisionlog.OfDecision(&recommender.Decision{Current: 1, Desired: 2, At: time.Now()}, "", 0))
					}
					synctest.Wait()
				}
				time.Sleep(time.Hour) // the hub begins to read
				began, busy := time.Now(), slow.busy.Load()
				time.Sleep(2 * (pages - 4) * takes)
				if share := float64(slow.busy.Load()-busy) / float64(time.Since(began)); share > 0.55 || share < 0.4 {
					t.Errorf("a backlog takes %.2f of the store's time", share)
				}
			})
		})
	}
}
