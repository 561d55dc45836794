package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// TestInstances tests that an engine keeps announcements until they expire.
func TestInstances(t *testing.T, s store.Instances) {
	t.Helper()
	ctx := t.Context()
	announce := func(before, now string, ttl time.Duration) {
		t.Helper()
		if err := s.Announce(ctx, []byte(before), []byte(now), ttl); err != nil {
			t.Fatalf("Announce: %v", err)
		}
	}
	announced := func(ctx context.Context, limit int) (texts []string) {
		t.Helper()
		values, err := s.Announced(ctx, limit)
		if err != nil {
			t.Fatalf("Announced: %v", err)
		}
		for _, value := range values {
			texts = append(texts, string(value))
		}
		slices.Sort(texts)
		return texts
	}
	want := func(texts ...string) {
		t.Helper()
		if got := announced(ctx, 10); !slices.Equal(got, texts) {
			t.Errorf("announced are %q, want %q", got, texts)
		}
	}
	want()
	announce("", "a 1", time.Minute)
	announce("", "b\x001", time.Minute)
	want("a 1", "b\x001")
	announce("a 1", "a 2", time.Minute)
	announce("a 1", "a 2", time.Minute) // as after a lost reply
	want("a 2", "b\x001")
	if got := announced(ctx, 1); len(got) != 1 {
		t.Errorf("announced are %q, want one", got)
	}
	// An announcement that expires early neither removes the others nor is kept by
	// them.
	announce("", "c 1", 50*time.Millisecond)
	announce("a 2", "a 3", time.Minute)
	for deadline := time.Now().Add(30 * time.Second); slices.Contains(announced(ctx, 10), "c 1"); {
		if time.Now().After(deadline) {
			t.Fatal("what ended is still announced")
		}
	}
	want("a 3", "b\x001")
	announce("a 3", "", 0)
	announce("b\x001", "", 0)
	want()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Announce(ended, nil, []byte("d"), time.Minute); err == nil {
		t.Error("Announce for a caller that has given up: want an error")
	}
	if _, err := s.Announced(ended, 1); err == nil {
		t.Error("Announced for a caller that has given up: want an error")
	}
}
