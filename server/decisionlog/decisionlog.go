package decisionlog

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// maxQueued limits the entries that wait to be written; beyond it those of who has the most
	// waiting are dropped and counted.
	maxQueued = 8192
	// maxQueuedBytes limits their size in the same way.
	maxQueuedBytes = 16 << 20
	// maxLoggedBytes limits one decision: a larger one is logged without readings and
	// with shortened texts.
	maxLoggedBytes = 8 << 10
	// maxFedBytes limits one decision of the feed, which has less of larger ones. With its basis and
	// the names of its target it is below store.MaxFeedEntryBytes.
	maxFedBytes = 1 << 10
	// maxWritten limits the entries of one write, and maxWrittenBytes their size: what comes next
	// waits for it.
	maxWritten      = 512
	maxWrittenBytes = 1 << 20
	// writeTimeout limits one write.
	writeTimeout = 5 * time.Second
)

// Log writes decisions to the store's log in the background: no response waits for it,
// and it drops what it can't write. It writes a target's decision once it is final: at
// once if it changes nothing, else when the change is settled. Unchanged decisions are
// written only within a rate; the target's last decision is in its record in any case.
type Log struct {
	store   store.Log
	feed    store.Feed // nil: there are no watchers
	log     *zap.Logger
	wake    chan struct{} // tells the writer that there are entries, or that it is closed
	stopped chan struct{}
	repeats repeatsRoom
	pending pendingBases
	gap     *store.FeedEntry // stands in the feed for what could not be written; used by the writer only
	unfed   time.Time        // when the last failure of the feed was logged; used by the writer only
	failing int              // decisions not logged that no line has counted; used by the writer only
	told    bool             // the last line says that decisions can't be logged; used by the writer only
	toldAt  time.Time        // when the last line was; used by the writer only
	failed  atomic.Int64

	mu      sync.Mutex
	closed  bool    // guarded by mu
	dropped int     // guarded by mu
	backlog backlog // guarded by mu
	writing int     // size of the entries that are being written; guarded by mu
	markers int     // of the backlog and of what is being written; guarded by mu
}

// queued is decisions to write, or a marker: flushed is closed when everything of the namespace
// before it is written.
type queued struct {
	key       store.Key
	decisions []Entry
	flushed   chan<- struct{}
}

// New starts the writer; Close stops it. A nil store drops everything. The feed gets the same
// decisions. A nil feed, or one without parts, disables it.
func New(s store.Log, feed store.Feed, log *zap.Logger, repeatsPerSecond int) *Log {
	if feed != nil && feed.FeedParts() == 0 {
		feed = nil
	}
	l := &Log{
		store: s, feed: feed, log: log, wake: make(chan struct{}, 1), stopped: make(chan struct{}),
		repeats: repeatsRoom{most: min(repeatsPerSecond, math.MaxInt/int(repeatsPeriod/time.Second)) * int(repeatsPeriod/time.Second)},
	}
	go l.run()
	return l
}

// Takes reports whether to log a decision that changes nothing. A target's first
// decision is only in its record until there is another one to log, see decide.
func (l *Log) Takes(key store.Key, before *recommender.History, repeated bool) bool {
	return !repeated && before.Last.At != 0 || l.repeats.takes(key, time.Now())
}

// Feeds reports whether changes must also be appended when they are recommended; see
// OfPending.
func (l *Log) Feeds() bool { return l.feed != nil }

// Append passes decisions to the writer.
func (l *Log) Append(key store.Key, decisions ...Entry) {
	if len(decisions) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	// The job that they come from reuses its slice.
	entry := queued{key: key, decisions: slices.Clone(decisions)}
	size := entry.size()
	for l.backlog.count >= maxQueued || l.backlog.size+l.writing+size > maxQueuedBytes {
		way := l.backlog.makeWay(&entry, size)
		if l.dropped++; l.dropped&(l.dropped-1) == 0 {
			l.log.Warn("decision log too slow, entries dropped", zap.Int("droppedSoFar", l.dropped))
		}
		if !way {
			return
		}
	}
	l.backlog.add(entry, size)
	l.wakeWriter()
}

// Lost is how many entries were dropped, or could not be written.
func (l *Log) Lost() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(l.dropped) + l.failed.Load()
}

// wakeWriter tells the writer that there is something to do.
func (l *Log) wakeWriter() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// size is the approximate size of the entry, in bytes.
func (e *queued) size() int {
	const overhead = 128
	n := overhead + len(e.key.Cluster) + len(e.key.Namespace) + len(e.key.Target)
	for i := range e.decisions {
		n += e.decisions[i].Size()
	}
	return n
}

// Flush waits until earlier entries of the key's namespace are written. It does not wait if the
// queue is full: the log is best effort, and markers are bounded as entries are.
func (l *Log) Flush(ctx context.Context, key store.Key) error {
	done := make(chan struct{})
	l.mu.Lock()
	if l.closed || l.backlog.count+l.markers >= maxQueued {
		l.mu.Unlock()
		return nil
	}
	l.markers++
	l.backlog.add(queued{key: key, flushed: done}, 0)
	l.wakeWriter()
	l.mu.Unlock()
	select {
	case <-done:
		return ctx.Err() // both may be ready: do nothing for a caller who has gone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close writes the queued entries and stops the writer.
func (l *Log) Close() {
	l.mu.Lock()
	l.closed = true
	l.wakeWriter()
	l.mu.Unlock()
	<-l.stopped
}

func (l *Log) run() {
	defer close(l.stopped)
	for range l.wake {
		for {
			batch, closed := l.gather()
			if len(batch) == 0 && closed {
				return
			}
			if len(batch) == 0 {
				break
			}
			l.write(batch)
		}
	}
}

// gather takes a batch of what waits, and reports whether nothing more will come.
func (l *Log) gather() (batch []queued, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(batch) < maxWritten && l.writing < maxWrittenBytes {
		entry, ok := l.backlog.take()
		if !ok {
			break
		}
		if entry.flushed == nil {
			l.writing += entry.size()
		}
		batch = append(batch, entry)
	}
	return batch, l.closed
}

func (l *Log) write(batch []queued) {
	var values []store.LogEntry
	var fed []store.FeedEntry
	for _, entry := range batch {
		for i := range entry.decisions {
			d := &entry.decisions[i]
			if d.chunk != nil {
				values = d.chunk.appendTo(values, entry.key)
				continue
			}
			if d.missed {
				if l.feed != nil {
					fed = append(fed, store.FeedEntry{Key: entry.key, Value: []byte{gapFormat}})
				}
				continue
			}
			if !d.unsettled {
				values = append(values, d.logged(entry.key))
			}
			if l.feed != nil && !d.first {
				fed = append(fed, store.FeedEntry{Key: entry.key, Value: d.feed()})
			}
		}
	}
	if len(values) > 0 && l.store != nil {
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		l.tell(len(values), l.store.AppendLog(ctx, values))
		cancel()
	}
	l.writeFeed(fed)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = 0
	for _, entry := range batch {
		if entry.flushed != nil {
			l.markers--
			close(entry.flushed)
		}
	}
}

// tell logs that a write failed, once a minute, and then how many decisions are missing once one succeeds: while one shard
// of several is away they take turns. Of a write that failed in part, the others are not missing. Only the writer calls it.
func (l *Log) tell(decisions int, err error) {
	if err == nil {
		if l.failing > 0 && (l.told || time.Since(l.toldAt) >= tellPause) {
			l.log.Warn("decisions are logged again", zap.Int("failed", l.failing))
			l.failing, l.told, l.toldAt = 0, false, time.Now()
		}
		return
	}
	if !l.told && time.Since(l.toldAt) >= tellPause {
		l.told, l.toldAt = true, time.Now()
		l.log.Warn("decisions can't be logged", zap.Error(err))
	}
	for _, missing := range store.ByItem(err, decisions, decisions) {
		if missing != nil {
			l.failing++
			l.failed.Add(1)
		}
	}
}

// tellPause is how often a failing log, or feed, is told of.
const tellPause = time.Minute

// writeFeed appends to the feed. Only the writer calls it.
func (l *Log) writeFeed(entries []store.FeedEntry) {
	if len(entries) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if l.gap != nil {
		entries = slices.Insert(entries, 0, *l.gap)
	}
	err := l.feed.AppendFeed(ctx, entries)
	l.gap = nil
	if err != nil {
		l.gap = &store.FeedEntry{Key: entries[0].Key, Value: []byte{gapFormat}}
	}
	if err != nil && time.Since(l.unfed) >= tellPause {
		l.unfed = time.Now()
		l.log.Warn("decisions not in the feed; watchers miss them", zap.Int("decisions", len(entries)), zap.Error(err))
	}
}
