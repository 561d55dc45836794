package recommender

import (
	"math"

	"github.com/setpoint-dev/setpoint/internal/packed"
)

// Unpack makes Recommendations of Packed.
func (h *History) Unpack() {
	if p := h.Packed; p != nil {
		h.Packed, h.Recommendations = nil, packed.All[TimedRecommendation](p)
	}
}

// recommendations returns how many there are.
func (h *History) recommendations() int {
	if h.Packed != nil {
		return h.Packed.Len()
	}
	return len(h.Recommendations)
}

// decidesPacked reports whether a decision can leave the recommendations packed: the list is upstream's slots, and
// stays within the limit.
func (h *History) decidesPacked(now int64, in *Input) bool {
	return !in.Again && h.Initialized && !h.RecommendationsLimited && !h.Packed.Changed() && h.Packed.Len() < in.Options.historyLimit() && packed.Fits(now)
}

// AllAt calls f with the counts recommended at an instant, in the order of their slots, and their slots.
func (h *History) AllAt(at int64, f func(slot int, replicas int32)) {
	if p := h.Packed; p != nil && !p.Changed() {
		for i := range p.Blocks() {
			if b := &p.Blocks()[i]; at < b.Oldest || at > b.Newest {
				continue
			}
			for j, s := range p.Read(i) {
				if s.At == at {
					f(i*packed.PerBlock+j, s.Replicas)
				}
			}
		}
		return
	}
	list := h.Recommendations
	if h.Packed != nil {
		list = packed.All[TimedRecommendation](h.Packed)
	}
	for i, r := range list {
		if r.At == at {
			f(i, r.Replicas)
		}
	}
}

// oldest returns the oldest instant of a recommendation; 0: there is none.
func (h *History) oldest() (at int64) {
	if h.Packed != nil {
		at = math.MaxInt64
		for _, b := range h.Packed.Blocks() {
			at = min(at, b.Oldest)
		}
		return at
	}
	for i, r := range h.Recommendations {
		if i == 0 || r.At < at {
			at = r.At
		}
	}
	return at
}

// searchPacked counts the recommendations later than an instant in a window; each leaves it that long after its
// own. It reads only the blocks that can decide: those on the window's edge, those with its safest count, and the
// newest of those that hold.
func (w *Window) searchPacked(p *packed.List, after, lasts int64, proposed int32) {
	blocks := p.Blocks()
	var room [DefaultHistoryLimit / packed.PerBlock]bool
	read := room[:]
	if len(blocks) > len(read) {
		read = make([]bool, len(blocks))
	}
	for i := range blocks {
		switch b := &blocks[i]; {
		case b.Newest <= after:
			read[i] = true
		case b.Oldest <= after:
			read[i] = true
			for _, s := range p.Read(i) {
				if s.At > after {
					w.count(TimedRecommendation(s), proposed, s.At+lasts)
				}
			}
		default:
			w.Counted += int32(p.LenOf(i))
			read[i] = !w.holds(w.safest(b), proposed)
		}
	}
	hold := func(i int) {
		read[i] = true
		for _, s := range p.Read(i) {
			if w.holds(s.Replicas, proposed) {
				w.hold(TimedRecommendation(s), s.At+lasts)
			}
		}
	}
	for {
		best := -1
		for i := range blocks {
			b := &blocks[i]
			if read[i] {
				continue
			}
			if n := w.safest(b); !w.Held || w.holds(n, w.Replicas) || n == w.Replicas && b.Newest > w.HeldSince {
				if best < 0 || w.holds(n, w.safest(&blocks[best])) || n == w.safest(&blocks[best]) && b.Newest > blocks[best].Newest {
					best = i
				}
			}
		}
		if best < 0 {
			break
		}
		hold(best)
	}
	for {
		last := -1
		for i := range blocks {
			if b := &blocks[i]; !read[i] && b.Newest+lasts > w.FullyReleasedAt && (last < 0 || b.Newest > blocks[last].Newest) {
				last = i
			}
		}
		if last < 0 {
			return
		}
		hold(last)
	}
}

// holds reports whether a count is safer than another one.
func (w *Window) holds(n, than int32) bool {
	if w.Direction == Up {
		return n < than
	}
	return n > than
}

// safest is the count of a block that holds most.
func (w *Window) safest(b *packed.Block) int32 {
	if w.Direction == Up {
		return b.Lowest
	}
	return b.Highest
}

// obsoletePacked returns the last slot with a recommendation before an instant, -1: there is none.
func obsoletePacked(p *packed.List, before int64) int {
	for i := len(p.Blocks()) - 1; i >= 0; i-- {
		if p.Blocks()[i].Oldest >= before {
			continue
		}
		all := p.Read(i)
		for j := len(all) - 1; j >= 0; j-- {
			if all[j].At < before {
				return i*packed.PerBlock + j
			}
		}
	}
	return -1
}
