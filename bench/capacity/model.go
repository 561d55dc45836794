// Package capacity computes how many instances and Redis masters a number of targets needs, and
// what runs out first, from measured costs. It plays the result as a discrete simulation of the
// calls' ways, whose times and loads show whether the formulas hold.
//
//	go run . -scenario '^instances$' -json capacity/measured.json   # measures
//	go run . capacity capacity/measured.json                       # computes
package capacity

import (
	"math"
	"slices"
)

// buckets is how many buckets of keys the service has, which can't be divided among masters.
const buckets = 256

// Cost is the processor time of a decision in µs, of which a part belongs to the round trip that
// it shares with others.
type Cost struct{ Decision, Trip float64 }

// At is the processor time of a decision that shares its trip with as many in total, in µs.
func (c Cost) At(together float64) float64 { return c.Decision + c.Trip/together }

// Costs are measured.
type Costs struct {
	Service, Redis Cost
	// Bytes of a decision: of the request, its answer, and to and from Redis.
	Request, Answer, Sent, Received float64
	// TargetBytes is Redis' memory of a target; CacheBytes that of a cached history in an instance,
	// and InstanceBytes of an instance without targets.
	TargetBytes, CacheBytes, InstanceBytes float64
	// IdleCommands are Redis' commands a minute of an instance without calls.
	IdleCommands float64
}

// Load is what callers ask for: each target once a period of that many seconds, in batches.
type Load struct {
	Targets, Period float64
	Batch           int
}

// Rate is the decisions a second.
func (l Load) Rate() float64 { return l.Targets / l.Period }

// Machine is what instances and masters run on.
type Machine struct {
	// Cores of an instance, connections of it to each master for each core, and the most
	// connections that a master takes.
	Cores, Pool, Clients int
	// Network is that of an instance or a master, in bytes a second and direction, Memory a
	// master's, in bytes.
	Network, Memory float64
	// Forks is how often memory is taken while Redis writes a snapshot, and Busy the share of
	// processors and network that is used: the rest is for peaks and for what fails.
	Forks, Busy float64
}

// Usual is a machine of two cores, a Redis with 16 GiB, and 10 Gbit/s.
var Usual = Machine{Cores: 2, Pool: 10, Clients: 10_000, Network: 10e9 / 8, Memory: 16 << 30, Forks: 2, Busy: .6}

// Size is what a load needs.
type Size struct {
	Load
	// Instances without the spare one, and Masters.
	Instances, Masters int
	// Why is what the number of masters, or of instances, is due to.
	WhyInstances, WhyMasters string
	// Together is how many decisions of a batch share a round trip.
	Together float64
	// ServiceCores and RedisCores are busy ones.
	ServiceCores, RedisCores float64
	// Fullest is the busiest master's share of its processor, from 0 to 1.
	Fullest float64
	// Bytes a second in the busier direction: of an instance, and of a master.
	InstanceNetwork, MasterNetwork float64
	// Bytes of all masters, and of an instance.
	RedisMemory, InstanceMemory float64
	// Connections of all instances to a master, and their commands a second to all without calls.
	Connections  int
	IdleCommands float64
	// Broken says what no number of instances and masters mends. Empty: nothing.
	Broken string
}

// mostTogether is how many decisions a round trip has at most: the store divides longer ones.
const mostTogether = 250

// Share is the greatest share of the buckets that one of that many masters has, when they have
// equal shares of the slots.
func Share(masters int) float64 {
	of := make([]int, masters)
	for b := range buckets {
		of[Master(b, masters)]++
	}
	return float64(slices.Max(of)) / buckets
}

// Master is that of a bucket, of as many with equal shares of the slots.
func Master(bucket, masters int) int {
	const slots = 16384
	slot := bucket*slots/buckets + slots/buckets/2
	return min(masters-1, slot*masters/slots)
}

// Plan returns what the load needs. Each number is the least that satisfies all bounds.
func Plan(l Load, c Costs, m Machine) Size {
	s := Size{Load: l}
	rate := l.Rate()
	for s.Masters = 1; ; s.Masters++ {
		share := Share(s.Masters)
		s.Together = max(1, min(mostTogether, float64(l.Batch)*share))
		s.Fullest = rate * share * c.Redis.At(s.Together) / 1e6
		needs := []struct {
			what string
			met  bool
		}{
			{"processor", s.Fullest <= m.Busy},
			{"memory", l.Targets*share*c.TargetBytes*m.Forks <= m.Memory},
			{"network", rate*share*max(c.Sent, c.Received) <= m.Busy*m.Network},
		}
		missed := ""
		for _, n := range needs {
			if !n.met {
				missed = n.what
				break
			}
		}
		if missed == "" {
			break
		}
		s.WhyMasters = missed
		if s.Masters == buckets {
			s.Broken = "a bucket needs more than one master: " + missed
			break
		}
	}
	s.RedisCores = rate * c.Redis.At(s.Together) / 1e6
	s.ServiceCores = rate * c.Service.At(s.Together) / 1e6
	s.RedisMemory = l.Targets * c.TargetBytes
	byCores := s.ServiceCores / (float64(m.Cores) * m.Busy)
	byNetwork := rate * max(c.Request+c.Received, c.Answer+c.Sent) / (m.Busy * m.Network)
	s.WhyInstances = "processor"
	if byNetwork > byCores {
		s.WhyInstances = "network"
	}
	s.Instances = max(1, int(math.Ceil(max(byCores, byNetwork))))
	s.InstanceNetwork = rate * max(c.Request+c.Received, c.Answer+c.Sent) / float64(s.Instances)
	s.MasterNetwork = rate * Share(s.Masters) * max(c.Sent, c.Received)
	s.InstanceMemory = c.InstanceBytes + c.CacheBytes*l.Targets/float64(s.Instances)
	s.Connections = (s.Instances + 1) * m.Pool * m.Cores
	s.IdleCommands = float64(s.Instances+1) * c.IdleCommands / 60
	if s.Connections > m.Clients && s.Broken == "" {
		s.Broken = "a master takes no more connections"
	}
	return s
}

// Most returns the most targets, to two digits, of which the plan satisfies the condition.
func Most(l Load, c Costs, m Machine, satisfied func(Size) bool) float64 {
	low, high := 1.0, 1e11
	for high/low > 1.002 {
		middle := math.Sqrt(low * high)
		l.Targets = middle
		if satisfied(Plan(l, c, m)) {
			low = middle
		} else {
			high = middle
		}
	}
	digit := math.Pow(10, math.Floor(math.Log10(low))-1)
	return math.Floor(low/digit) * digit
}
