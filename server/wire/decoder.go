package wire

import (
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/bounded"
	"github.com/setpoint-dev/setpoint/server/cost"
)

// Sizes of the caches of plans and matches, and approximate ones of what is in them, bytes: decoding a message on the
// slow path takes several times its size.
const (
	planMemory  = 64 << 20
	matchMemory = 32 << 20
	memoEntry   = 1 << 10
	memoByte    = 12
)

// Decoder reads requests. Safe for concurrent use.
type Decoder struct {
	// options are the defaults of requests.
	options recommender.Options
	pools   pools
	// plans are keyed by the repeating part of a request, matches by the identity of a
	// reading.
	plans   *bounded.Map[string, *plan]
	matches *bounded.Map[string, *match]
	// lastPlan is the id of the newest plan.
	lastPlan atomic.Uint64
}

// NewDecoder returns a decoder. The options are the defaults of requests.
func NewDecoder(options recommender.Options) *Decoder {
	return &Decoder{
		options: options,
		plans:   bounded.NewWeighted[string](planMemory, func(p *plan) int { return memoEntry + memoByte*len(p.data) }),
		matches: bounded.NewWeighted[string](matchMemory, func(m *match) int { return memoEntry + memoByte*m.bytes }),
	}
}

// Decode reads an encoded setpoint.v1.RecommendRequest. ok is false for a request that
// needs the slow path, whether that refuses it or not. The caller must still check
// whether an evaluation time is allowed and in range, and the number of pods.
//
// The cost of the request is charged to the budget; nil: unlimited. ok is also false if
// the budget is too small, but only while the slow path would find the same.
//
// The data may be reused after the call. Release the request once the decision is made.
func (d *Decoder) Decode(data []byte, budget *cost.Budget) (request *Request, ok bool) {
	r := d.pools.get(len(data))
	r.decoder, r.size, r.budget = d, len(data), budget
	// Names take about this part of a message.
	r.b, r.texts.size = data, len(data)/6
	ok = r.scan() && r.namesAreUnique() && r.identify() && r.follow() && r.join() && r.finish()
	r.b = nil
	if !ok {
		r.Release()
		return nil, false
	}
	return r, true
}
