package redis

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// A caller whose own swap another flight has taken may be left with that of somebody else, which its cancellation does
// not end.
func TestACancellationEndsNoOtherCallersSwap(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Addresses: []string{redistest.Shared(t).Addr()}, KeyPrefix: redistest.Prefix(t)})
	fatal.If(t, err)
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

// Nor does it wait for them: its time is over, and theirs is not.
func TestACancellationWaitsForNoOtherCallersSwap(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer func() { _ = silent.Close() }()
	s, err := New(Options{Addresses: []string{silent.Addr().String()}, MaxAttempts: 1})
	fatal.If(t, err)
	defer s.Close()
	swap := store.Swap{Key: store.Key{Cluster: "c", Namespace: "n", Target: "t"}, Value: []byte("a")}
	var to texts
	others := &pendingSwap{done: make(chan struct{}, 1)}
	others.begin(s.layout, &swap, &to)
	s.coalescerOf(s.layout.bucket(swap.Key)).waiting = []*pendingSwap{others}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.coalesce(gone, &swap); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that leaves: %v", err)
	}
	select {
	case <-others.done:
		t.Error("it waited for the other caller's swap")
	default:
		<-others.done
	}
}
