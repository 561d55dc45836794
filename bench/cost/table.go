package cost

import (
	"fmt"
	"io"
	"math"
)

// usualInFlight is how many usual batches are in flight in the row that sizes are
// computed from.
const usualInFlight = 4

// Parameters of the sizes: busyShare of a processor leaves capacity for failures,
// restarts and peaks.
const (
	busyShare    = .6
	coresEach    = 4
	periodOfEach = 15 // seconds
)

// storedBytes is what a target's record and index entry take in Redis, and cachedBytes
// what they take in an instance's cache: docs/operate/redis.md (default behavior) and
// docs/reference/configuration.md (--history-cache-bytes). The decision log is not
// included.
const storedBytes, cachedBytes = 533, 450

// buckets is the number of buckets of store/redis' index.
const buckets = 256

func (m *Measured) writePoints(w io.Writer) {
	fmt.Fprintln(w, "| calls in flight | client, µs | service, µs | Redis, µs | commands per round trip | recommendations/s | median call, ms | other processes |")
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|---:|---:|---:|")
	for i := range m.Points {
		p := &m.Points[i]
		redis, swaps := "–", "–"
		if p.SwapsATrip > 0 {
			redis, swaps = fmt.Sprintf("%.1f", p.Redis), fmt.Sprintf("%.1f", p.SwapsATrip)
		}
		fmt.Fprintf(w, "| %s | %.1f | %.1f | %s | %s | %.0f | %.2f | %.0f %% |\n", p.Load, p.Client, p.Service, redis, swaps, p.Rate, p.P50, p.OthersPercent)
	}
}

func (m *Measured) writeBytes(w io.Writer) {
	fmt.Fprintln(w, "| bytes, without TCP and IP | to the service | back | to Redis | back |")
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|")
	for _, b := range m.Bytes {
		fmt.Fprintf(w, "| %s | %.0f | %.0f | %.0f | %.0f |\n", b.Kind, b.ToService, b.FromService, b.ToRedis, b.FromRedis)
	}
}

// size is the requirements of some number of targets.
type size struct {
	targets, rate           float64 // rate: recommendations a second
	cores, threads          float64 // busy processors of the service, and of Redis
	instances, shards       float64
	callersBits, redisBits  float64 // per second, both directions
	storedGiB, cachedEachGB float64
}

func sizeOf(targets float64, p *Point, b *Bytes) size {
	s := size{targets: targets, rate: targets / periodOfEach}
	s.cores, s.threads = s.rate*p.Service/1e6, s.rate*p.Redis/1e6
	s.instances, s.shards = math.Ceil(s.cores/busyShare/coresEach)+1, math.Ceil(s.threads/busyShare)
	s.callersBits, s.redisBits = 8*s.rate*(b.ToService+b.FromService), 8*s.rate*(b.ToRedis+b.FromRedis)
	const gib = 1 << 30
	s.storedGiB, s.cachedEachGB = targets*storedBytes/gib, targets*cachedBytes/gib/s.instances
	return s
}

// writeSizes writes the worked examples.
func writeSizes(w io.Writer, p *Point, b *Bytes) {
	var sizes []size
	fmt.Fprintf(w, "| batches, each target every %d s (costs of %q) |", periodOfEach, p.Load.String())
	for _, targets := range []float64{1e5, 1e6, 1e7} {
		sizes = append(sizes, sizeOf(targets, p, b))
		fmt.Fprintf(w, " %.1f M |", targets/1e6)
	}
	fmt.Fprintln(w, "\n|---|---:|---:|---:|")
	line := func(name, format string, of func(*size) float64) {
		fmt.Fprintf(w, "| %s |", name)
		for i := range sizes {
			fmt.Fprintf(w, " "+format+" |", of(&sizes[i]))
		}
		fmt.Fprintln(w)
	}
	line("recommendations/s", "%.0f", func(s *size) float64 { return s.rate })
	line("busy cores of the service", "%.1f", func(s *size) float64 { return s.cores })
	line(fmt.Sprintf("instances of %d cores, one of them spare", coresEach), "%.0f", func(s *size) float64 { return s.instances })
	line("busy threads of Redis", "%.1f", func(s *size) float64 { return s.threads })
	line("Redis servers (shards)", "%.0f", func(s *size) float64 { return s.shards })
	line("callers and service, Gbit/s", "%.2f", func(s *size) float64 { return s.callersBits / 1e9 })
	line("service and Redis, Gbit/s", "%.2f", func(s *size) float64 { return s.redisBits / 1e9 })
	line("records and index in Redis, GiB", "%.2f", func(s *size) float64 { return s.storedGiB })
	line("cache of an instance for its share of targets, GiB", "%.2f", func(s *size) float64 { return s.cachedEachGB })
	line("entries of an index bucket", "%.0f", func(s *size) float64 { return s.targets / buckets })
}
