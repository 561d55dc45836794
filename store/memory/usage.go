package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/setpoint-dev/setpoint/store"
)

// usageSample is how many records are looked at to know what all of them take.
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
		if rec := s.shard(key).load(key, now); rec.Exists() {
			alive++
			bytes += int64(len(rec.Value))
		}
	}
	if len(sample) == 0 {
		return store.Usage{}, nil
	}
	scale := func(n int64) int64 { return int64(float64(n) / float64(len(sample)) * float64(count)) }
	return store.Usage{Keys: scale(alive), Bytes: scale(bytes)}, nil
}

// sample returns how many keys of the cluster are in the index, of all for "", and up to
// n of them, chosen at random; all if there are no more.
func (x *index) sample(cluster string, n int) (count int, keys []store.Key) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var from, to int // in the first chunk, and in the one after the last whole one
	first, last := 0, len(x.chunks)
	if cluster != "" && last > 0 {
		first, from, _ = x.search(store.Key{Cluster: cluster})
		last, to, _ = x.search(store.Key{Cluster: cluster + "\x00"}) // the next one's
	}
	each := func(visit func(chunk []store.Key)) {
		for c := first; c <= last && c < len(x.chunks); c++ {
			chunk := x.chunks[c]
			if c == last {
				chunk = chunk[:to]
			}
			if c == first {
				chunk = chunk[min(from, len(chunk)):]
			}
			visit(chunk)
		}
	}
	each(func(chunk []store.Key) { count += len(chunk) })
	chosen := make([]int, min(n, count))
	for i := range chosen {
		if chosen[i] = i; count > n {
			chosen[i] = rand.IntN(count)
		}
	}
	slices.Sort(chosen)
	before := 0
	each(func(chunk []store.Key) {
		for len(keys) < len(chosen) && chosen[len(keys)] < before+len(chunk) {
			keys = append(keys, chunk[chosen[len(keys)]-before])
		}
		before += len(chunk)
	})
	return count, keys
}
