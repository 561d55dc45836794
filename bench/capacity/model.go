package capacity

import "math"

// Limits of store/redis: round trips of a coalescer on their way, swaps of one, and
// coalescers of an instance on a Cluster.
const (
	maxFlights        = 2
	maxCoalesced      = 256
	clusterCoalescers = 16
)

// System is what there is of everything.
type System struct {
	// Instances of the service, each with Cores of this Speed (1: those measured on).
	Instances, Cores int
	Speed            float64
	// Shards of Redis, each with one thread on a core of its own. One: a single server.
	Shards int
	// Together says that client, Redis and the only instance share its cores.
	Together bool
}

func (s *System) coalescers() int {
	if s.Shards > 1 {
		return clusterCoalescers
	}
	return 1
}

// trips is over how many round trips the swaps of a call go that does not coalesce.
func (s *System) trips() float64 { return float64(s.Shards) }

// Prediction is what a model says of a load.
type Prediction struct {
	// Rate is that of recommendations a second.
	Rate float64
	parts
	// SwapsATrip is how many swaps a round trip carries.
	SwapsATrip float64
	// Mean is the mean time of a call, in microseconds.
	Mean float64
}

// passesPerSwap is in how many parts calls in flight divide on a machine where everything
// waits for the same processors: a call passes the queue three times (client, service,
// client), two flights pass it twice each, for Redis need not wait, and who comes while
// both are on their way waits for half a pass in the mean: (3 + 2 + 1/2)·2/2.
const passesPerSwap = 5.5

// Closed returns what a closed loop on one machine comes to: mean value analysis of the
// processors, as one queue, and the rest as a delay (Seidmann's approximation).
func (s *System) Closed(c *Costs, l Load) Prediction {
	n := float64(l.InFlight)
	k := min(maxCoalesced, max(1, n/passesPerSwap))
	if l.Requests > 1 {
		k = float64(l.Requests)
	}
	p := Prediction{parts: c.parts(l.Requests, n, k), SwapsATrip: k}
	work := p.total() * float64(l.Requests) / s.Speed
	cores := float64(s.Cores)
	queue, delay := work/cores, work*(cores-1)/cores+hops(c)*c.Hop
	waiting := 0.
	for calls := 1; calls <= l.InFlight; calls++ {
		response := queue * (1 + waiting)
		p.Mean = response + delay
		waiting = float64(calls) / p.Mean * response
	}
	p.Rate = n / p.Mean * 1e6 * float64(l.Requests)
	return p
}

// rounds bound fixed points, and maxInFlight the calls of an instance (--max-in-flight).
const rounds, maxInFlight = 200, 4096

// Open returns what becomes of calls that come at random, rate recommendations a second
// altogether, spread evenly over instances and shards that share no processor.
func (s *System) Open(c *Costs, requests int, rate float64) Prediction {
	p := Prediction{Rate: rate, SwapsATrip: 1}
	b := float64(requests)
	calls := rate / b / float64(s.Instances) / 1e6 // of an instance, a microsecond
	inFlight := 1.
	for range rounds {
		p.SwapsATrip = s.swapsATrip(c, requests, calls)
		p.parts = c.parts(requests, inFlight, p.SwapsATrip)
		work := p.service * b / s.Speed
		p.Mean = work + waits(work, calls, s.Cores) + hops(c)*c.Hop
		if c.onRedis() {
			trip := c.TripRedis + p.SwapsATrip*c.SwapRedis
			p.Mean += trip + waits(trip, p.redis*rate/1e6/float64(s.Shards)/trip, 1)
		}
		// What can't be done with few in flight may be with many, which share more.
		inFlight = min(maxInFlight, (inFlight+max(1, min(2*inFlight, calls*p.Mean)))/2)
	}
	return p
}

// swapsATrip returns how many swaps a round trip carries: those of a batch, or those that
// come while both flights are on their way.
func (s *System) swapsATrip(c *Costs, requests int, calls float64) float64 {
	if requests > 1 {
		return max(1, float64(requests)/s.trips())
	}
	each := calls / float64(s.coalescers())
	trip := c.TripService/s.Speed + c.TripRedis + 2*c.Hop
	swap := c.SwapService/s.Speed + c.SwapRedis
	if each*swap >= maxFlights {
		return maxCoalesced
	}
	return min(maxCoalesced, max(1, each*trip/(maxFlights-each*swap)))
}

// variation is the variance of a task's time over its mean's square, in the simulation.
const variation = 1. / 12

// waits returns the mean wait for one of m servers at random arrivals: Sakasegawa's
// approximation of M/G/m. Infinite where more comes than can be done.
func waits(work, arrivals float64, servers int) float64 {
	m := float64(servers)
	busy := arrivals * work / m
	if busy >= 1 {
		return math.Inf(1)
	}
	return (1 + variation) / 2 * work * math.Pow(busy, math.Sqrt(2*(m+1))-1) / (m * (1 - busy))
}

// Most returns the greatest rate of recommendations that neither the instances nor the
// shards are busier than this share with.
func (s *System) Most(c *Costs, requests int, busy float64) float64 {
	low, high := 0., 1e9
	for range rounds {
		rate := (low + high) / 2
		p := s.Open(c, requests, rate)
		instances := p.service / s.Speed * rate / 1e6 / float64(s.Instances*s.Cores)
		if max(instances, p.redis*rate/1e6/float64(s.Shards)) > busy || math.IsInf(p.Mean, 1) {
			high = rate
		} else {
			low = rate
		}
	}
	return low
}
