package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

// TestAnnouncements tests that an engine keeps announcements until they expire.
func TestAnnouncements(t *testing.T, s store.Announcements) {
	t.Helper()
	ctx := t.Context()
	announce := func(before, now string, ttl time.Duration) {
		t.Helper()
		if err := s.Announce(ctx, store.InstancesList, []byte(before), []byte(now), ttl); err != nil {
			t.Fatalf("Announce: %v", err)
		}
	}
	announced := func(ctx context.Context, limit int) (texts []string) {
		t.Helper()
		values, err := s.Announced(ctx, store.InstancesList, limit)
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
	// Lists are apart.
	other := store.AgentsList + "0a"
	if err := s.Announce(ctx, other, nil, []byte("a 2"), time.Minute); err != nil {
		t.Fatalf("Announce: %v", err)
	}
	want("a 2", "b\x001")
	if err := s.Announce(ctx, other, []byte("a 2"), nil, 0); err != nil {
		t.Fatalf("Announce: %v", err)
	}
	if left, err := s.Announced(ctx, other, 10); err != nil || len(left) > 0 {
		t.Errorf("announced in an ended list are %q, error %v", left, err)
	}
	want("a 2", "b\x001")
	// An announcement that expires early neither removes the others nor is kept by
	// them.
	announce("a 2", "a 3", time.Minute)
	announce("", "c 1", 50*time.Millisecond)
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
	if err := s.Announce(ended, store.InstancesList, nil, []byte("d"), time.Minute); err == nil {
		t.Error("Announce for a caller that has given up: want an error")
	}
	if _, err := s.Announced(ended, store.InstancesList, 1); err == nil {
		t.Error("Announced for a caller that has given up: want an error")
	}
}
