package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// decisionLogBacklog bounds the entries that wait to be written; beyond it
	// they are dropped and counted.
	decisionLogBacklog = 8192
	// decisionLogBytes bounds what these entries take: where nothing is written, they are
	// dropped and counted as well.
	decisionLogBytes = 16 << 20
	// maxLoggedBytes bounds one decision: what is longer goes without readings and with
	// the beginnings of its texts.
	maxLoggedBytes = 8 << 10
	// decisionLogBatch bounds the entries of one write.
	decisionLogBatch = 512
	// decisionLogTimeout bounds one write.
	decisionLogTimeout = 5 * time.Second
)

// decisionLog writes decisions to the store's log in the background: no answer
// waits for it, and what it can't write is lost. A target's decision is written
// once it is final: at once if it changes nothing, else when the change is settled.
// What says nothing new is written only while there is room; the target's last decision
// is in its record anyway.
type decisionLog struct {
	store   store.Log
	log     *zap.Logger
	entries chan logEntry
	stopped chan struct{}
	repeats repeatsRoom

	mu      sync.Mutex
	closed  bool // guarded by mu
	dropped int  // guarded by mu
	bytes   int  // of the entries that wait or are being written, guarded by mu
}

// logEntry is decisions to write, or a marker: flushed is closed when all before
// it is written.
type logEntry struct {
	key       store.Key
	decisions []logged
	flushed   chan<- struct{}
}

// newDecisionLog starts the writer; close stops it. A nil store drops everything.
func newDecisionLog(s store.Log, log *zap.Logger, repeatsPerSecond int) *decisionLog {
	l := &decisionLog{
		store: s, log: log, entries: make(chan logEntry, decisionLogBacklog), stopped: make(chan struct{}),
		repeats: repeatsRoom{most: repeatsPerSecond * int(repeatsPeriod/time.Second)},
	}
	go l.run()
	return l
}

// takes reports whether a decision that changes nothing is to be logged. The first of a
// target is in its record until there is another to log, see targets.conclude.
func (l *decisionLog) takes(before *recommender.History, repeated bool) bool {
	return !repeated && before.Last.At != 0 || l.repeats.takes(time.Now())
}

// append hands decisions to the writer.
func (l *decisionLog) append(key store.Key, decisions ...logged) {
	if len(decisions) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	// The job that they come from uses its slice again.
	entry := logEntry{key: key, decisions: slices.Clone(decisions)}
	if size := entry.size(); l.bytes+size <= decisionLogBytes {
		select {
		case l.entries <- entry:
			l.bytes += size
			return
		default:
		}
	}
	if l.dropped++; l.dropped&(l.dropped-1) == 0 {
		l.log.Warn("decision log too slow, entries dropped", zap.Int("droppedSoFar", l.dropped))
	}
}

// size is about what the entry takes, in bytes.
func (e *logEntry) size() int {
	const overhead = 128
	n := overhead + len(e.key.Cluster) + len(e.key.Namespace) + len(e.key.Target)
	for i := range e.decisions {
		n += len(e.decisions[i].value)
	}
	return n
}

// flush waits until what was appended before is written.
func (l *decisionLog) flush(ctx context.Context) error {
	done := make(chan struct{})
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	select {
	case l.entries <- logEntry{flushed: done}:
		l.mu.Unlock()
	default:
		// So much waits that a reader had better not; the log is best effort.
		l.mu.Unlock()
		return nil
	}
	select {
	case <-done:
		return ctx.Err() // both may have come: for a caller who has gone nothing is done
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close writes what waits and stops the writer.
func (l *decisionLog) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.entries)
	}
	l.mu.Unlock()
	<-l.stopped
}

func (l *decisionLog) run() {
	defer close(l.stopped)
	for entry := range l.entries {
		l.write(l.gather(entry))
	}
}

// gather takes what waits behind the entry, up to a batch.
func (l *decisionLog) gather(first logEntry) []logEntry {
	batch := []logEntry{first}
	for len(batch) < decisionLogBatch {
		select {
		case entry, open := <-l.entries:
			if !open {
				return batch
			}
			batch = append(batch, entry)
		default:
			return batch
		}
	}
	return batch
}

func (l *decisionLog) write(batch []logEntry) {
	var values []store.LogEntry
	for _, entry := range batch {
		for _, d := range entry.decisions {
			values = append(values, store.LogEntry{Key: entry.key, Value: d.value, First: d.first})
		}
	}
	if len(values) > 0 && l.store != nil {
		ctx, cancel := context.WithTimeout(context.Background(), decisionLogTimeout)
		if err := l.store.AppendLog(ctx, values); err != nil {
			l.log.Warn("decisions not logged", zap.Int("decisions", len(values)), zap.Error(err))
		}
		cancel()
	}
	written := 0
	for _, entry := range batch {
		if entry.flushed != nil {
			close(entry.flushed)
			continue
		}
		written += entry.size()
	}
	l.mu.Lock()
	l.bytes -= written
	l.mu.Unlock()
}
