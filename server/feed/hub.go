package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/store"
)

// Defaults of Options.
const (
	defaultPoll        = 250 * time.Millisecond
	defaultBufferBytes = 32 << 20
	defaultQueue       = 4096
)

const (
	// readTimeout limits one read of the store.
	readTimeout = 5 * time.Second
	// readAtOnce is how many entries of a part one read returns.
	readAtOnce = 500
	// replayRest and backlogRest are the pauses after a read of a replay, and of the hub's if there
	// is more to read, in times of what the read took: so replays keep the store busy for a quarter
	// of the time at most, and the hub for half of it, however slow the store is and however many
	// ask. longestRest limits a pause.
	replayRest  = 3
	backlogRest = 1
	longestRest = time.Second
	// mostCounted is the longest gap in a part's numbers that counts decisions. A longer one
	// means that the part began again.
	mostCounted = 1 << 31
)

// Options are the settings of a Hub. Zero values are defaults.
type Options struct {
	// Poll is the interval of polling the store. Zero: 250 ms.
	Poll time.Duration
	// BufferBytes is the approximate memory of the decisions, with their encoded form, that are
	// kept for watchers that have not taken them yet. Zero: 32 MiB.
	BufferBytes int
	// Queue is how many decisions may wait for one watcher. Zero: 4096.
	Queue int
	// MaxWatchers limits the watchers. Zero: unlimited.
	MaxWatchers int
	// Log gets errors. Nil: nothing is logged.
	Log *zap.Logger
}

// Errors of Watch.
var (
	// ErrTooMany means that there is the maximum number of watchers.
	ErrTooMany = errors.New("too many watchers")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("feed closed")
)

// Hub reads the feed for all watchers.
type Hub struct {
	source  store.Feed
	options Options
	log     *zap.Logger
	parts   int
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup
	turns   *turns

	starting chan struct{} // one Watch at a time reads the position of the feed

	mu       sync.RWMutex
	reads    bool                 // whether the reader runs; guarded by mu
	closed   bool                 // guarded by mu
	position []store.FeedPosition // the position up to which the reader has distributed; guarded by mu
	ring     ring                 // guarded by mu
	index    index                // guarded by mu
	resets   int                  // how often the feed went back; guarded by mu

	missed atomic.Int64 // decisions that watchers missed
	sent   atomic.Int64 // decisions that watchers took
}

// New returns a hub on a feed that has parts.
func New(source store.Feed, options Options) *Hub {
	options.Poll = cmp.Or(options.Poll, defaultPoll)
	options.BufferBytes = cmp.Or(options.BufferBytes, defaultBufferBytes)
	options.Queue = cmp.Or(options.Queue, defaultQueue)
	options.Log = cmp.Or(options.Log, zap.NewNop())
	life, end := context.WithCancel(context.Background())
	return &Hub{
		source: source, options: options, log: options.Log, parts: source.FeedParts(), life: life, end: end,
		turns: newTurns(life.Done()), starting: make(chan struct{}, 1),
	}
}

// Close stops the reader. Watchers get nothing new afterwards.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.end()
	h.running.Wait()
	h.turns.close()
}

// Parts returns the number of parts of the feed.
func (h *Hub) Parts() int { return h.parts }

// MaxWatchers returns the maximum number of watchers; 0: unlimited.
func (h *Hub) MaxWatchers() int { return h.options.MaxWatchers }

// Watchers returns the number of watchers.
func (h *Hub) Watchers() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.index.count
}

// Collectors are the metrics of the feed.
func (h *Hub) Collectors() []prometheus.Collector {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	counter := func(name, help string, value *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value.Load()) })
	}
	return []prometheus.Collector{
		gauge("setpoint_watchers", "Open calls of WatchDecisions.", h.Watchers),
		gauge("setpoint_watch_buffer_bytes", "About what decisions take that are kept in memory for watchers, in bytes.", h.BufferedBytes),
		counter("setpoint_watch_decisions_sent_total", "Decisions sent to watchers, each watcher counted.", &h.sent),
		counter("setpoint_watch_decisions_missed_total", "Decisions that watchers were too slow for, each watcher counted; they are told.", &h.missed),
	}
}

// BufferedBytes returns the approximate memory of the decisions kept for watchers.
func (h *Hub) BufferedBytes() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.ring.bytes
}

// Viewer is the caller behind a watcher.
type Viewer struct {
	// Caller takes turns with others where watchers wait for each other; empty: unknown.
	Caller string
	// Sees reports whether the viewer may see decisions of a namespace; nil: of all. It may be called
	// at any time, concurrently.
	Sees func(cluster, namespace string) bool
}

// Watch registers a watcher. It gets decisions that match the filter and that the viewer may see.
// from is its start, for each part: a position of an Event, or with Number 0 and Millis above 0 an
// instant, for the decisions since then that the store still has; nil: now. Watch reads the
// position of the feed from the store, if there was no watcher before.
func (h *Hub) Watch(ctx context.Context, filter Filter, from []store.FeedPosition, viewer Viewer) (*Watcher, error) {
	if from != nil && len(from) != h.parts {
		return nil, fmt.Errorf("%d positions of %d parts", len(from), h.parts)
	}
	select {
	case h.starting <- struct{}{}:
		defer func() { <-h.starting }()
	case <-ctx.Done(): // another Watch waits for a slow store
		return nil, ctx.Err()
	}
	h.mu.RLock()
	reads := h.reads
	h.mu.RUnlock()
	var now []store.FeedPosition
	if !reads {
		pages, err := h.source.ReadFeed(ctx, readsOf(make([]store.FeedPosition, h.parts), nil), 0)
		if err != nil {
			return nil, err
		}
		for _, page := range pages {
			now = append(now, page.Newest)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, ErrClosed
	case h.options.MaxWatchers > 0 && h.index.count >= h.options.MaxWatchers:
		return nil, ErrTooMany
	}
	if !h.reads {
		if now == nil { // the reader stopped meanwhile, after reading up to its position
			now = h.position
		}
		h.position, h.ring, h.reads = now, ring{next: h.ring.next}, true
		h.running.Go(h.run)
	}
	w := newWatcher(h, filter, viewer, from)
	h.index.add(w)
	return w, nil
}

// run reads until there is no watcher.
func (h *Hub) run() {
	tick := time.NewTicker(h.options.Poll)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-tick.C:
		case <-h.life.Done():
			return
		}
		if h.stops() {
			return
		}
		err := h.read()
		switch {
		case err == nil:
			failing = false
		case !failing && h.life.Err() == nil:
			failing = true
			h.log.Warn("feed of decisions not read; watchers wait", zap.Error(err))
		}
	}
}

// stops stops the reader if there is no watcher.
func (h *Hub) stops() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.index.count > 0 {
		return false
	}
	h.reads = false
	h.ring = ring{next: h.ring.next}
	return true
}

// readsOf asks for what follows positions of parts; without those that are skipped, if that is not nil.
func readsOf(after []store.FeedPosition, skip func(part int) bool) (reads []store.FeedRead) {
	for part := range after {
		if skip == nil || !skip(part) {
			reads = append(reads, store.FeedRead{Part: part, After: after[part]})
		}
	}
	return reads
}

// rest pauses after a read that took so long, unless done is closed.
func rest(took time.Duration, times int, done <-chan struct{}) {
	timer := time.NewTimer(min(took*time.Duration(times), longestRest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	}
}

// read reads all new entries, of each part a page in turn.
func (h *Hub) read() error {
	for {
		h.mu.RLock()
		after := slices.Clone(h.position)
		h.mu.RUnlock()
		ctx, cancel := context.WithTimeout(h.life, readTimeout)
		began := time.Now()
		pages, err := h.source.ReadFeed(ctx, readsOf(after, nil), readAtOnce)
		took := time.Since(began)
		cancel()
		var some store.BatchError
		if err != nil && !errors.As(err, &some) {
			return err
		}
		if !h.take(after, pages, some) {
			return err
		}
		rest(took, backlogRest, h.life.Done())
	}
}

// take distributes pages, and reports whether there may be more. A page is valid if its
// error in failed is nil.
func (h *Hub) take(after []store.FeedPosition, pages []store.FeedPage, failed store.BatchError) (more bool) {
	var items []*item
	counted, uncounted, resets := uint64(0), false, 0
	for part, page := range pages {
		if failed != nil && failed[part] != nil {
			continue
		}
		if page.Newest.Before(after[part]) {
			// The store has lost its newest entries, as in a failover. New ones reuse numbers
			// that were already read, maybe for other decisions.
			after[part], uncounted = page.Newest, true
			resets++
			continue
		}
		for _, read := range page.Items {
			lost, unknown := gap(after[part], &read)
			counted, uncounted = counted+lost, uncounted || unknown
			after[part] = read.Position
			if it := newItem(part, read); it != nil {
				items = append(items, it)
			} else {
				uncounted = true
			}
		}
		more = more || len(page.Items) > 0 && after[part].Before(page.Newest)
	}
	slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(a.position.Millis, b.position.Millis) })
	for _, w := range h.handOut(items, after, counted, uncounted, resets) {
		w.wake() // each watcher once, after all decisions were queued
	}
	return more
}

// handOut queues items for the interested watchers, and returns the watchers whose queue was
// empty.
func (h *Hub) handOut(items []*item, position []store.FeedPosition, lost uint64, uncounted bool, resets int) (woken []*Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lost > 0 || uncounted {
		h.index.each(func(w *Watcher) { w.lost(lost, uncounted) })
	}
	for _, it := range items {
		// Only what somebody waits for takes place in the buffer.
		wanted := false
		h.index.interested(it.key, func(w *Watcher) {
			queued, first := w.offer(h.ring.next, it)
			wanted = wanted || queued
			if first {
				woken = append(woken, w)
			}
		})
		if wanted {
			h.ring.add(it, h.options.BufferBytes)
		}
	}
	h.resets += resets
	h.position = position // after the decisions: a watcher with an empty queue is at this position
	return woken
}

// instant reports whether a position is a start time rather than one that was read: entries
// before the first one read after it were not requested.
func instant(p store.FeedPosition) bool { return p.Number == 0 && p.Millis > 0 }

// gap returns the number of missing entries between a position and the next entry that is
// read, or that it is unknown.
func gap(before store.FeedPosition, next *store.FeedItem) (lost uint64, unknown bool) {
	number := next.Position.Number
	switch {
	case instant(before):
		return 0, false
	case before == store.FeedPosition{}: // the part was empty
		return 0, !next.First
	case next.First || number <= before.Number || number-before.Number > mostCounted: // it began again
		return 0, true
	}
	return number - before.Number - 1, false
}

// ring has the newest items, by their own numbers.
type ring struct {
	items []*item
	next  uint64 // number of the next item
	bytes int
}

// add adds an item, whose number is next, and drops the oldest beyond the limit.
func (r *ring) add(it *item, most int) {
	r.items = append(r.items, it)
	r.bytes += it.size()
	for r.bytes > most && len(r.items) > 1 {
		r.bytes -= r.items[0].size()
		r.items[0] = nil
		r.items = r.items[1:]
	}
	r.next++
}

// get returns an item, nil if it was dropped.
func (r *ring) get(n uint64) *item {
	if first := r.next - uint64(len(r.items)); n >= first && n < r.next {
		return r.items[n-first]
	}
	return nil
}

// item is a decision of the feed.
type item struct {
	part     int
	position store.FeedPosition
	key      store.Key
	fed      decisionlog.Fed

	once     sync.Once
	response []byte // set once, see encoded
}

// encoded is the decision and its target in the form for all watchers, encoded for the
// first of them; nil if the decision is invalid.
func (it *item) encoded() []byte {
	it.once.Do(func() {
		if d := it.fed.Decision(); d != nil {
			// Its parts were decoded before: encoding fails only for texts that are not UTF-8.
			it.response, _ = proto.Marshal(&setpointv1.WatchedDecision{Target: it.key.String(), Decision: d})
		}
	})
	return it.response
}

// newItem returns the item of an entry, nil for one that has no decision: of an unknown format, or in place of what could
// not be written.
func newItem(part int, read store.FeedItem) *item {
	fed, ok := decisionlog.ReadFed(read.Value)
	if !ok {
		return nil
	}
	return &item{part: part, position: read.Position, key: read.Key, fed: fed}
}

// size is the approximate memory of an item with its encoded form, in bytes.
func (it *item) size() int { return 512 + 8*it.fed.Size() }
