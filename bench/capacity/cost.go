package capacity

import "math"

// Shared is a cost that calls in flight share in part: Own is each one's, and Woken is
// for waking up, which n calls in flight pay 1/√n of each. That root is what was measured
// (testdata), not derived.
type Shared struct{ Own, Woken float64 }

// At returns the cost of a call with n in flight, in microseconds.
func (s Shared) At(n float64) float64 { return s.Own + s.Woken/math.Sqrt(max(1, n)) }

// fitShared goes through the costs at 1 and at n in flight; waking costs at least nothing.
func fitShared(alone, many, n float64) Shared {
	woken := (alone - many) / (1 - 1/math.Sqrt(n))
	if woken < 0 {
		return Shared{(alone + many) / 2, 0}
	}
	return Shared{alone - woken, woken}
}

// Costs are processor times in microseconds.
type Costs struct {
	// Client and Service are of a call, without Redis.
	Client, Service Shared
	// ClientItem and ServiceItem are of each recommendation in it besides, in a batch.
	ClientItem, ServiceItem float64
	// Of a round trip to Redis and of each swap in it, in the service and in Redis. All
	// zero: histories are in memory.
	TripService, SwapService, TripRedis, SwapRedis float64
	// Hop is how long a message is on its way between processes, waking up included.
	Hop float64
}

// onRedis reports whether there are round trips.
func (c *Costs) onRedis() bool { return c.TripRedis > 0 }

// parts are the processor times of a recommendation by process, for a load with n calls
// in flight and k swaps a round trip.
type parts struct{ client, service, redis float64 }

func (p parts) total() float64 { return p.client + p.service + p.redis }

func (c *Costs) parts(requests int, n, k float64) parts {
	b := float64(requests)
	p := parts{client: c.Client.At(n)/b + c.ClientItem, service: c.Service.At(n)/b + c.ServiceItem}
	if c.onRedis() {
		p.service += c.TripService/k + c.SwapService
		p.redis = c.TripRedis/k + c.SwapRedis
	}
	return p
}

// Calibration is at the fewest and the most calls in flight, and at a small and the
// usual batch; all other points are for comparison.
const few, many, smallBatch = 1, 64, 16

func calibrates(l Load) bool {
	if l.Kind == BatchRedis {
		return l.InFlight == 1 && (l.Requests == smallBatch || l.Requests == usualBatch)
	}
	return l.InFlight == few || l.InFlight == many
}

// fit finds the costs of each kind from the points that calibrate.
func (m *Measured) fit() (map[Kind]*Costs, error) {
	at := map[Load]*Point{}
	for _, l := range loads() {
		p, err := m.find(l)
		if err != nil {
			return nil, err
		}
		at[l] = p
	}
	unary := func(kind Kind, n int) *Point { return at[Load{kind, n, 1}] }
	batch := func(requests int) *Point { return at[Load{BatchRedis, 1, requests}] }
	shared := func(kind Kind, of func(*Point) float64) Shared {
		return fitShared(of(unary(kind, few)), of(unary(kind, many)), many)
	}
	client, service := func(p *Point) float64 { return p.Client }, func(p *Point) float64 { return p.Service }

	memory := &Costs{Client: shared(UnaryMemory, client), Service: shared(UnaryMemory, service)}
	lone := unary(UnaryMemory, few)
	memory.Hop = max(0, (1e6/lone.Rate-lone.Total()/speed(lone, m.Machine.Cores))/hops(memory))

	redis := &Costs{Client: shared(UnaryRedis, client), Service: memory.Service, Hop: memory.Hop}
	large, first := batch(usualBatch), unary(UnaryRedis, few)
	// Two equations: all of a lone round trip, and next to none of it in each swap of a
	// large batch.
	redis.TripRedis = (first.Redis - large.Redis) / (1/first.SwapsATrip - 1/large.SwapsATrip)
	redis.SwapRedis = large.Redis - redis.TripRedis/large.SwapsATrip
	crowd := unary(UnaryRedis, many)
	loneStore := first.Service - unary(UnaryMemory, few).Service
	crowdStore := crowd.Service - unary(UnaryMemory, many).Service
	redis.TripService = max(0, (loneStore-crowdStore)/(1/first.SwapsATrip-1/crowd.SwapsATrip))
	redis.SwapService = max(0, loneStore-redis.TripService/first.SwapsATrip)

	stream := *redis
	stream.Client = shared(StreamRedis, client)
	base := func(p *Point) float64 { return p.Service - redis.TripService/p.SwapsATrip - redis.SwapService }
	stream.Service = shared(StreamRedis, base)

	batches := &Costs{TripRedis: redis.TripRedis, SwapRedis: redis.SwapRedis, TripService: redis.TripService, Hop: memory.Hop}
	small := batch(smallBatch)
	split := func(of func(*Point) float64) (call, item float64) {
		call = (of(small) - of(large)) / (1./smallBatch - 1./usualBatch)
		return call, of(small) - call/smallBatch
	}
	batches.Client.Own, batches.ClientItem = split(client)
	call, item := split(service)
	batches.Service.Own, batches.ServiceItem = max(0, call-redis.TripService), item
	return map[Kind]*Costs{UnaryMemory: memory, UnaryRedis: redis, StreamRedis: &stream, BatchRedis: batches}, nil
}

// hops are those of a call's messages.
func hops(c *Costs) float64 {
	if c.onRedis() {
		return 4
	}
	return 2
}

// speed is that of the cores that the measurement had, and cores how many of that speed
// there were: what others took is taken off, whole cores first.
func speed(p *Point, ofMachine int) float64 { s, _ := left(p, ofMachine); return s }

func left(p *Point, ofMachine int) (speed float64, cores int) {
	had := float64(ofMachine) * (1 - p.OthersPercent/100)
	cores = max(1, int(math.Round(had)))
	return had / float64(cores), cores
}
