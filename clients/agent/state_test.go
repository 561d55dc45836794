package agent

import (
	"testing"
	"time"
)

// Waking an object while its reconcile is in flight is not lost.
func TestAnObjectIsHurried(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newStates(m)
	key, later := (Key{Kind: "Service", Namespace: "shop", Name: "web"}), time.Now().Add(time.Hour)
	st := s.of(key)
	s.begin(st)
	s.makeDue([]Key{key})
	want(t, "due after a reconcile that was hurried", s.end(st, later), time.Time{})
	s.begin(st)
	want(t, "due after a reconcile that was not", s.end(st, later), later)
}
