package redis

import (
	"context"
	"math/rand/v2"

	"github.com/setpoint-dev/setpoint/store"
)

// usageSample is how many records Usage reads to estimate the size of all.
const usageSample = 128

var _ store.Usages = (*Store)(nil)

// Usage implements store.Usages. It takes one round trip per shard to count, and two to
// read one record each of some buckets. It reads only one per bucket, because Redis
// walks past all index entries before a random one.
func (s *Store) Usage(ctx context.Context, cluster string) (store.Usage, error) {
	if err := s.begin(ctx, "usage"); err != nil {
		return store.Usage{}, err
	}
	from, to := "-", "+"
	if cluster != "" {
		from, to = "["+cluster+"\x00", "("+cluster+"\x01"
	}
	counts, err := s.countBuckets(ctx, from, to)
	if err != nil {
		return store.Usage{}, err
	}
	total := int64(0)
	var filled []int
	for b, n := range counts {
		if total += n; n > 0 {
			filled = append(filled, b)
		}
	}
	sample, err := s.sample(ctx, filled, counts, from, to, total <= usageSample)
	if err != nil {
		return store.Usage{}, err
	}
	return s.estimate(ctx, sample, counts, total)
}

// countBuckets returns how many members each bucket's index has in the range; 0 for
// buckets that do not respond. It fails if none responds.
func (s *Store) countBuckets(ctx context.Context, from, to string) ([]int64, error) {
	counts := make([]int64, bucketCount)
	errs := s.perform(ctx, bucketCount, &exchange{
		operation: "usage",
		args:      func(b int, _ bool) []any { return []any{"zlexcount", s.layout.index(b), from, to} },
		take: func(b int, reply any, _ bool) error {
			counts[b], _ = reply.(int64)
			return nil
		},
	})
	for _, err := range errs {
		if err == nil {
			return counts, nil
		}
	}
	return counts, joined(errs)
}

// sample returns one key each of some buckets, chosen at random; all keys of these
// buckets if all is set.
func (s *Store) sample(ctx context.Context, buckets []int, counts []int64, from, to string, all bool) (keys []store.Key, err error) {
	if !all {
		rand.Shuffle(len(buckets), func(i, j int) { buckets[i], buckets[j] = buckets[j], buckets[i] })
		buckets = buckets[:min(len(buckets), usageSample)]
	}
	errs := s.perform(ctx, len(buckets), &exchange{
		operation: "usage",
		args: func(i int, _ bool) []any {
			n := counts[buckets[i]]
			if all {
				return []any{"zrange", s.layout.index(buckets[i]), from, to, "bylex", "limit", 0, n}
			}
			return []any{"zrange", s.layout.index(buckets[i]), from, to, "bylex", "limit", rand.Int64N(n), 1}
		},
		take: func(_ int, reply any, _ bool) error {
			members, _ := reply.([]any)
			for _, member := range members {
				text, _ := member.(string)
				if key, ok := memberKey(text); ok {
					keys = append(keys, key)
				}
			}
			return nil
		},
	})
	if len(keys) > 0 {
		return keys, nil
	}
	return nil, joined(errs)
}

// estimate reads the keys' records and extrapolates to count keys. It removes expired
// ones from the index, and makes the sweeper look for more.
func (s *Store) estimate(ctx context.Context, sample []store.Key, counts []int64, total int64) (store.Usage, error) {
	lengths := make([]int64, len(sample))
	errs := s.perform(ctx, len(sample), &exchange{
		operation: "usage",
		args:      func(i int, _ bool) []any { return []any{"strlen", s.layout.place(sample[i]).record()} },
		take: func(i int, reply any, _ bool) error {
			lengths[i], _ = reply.(int64)
			return nil
		},
	})
	inBucket := make(map[int]int64)
	for _, key := range sample {
		inBucket[s.layout.bucket(key)]++
	}
	var weights, alive, bytes float64
	var dead []store.Key
	for i, key := range sample {
		if errs != nil && errs[i] != nil {
			continue
		}
		b := s.layout.bucket(key)
		weight := float64(counts[b]) / float64(inBucket[b])
		weights += weight
		if lengths[i] == 0 {
			dead = append(dead, key)
			continue
		}
		alive += weight
		bytes += weight * float64(max(0, lengths[i]-versionLength))
	}
	if weights == 0 {
		return store.Usage{Keys: total}, joined(errs)
	}
	if len(dead) > 0 {
		s.purge(ctx, dead)
		s.sweeper.addDebt(usageSweeps * sweepEvery)
	}
	scale := float64(total) / weights
	return store.Usage{Keys: int64(alive*scale + .5), Bytes: int64(bytes * scale)}, nil
}

// usageSweeps is how many sweeps follow when a sample contained expired records.
const usageSweeps = 16
