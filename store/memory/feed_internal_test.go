package memory

import (
	"strconv"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
)

// What is kept to find a tenant's entries is bounded as these are, whoever wrote them.
func TestWhatTheFeedKnowsOfTenantsIsBounded(t *testing.T) {
	t.Parallel()
	const length = 100
	for name, tenants := range map[string]struct{ clusters, namespaces int }{
		"one":                    {1, 1},
		"within their shares":    {10, 10},
		"clusters beyond theirs": {2, 20},
		"namespaces, too":        {2, 2},
	} {
		s := New(Options{FeedLength: length})
		at := func(i int) store.Key {
			return store.Key{Cluster: strconv.Itoa(i % tenants.clusters), Namespace: strconv.Itoa(i / tenants.clusters % tenants.namespaces), Target: "t"}
		}
		quiet := store.Key{Cluster: "0", Namespace: "quiet", Target: "t"}
		for i := range 100 * length {
			entries := []store.FeedEntry{{Key: at(i)}}
			if i%length == 0 {
				entries = append(entries, store.FeedEntry{Key: quiet})
			}
			fatal.If(t, s.AppendFeed(t.Context(), entries))
		}
		numbers := 0
		for _, of := range s.feed.namespaces {
			numbers += len(of.numbers)
		}
		for _, of := range s.feed.clusters {
			numbers += len(of.numbers)
		}
		if most := 2 * (2*length + 1); numbers > most || s.feed.held != length {
			t.Errorf("%s: %d numbers of %d entries, want at most %d of %d", name, numbers, s.feed.held, most, length)
		}
	}
}
