package redis

import (
	"context"
	"testing"

	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// A caller whose own swap another flight has taken may be left with that of somebody else, which its cancellation does
// not end.
func TestACancellationEndsNoOtherCallersSwap(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Addresses: []string{redistest.Shared(t).Addr()}, KeyPrefix: redistest.Prefix(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	swap := store.Swap{Key: store.Key{Cluster: "c", Namespace: "n", Target: "t"}, Value: []byte("a")}
	var to texts
	others := &pendingSwap{done: make(chan struct{}, 1)}
	others.begin(s.layout, &swap, &to)
	c := s.coalescerOf(s.layout.bucket(swap.Key))
	c.waiting, c.flights = []*pendingSwap{others}, 1
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s.runFlight(gone, c, &pendingSwap{})
	if <-others.done; others.err != nil || !others.result.Swapped {
		t.Errorf("%+v, %v", others.result, others.err)
	}
}
