package decisionlog

import (
	"context"
	"testing"

	"go.uber.org/zap"

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
	large := Entry{Value: make([]byte, 64<<10)}
	const fit = maxQueuedBytes / (64 << 10)
	appendAll := func() {
		for range 2 * fit {
			l.Append(store.Key{Cluster: "c", Namespace: "n", Target: "t"}, large)
		}
	}
	appendAll()
	l.mu.Lock()
	bytes, dropped := l.bytes, l.dropped
	l.mu.Unlock()
	if bytes > maxQueuedBytes || dropped < fit {
		t.Errorf("%d bytes wait and %d decisions were dropped, want %d bytes at most", bytes, dropped, maxQueuedBytes)
	}
	close(s.released)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Append(store.Key{}, large)
	l.Close()
	if want := 2*fit - dropped + 1; s.written != want || l.bytes != 0 {
		t.Errorf("%d decisions were written and %d bytes are left, want %d and none", s.written, l.bytes, want)
	}
}
