package capacity

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Played are the results of a simulation.
type Played struct {
	// Mean, P50 and P99 are times of batches, in milliseconds, from when they arrive.
	Mean, P50, P99 float64
	// Service and Redis are the busiest instance's and master's share of their processors.
	Service, Redis float64
}

// Play simulates a period of calls to a size. Batches arrive at random instants and go to
// instances at random, whose cores take them in order; each is then divided by the buckets of its
// targets, drawn at random, and the masters take the parts in order, one at a time. A batch is
// done with its last part. The instances of lost have failed: their batches go to the others.
func Play(s Size, c Costs, m Machine, spare, lost int, seed uint64) Played {
	random := rand.New(rand.NewPCG(seed, uint64(s.Targets)))
	batches := max(1, int(s.Targets)/s.Batch)
	instances := s.Instances + spare - lost
	arrivals := make([]float64, batches) // s
	for i := range arrivals {
		arrivals[i] = random.Float64() * s.Period
	}
	slices.Sort(arrivals)

	// Instances: each core is free from an instant on.
	cores := make([][]float64, instances)
	for i := range cores {
		cores[i] = make([]float64, m.Cores)
	}
	work := float64(s.Batch) * c.Service.At(s.Together) / 1e6
	counts := make([]int, instances)
	type way struct{ arrived, sent float64 }
	ways := make([]way, batches)
	for i, at := range arrivals {
		instance := random.IntN(instances)
		counts[instance]++
		free := cores[instance]
		first := 0
		for n := range free {
			if free[n] < free[first] {
				first = n
			}
		}
		free[first] = max(free[first], at) + work
		ways[i] = way{at, free[first]}
	}
	slices.SortFunc(ways, func(a, b way) int { return cmp.Compare(a.sent, b.sent) })

	// Masters: one thread each.
	var masterOf [buckets]int
	for b := range buckets {
		masterOf[b] = Master(b, s.Masters)
	}
	free, busy := make([]float64, s.Masters), make([]float64, s.Masters)
	parts := make([]int, s.Masters)
	times, sum := make([]float64, batches), 0.0
	for i, w := range ways {
		clear(parts)
		for left := s.Batch; left > 0; {
			bits := random.Uint64()
			for range min(8, left) {
				parts[masterOf[bits%buckets]]++
				bits /= buckets
				left--
			}
		}
		done := w.sent
		for master, n := range parts {
			if n == 0 {
				continue
			}
			trips := float64((n + mostTogether - 1) / mostTogether)
			took := (float64(n)*c.Redis.Decision + trips*c.Redis.Trip) / 1e6
			free[master] = max(free[master], w.sent) + took
			busy[master] += took
			done = max(done, free[master])
		}
		times[i] = 1e3 * (done - w.arrived)
		sum += times[i]
	}
	slices.Sort(times)
	at := func(q float64) float64 { return times[min(batches-1, int(q*float64(batches)))] }
	return Played{
		Mean: sum / float64(batches), P50: at(.5), P99: at(.99),
		Service: float64(slices.Max(counts)) * work / float64(m.Cores) / s.Period,
		Redis:   slices.Max(busy) / s.Period,
	}
}
