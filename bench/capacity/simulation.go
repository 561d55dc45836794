package capacity

import (
	"math/rand/v2"
	"slices"
)

// simulation plays calls through client, service, coalescers and Redis: what they wait
// for is found out, not calculated.
type simulation struct {
	clock
	system    *System
	costs     *Costs
	requests  int
	instances []*instance
	shards    []*thread
	random    *rand.Rand
	// together is the host of clients where they share it, else nil.
	together *host

	calls, trips, swaps int
	used                parts
	times               []float64
	// measuring begins when queues are as long as they get.
	measuring bool
	ended     func()
}

// instance is one of the service.
type instance struct {
	host       *host
	inFlight   int
	coalescers []coalescer
}

// coalescer is that of store/redis.
type coalescer struct {
	shard, flights int
	waiting        []func()
}

// seed makes each simulation the same each time.
const seed = 7

func newSimulation(s *System, c *Costs, requests int) *simulation {
	sim := &simulation{system: s, costs: c, requests: requests, random: rand.New(rand.NewPCG(seed, seed)), ended: func() {}}
	for range s.Instances {
		in := &instance{host: &host{clock: &sim.clock, idle: s.Cores, speed: s.Speed}, coalescers: make([]coalescer, s.coalescers())}
		for i := range in.coalescers {
			in.coalescers[i].shard = i * s.Shards / len(in.coalescers)
		}
		sim.instances = append(sim.instances, in)
	}
	for range s.Shards {
		h := &host{clock: &sim.clock, idle: 1, speed: 1}
		if s.Together {
			h = sim.instances[0].host
		}
		sim.shards = append(sim.shards, &thread{host: h})
	}
	if s.Together {
		sim.together = sim.instances[0].host
	}
	return sim
}

// vary returns a task's time about the mean: evenly from half to one and a half.
func (s *simulation) vary(mean float64) float64 { return mean * (.5 + s.random.Float64()) }

// call plays one call, and then what comes after it.
func (s *simulation) call(in *instance, then func()) {
	began := s.now
	in.inFlight++
	n, b := float64(in.inFlight), float64(s.requests)
	client, service := s.costs.Client.At(n)+b*s.costs.ClientItem, s.costs.Service.At(n)+b*s.costs.ServiceItem
	s.caller(client/2, func() {
		s.after(s.costs.Hop, func() {
			s.serve(in, service, func() {
				s.store(in, func() {
					s.after(s.costs.Hop, func() {
						s.caller(client/2, func() {
							in.inFlight--
							s.count(began)
							then()
						})
					})
				})
			})
		})
	})
}

func (s *simulation) count(began float64) {
	if !s.measuring {
		return
	}
	s.calls++
	s.times = append(s.times, s.now-began)
	s.ended()
}

// caller has the client work, on cores of its own where it does not share them.
func (s *simulation) caller(work float64, done func()) {
	if s.together == nil {
		done()
		return
	}
	s.use(&s.used.client, &work)
	s.together.run(work, done)
}

func (s *simulation) serve(in *instance, work float64, done func()) {
	s.use(&s.used.service, &work)
	in.host.run(work, done)
}

// use varies a task's time and counts it.
func (s *simulation) use(to, work *float64) {
	*work = s.vary(*work)
	if s.measuring {
		*to += *work
	}
}

// store swaps the call's histories.
func (s *simulation) store(in *instance, done func()) {
	switch {
	case !s.costs.onRedis():
		done()
	case s.requests > 1:
		s.pipeline(in, done)
	default:
		c := &in.coalescers[s.random.IntN(len(in.coalescers))]
		c.waiting = append(c.waiting, done)
		if c.flights < maxFlights {
			c.flights++
			s.fly(in, c)
		}
	}
}

// pipeline sends a batch's swaps to all shards at once.
func (s *simulation) pipeline(in *instance, done func()) {
	n := min(len(s.shards), s.requests)
	left := n
	for i := range n {
		swaps := s.requests*(i+1)/n - s.requests*i/n
		s.trip(in, s.shards[i], swaps, func() {
			if left--; left == 0 {
				done()
			}
		})
	}
}

// fly takes what waits along, as store/redis does.
func (s *simulation) fly(in *instance, c *coalescer) {
	n := min(len(c.waiting), maxCoalesced)
	flight := slices.Clone(c.waiting[:n])
	c.waiting = c.waiting[n:]
	s.trip(in, s.shards[c.shard], n, func() {
		for _, done := range flight {
			done()
		}
		if len(c.waiting) > 0 {
			s.fly(in, c)
			return
		}
		c.flights--
	})
}

// trip is a round trip of so many swaps.
func (s *simulation) trip(in *instance, shard *thread, swaps int, done func()) {
	if s.measuring {
		s.trips++
		s.swaps += swaps
	}
	k := float64(swaps)
	service, redis := s.costs.TripService+k*s.costs.SwapService, s.costs.TripRedis+k*s.costs.SwapRedis
	s.serve(in, service/2, func() {
		s.after(s.costs.Hop, func() {
			s.use(&s.used.redis, &redis)
			shard.run(redis, func() {
				s.after(s.costs.Hop, func() { s.serve(in, service/2, done) })
			})
		})
	})
}

// result is what was found out since measuring began at that time.
func (s *simulation) result(since float64) Prediction {
	n := float64(s.calls * s.requests)
	p := Prediction{Rate: n / (s.now - since) * 1e6, parts: parts{s.used.client / n, s.used.service / n, s.used.redis / n}}
	if s.trips > 0 {
		p.SwapsATrip = float64(s.swaps) / float64(s.trips)
	}
	for _, t := range s.times {
		p.Mean += t / float64(len(s.times))
	}
	return p
}

// Calls that are played before anything is measured, and then.
const warmCalls, countedCalls = 1_000, 10_000

// play goes on until so many calls have ended.
func (s *simulation) play(calls int) {
	ended := 0
	s.ended = func() { ended++ }
	s.measuring = true
	for ended < calls && s.next() {
	}
}

// measure plays a warm-up, and then what counts.
func (s *simulation) measure() Prediction {
	s.play(warmCalls)
	s.calls, s.trips, s.swaps, s.used, s.times = 0, 0, 0, parts{}, nil
	since := s.now
	s.play(countedCalls)
	return s.result(since)
}

// SimulateClosed plays a closed loop.
func (s *System) SimulateClosed(c *Costs, l Load) Prediction {
	sim := newSimulation(s, c, l.Requests)
	for i := range l.InFlight {
		in := sim.instances[i%len(sim.instances)]
		var again func()
		again = func() { sim.call(in, again) }
		sim.after(sim.random.Float64(), again)
	}
	return sim.measure()
}

// SimulateOpen plays calls that come at random at that rate of recommendations, until so
// many have been answered.
func (s *System) SimulateOpen(c *Costs, requests int, rate float64) Prediction {
	sim := newSimulation(s, c, requests)
	mean := 1e6 * float64(requests) / rate
	var arrive func()
	arrive = func() {
		in := sim.instances[sim.random.IntN(len(sim.instances))]
		sim.call(in, func() {})
		sim.after(sim.random.ExpFloat64()*mean, arrive)
	}
	sim.after(0, arrive)
	return sim.measure()
}
