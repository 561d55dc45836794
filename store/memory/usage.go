package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/setpoint-dev/setpoint/store"
)

// usageSample is how many records Usage reads to estimate the size of all.
const usageSample = 256

var _ store.Usages = (*Store)(nil)

// Usage implements store.Usages.
func (s *Store) Usage(ctx context.Context, cluster string) (store.Usage, error) {
	now, err := s.begin(ctx, 1)
	if err != nil {
		return store.Usage{}, fmt.Errorf("usage: %w", err)
	}
	count, sample := s.index.sample(cluster, usageSample)
	var alive, bytes int64
	for _, key := range sample {
		sh := s.find(key)
		if size, exists := sh.size(key, now); exists {
			alive++
			bytes += int64(size)
		}
	}
	if len(sample) == 0 {
		return store.Usage{}, nil
	}
	scale := func(n int64) int64 { return int64(float64(n) / float64(len(sample)) * float64(count)) }
	return store.Usage{Keys: scale(alive), Bytes: scale(bytes)}, nil
}

// sample returns how many keys of the cluster are in the index (of all clusters for ""),
// and up to n of them, chosen at random.
func (x *index) sample(cluster string, n int) (count int, keys []store.Key) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var from, to int // bounds in the first chunk, and in the one after the last whole one
	first, last := 0, len(x.chunks)
	if cluster != "" && last > 0 {
		first, from, _ = x.search(store.Key{Cluster: cluster})
		last, to, _ = x.search(store.Key{Cluster: cluster + "\x00"}) // first key of the next cluster
	}
	each := func(visit func(c []store.Key, from, to int)) {
		for i := first; i <= last && i < len(x.chunks); i++ {
			c := x.chunks[i]
			begin, end := 0, len(c)
			if i == last {
				end = to
			}
			if i == first {
				begin = min(from, end)
			}
			visit(c, begin, end)
		}
	}
	each(func(_ []store.Key, from, to int) { count += to - from })
	chosen := make([]int, min(n, count))
	for i := range chosen {
		if chosen[i] = i; count > n {
			chosen[i] = rand.IntN(count)
		}
	}
	slices.Sort(chosen)
	before := 0
	each(func(c []store.Key, from, to int) {
		for len(keys) < len(chosen) && chosen[len(keys)] < before+to-from {
			i := from + chosen[len(keys)] - before
			keys = append(keys, c[i])
		}
		before += to - from
	})
	return count, keys
}
