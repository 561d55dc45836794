package fleets

import (
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/store"
)

// What the cache keeps of a fleet is bounded by the sizes of spec and record together, also where the fleet was only read.
func TestLargeFleetsAreNotCached(t *testing.T) {
	t.Parallel()
	key := store.Key{Cluster: "all", Namespace: "shop", Target: "web"}
	f := &Fleets{cache: newCache()}
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

// Fleets with specs as long as one may be that is cached do not take more than a fixed part of the memory together.
func TestManyLargeFleetsAreNotAllCached(t *testing.T) {
	t.Parallel()
	f := &Fleets{cache: newCache()}
	for i := range 2000 {
		f.put(store.Key{Cluster: "all", Namespace: "shop", Target: fmt.Sprint("web-", i)}, &known{spec: &spec{size: mostCachedBytes}})
	}
	bytes := 0
	f.cache.Each(func(k *known) { bytes += k.spec.size })
	if most := mostCached / specInMemory; bytes == 0 || bytes > most {
		t.Errorf("specs of %d bytes are cached, want at most %d", bytes, most)
	}
}
