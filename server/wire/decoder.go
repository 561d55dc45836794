package wire

import (
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/cost"
)

// Weights up to which plans and matches are remembered, one generation of each;
// there are two. See memo.
const (
	planMemory  = 32 << 20
	matchMemory = 16 << 20
)

// Decoder reads requests. Safe for concurrent use.
type Decoder struct {
	// options hold where a request sets none.
	options recommender.Options
	pools   pools
	// plans by what a request asks for, matches by what a reading is of.
	plans   memo[plan]
	matches memo[match]
	// lastPlan is the id of the plan last made.
	lastPlan atomic.Uint64
}

// NewDecoder returns a decoder. The options are those that hold where a request
// sets none.
func NewDecoder(options recommender.Options) *Decoder {
	return &Decoder{
		options: options,
		plans:   memo[plan]{limit: planMemory},
		matches: memo[match]{limit: matchMemory},
	}
}

// Decode reads an encoded setpoint.v1.RecommendRequest. ok is false for one that is
// to be read the long way, be it refused there or not. Of one that is taken it is
// left to the caller to check whether an evaluation time is allowed and lies where
// it may, and how many pods are too many.
//
// What the request takes comes out of the budget, nil: it may take anything. ok is false
// also where that is not enough, for as long as the long way finds it to be so, too.
//
// The data may be used again after the call. Release the request once the decision
// is made.
func (d *Decoder) Decode(data []byte, budget *cost.Budget) (request *Request, ok bool) {
	r := d.pools.get(len(data))
	r.decoder, r.size, r.budget = d, len(data), budget
	// About the part of a message that names take.
	r.b, r.texts.size = data, len(data)/6
	ok = r.scan() && r.namesAreUnique() && r.identify() && r.follow() && r.join() && r.finish()
	r.b = nil
	if !ok {
		r.Release()
		return nil, false
	}
	return r, true
}
