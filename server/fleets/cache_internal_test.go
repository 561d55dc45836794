package fleets

import (
	"testing"

	"github.com/setpoint-dev/setpoint/server/auth/bounded"
	"github.com/setpoint-dev/setpoint/store"
)

// What the cache keeps of a fleet is bounded by the sizes of spec and record together, also where the fleet was only read.
func TestLargeFleetsAreNotCached(t *testing.T) {
	t.Parallel()
	key := store.Key{Cluster: "all", Namespace: "shop", Target: "web"}
	f := &Fleets{cache: bounded.New[store.Key, *known](mostCached)}
	for _, tt := range []struct {
		spec, record int
		kept         bool
	}{
		{100, mostCachedBytes - 100, true},
		{100, mostCachedBytes - 99, false},
		{mostCachedBytes + 1, 0, false},
		{1, 1, true},
	} {
		f.put(key, &known{spec: &spec{size: tt.spec}, size: tt.record})
		if _, kept := f.cache.Get(key); kept != tt.kept {
			t.Errorf("a spec of %d bytes and a record of %d: cached %t, want %t", tt.spec, tt.record, kept, tt.kept)
		}
	}
}
