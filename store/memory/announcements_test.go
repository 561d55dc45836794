package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/storetest"
)

func TestAnnouncements(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	defer func() { _ = s.Close() }()
	storetest.TestAnnouncements(t, s)
}

// What ended is freed, also in lists to which nobody announces any more.
func TestEndedAnnouncementsAreFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		for _, list := range []string{"agents:a", "agents:b", "agents:c"} {
			fatal.If(t, s.Announce(t.Context(), list, nil, []byte("one"), time.Minute))
		}
		time.Sleep(2 * time.Minute)
		fatal.If(t, s.Announce(t.Context(), "agents:c", nil, []byte("two"), time.Minute))
		if n := len(s.announcements.lists); n != 1 || len(s.announcements.lists["agents:c"]) != 1 {
			t.Errorf("%d lists are kept: %v", n, s.announcements.lists)
		}
	})
}
