package limit

import "sync/atomic"

// amount is what calls hold: the number of running ones in the upper half, the units in
// the lower.
type amount uint64

func newAmount(units, running uint32) amount { return amount(running)<<32 | amount(units) }

func (a amount) units() int64   { return int64(uint32(a)) }
func (a amount) running() int64 { return int64(a >> 32) }

// held is what all calls hold, in one word, so that one atomic step checks both limits.
type held struct{ v atomic.Uint64 }

func (h *held) load() amount { return amount(h.v.Load()) }
func (h *held) swap(before, after amount) bool {
	return h.v.CompareAndSwap(uint64(before), uint64(after))
}
func (h *held) add(a amount) { h.v.Add(uint64(a)) }
func (h *held) sub(a amount) { h.v.Add(-uint64(a)) }
