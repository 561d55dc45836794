package capacity

import (
	"fmt"
	"io"
	"math"
)

// What sizes are worked out for: busyShare of a processor leaves room for what fails or
// restarts, and for peaks.
const (
	busyShare    = .6
	coresEach    = 4
	periodOfEach = 15 // seconds
)

// storedBytes are what a target's record and index entry take in Redis, and cachedBytes
// what an instance takes that remembers it: docs/redis.md (default behavior) and
// docs/configuration.md (--history-cache-bytes). The decision log comes on top.
const storedBytes, cachedBytes = 533, 450

// size is what some number of targets needs.
type size struct {
	targets               float64
	rate                  float64 // recommendations a second
	instances, shards     int
	cores                 float64 // of instances, busy
	redis                 float64 // threads of Redis, busy
	p                     Prediction
	callers, redisTraffic float64 // bytes a second, both directions
}

// sizeOf finds the fewest instances and shards that are not busier than busyShare.
func sizeOf(c *Costs, b *Bytes, targets float64) size {
	s := size{targets: targets, rate: targets / periodOfEach, instances: 1, shards: 1}
	for range rounds {
		system := System{Instances: s.instances, Cores: coresEach, Speed: 1, Shards: s.shards}
		s.p = system.Open(c, usualBatch, s.rate)
		s.cores, s.redis = s.p.service*s.rate/1e6, s.p.redis*s.rate/1e6
		instances, shards := int(math.Ceil(s.cores/busyShare/coresEach)), int(math.Ceil(s.redis/busyShare))
		if instances <= s.instances && shards <= s.shards {
			break
		}
		s.instances, s.shards = max(s.instances, instances), max(s.shards, shards)
	}
	s.callers, s.redisTraffic = s.rate*(b.ToService+b.FromService), s.rate*(b.ToRedis+b.FromRedis)
	return s
}

// writeCosts writes the cost table.
func (m *Measured) writeCosts(w io.Writer, costs map[Kind]*Costs) {
	u, st, b := costs[UnaryRedis], costs[StreamRedis], costs[BatchRedis]
	fmt.Fprintln(w, "| µs of processor time | unary | stream | batch |")
	fmt.Fprintln(w, "|---|---:|---:|---:|")
	fmt.Fprintf(w, "| client, encoded beforehand, n in flight | %s | %s | %.1f + %.0f/batch |\n", shownShared(u.Client), shownShared(st.Client), b.ClientItem, b.Client.Own)
	fmt.Fprintf(w, "| service: gRPC, decoding, engine, history, answer | %s | %s | %.1f + %.0f/batch |\n", shownShared(u.Service), shownShared(st.Service), b.ServiceItem+b.SwapService, b.Service.Own)
	fmt.Fprintf(w, "| service: Redis client, k swaps a round trip | %.1f + %.0f/k | the same | %.0f/k, the rest above |\n", u.SwapService, u.TripService, b.TripService)
	fmt.Fprintf(w, "| Redis server, k swaps a round trip | %.1f + %.0f/k | the same | the same |\n", u.SwapRedis, u.TripRedis)
	fmt.Fprintf(w, "| a message from one process to another | %.1f | | |\n\n", u.Hop)
	fmt.Fprintln(w, "| bytes, without TCP and IP | to the service | back | to Redis | back |")
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|")
	for _, b := range m.Bytes {
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %.0f | %.0f |\n", b.Kind, b.ToService, b.FromService, b.ToRedis, b.FromRedis)
	}
}

func shownShared(s Shared) string {
	if s.Woken == 0 {
		return fmt.Sprintf("%.1f", s.Own)
	}
	return fmt.Sprintf("%.1f + %.0f/√n", s.Own, s.Woken)
}

// writeSizes writes the worked example.
func (m *Measured) writeSizes(w io.Writer, costs map[Kind]*Costs) error {
	var traffic *Bytes
	for i := range m.Bytes {
		if m.Bytes[i].Kind == BatchRedis {
			traffic = &m.Bytes[i]
		}
	}
	if traffic == nil {
		return fmt.Errorf("measured points: no bytes for %q, measure again", BatchRedis)
	}
	const gib, gigabit, million = 1 << 30, 1e9 / 8, 1e6
	fmt.Fprintf(w, "| computed, batches of %d, each target every %d s | 1 M | 10 M | 100 M |\n", usualBatch, periodOfEach)
	fmt.Fprintln(w, "|---|---:|---:|---:|")
	var sizes []size
	for _, targets := range []float64{million, 10 * million, 100 * million} {
		sizes = append(sizes, sizeOf(costs[BatchRedis], traffic, targets))
	}
	line := func(name, format string, of func(*size) any) {
		fmt.Fprintf(w, "| %s |", name)
		for i := range sizes {
			fmt.Fprintf(w, " "+format+" |", of(&sizes[i]))
		}
		fmt.Fprintln(w)
	}
	line("recommendations/s", "%.0f", func(s *size) any { return s.rate })
	line("cores of the service, busy", "%.1f", func(s *size) any { return s.cores })
	line(fmt.Sprintf("instances of %d cores at ≤ %.0f %%", coresEach, 100*busyShare), "%d", func(s *size) any { return s.instances })
	line("threads of Redis, busy", "%.1f", func(s *size) any { return s.redis })
	line(fmt.Sprintf("shards at ≤ %.0f %%", 100*busyShare), "%d", func(s *size) any { return s.shards })
	line("mean time of a batch, ms", "%.0f", func(s *size) any { return s.p.Mean / 1e3 })
	line("callers and service, Gbit/s", "%.1f", func(s *size) any { return s.callers / gigabit })
	line("service and Redis, Gbit/s", "%.1f", func(s *size) any { return s.redisTraffic / gigabit })
	line("records and index in Redis, GiB", "%.1f", func(s *size) any { return s.targets * storedBytes / gib })
	line("… of a shard", "%.1f", func(s *size) any { return s.targets * storedBytes / gib / float64(s.shards) })
	line("entries of an index bucket", "%.0f", func(s *size) any { return s.targets / buckets })
	line("cache of an instance, its share of targets, GiB", "%.2f", func(s *size) any { return s.targets * cachedBytes / gib / float64(s.instances) })
	one := func(kind Kind, instances, requests int) float64 {
		system := System{Instances: instances, Cores: coresEach, Speed: 1, Shards: 1}
		return system.Most(costs[kind], requests, busyShare)
	}
	fmt.Fprintf(w, "\nOne Redis server at ≤ %.0f %% (computed): %.0f/s in batches of %d, %.0f/s one by one from %d instances, where hardly two share a round trip.\n",
		100*busyShare, one(BatchRedis, manyInstances, usualBatch), usualBatch, one(UnaryRedis, manyInstances, 1), manyInstances)
	return nil
}

// manyInstances are so many that what they send to Redis is not shared.
const manyInstances = 8

// buckets are those of store/redis' index.
const buckets = 256
