package decisionlog

import (
	"sync"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

// The lists of an entry's history hold the decision's basis, as counts without instants: nothing
// else of a decision uses them, and versions that know nothing of it read such an entry as any
// other. Recommendations are the proposal of all metrics and of each; scale-ups are what
// bounds it from above, the maximum, the window and, if there is one, the ceiling; scale-downs
// are the same from below.
const (
	boundPlace = iota
	windowPlace
	limitPlace
)

// unknown stands for a number that is not there.
const unknown = -1

// basisParts is room for the lists of a basis.
type basisParts struct {
	proposals [1 + recommender.BasisProposals]recommender.TimedRecommendation
	sides     [2 * (limitPlace + 1)]recommender.ScaleEvent
}

// putBasis notes the basis in a history that is to be an entry.
func putBasis(h *recommender.History, b *recommender.Basis, parts *basisParts) {
	at := h.Updated.UnixNano() // which takes no more than a byte
	if b.Decided {
		h.Recommendations = append(parts.proposals[:0], recommender.TimedRecommendation{Replicas: b.Proposal, At: at})
		for _, proposal := range b.Proposals[:b.ProposalsLen] {
			h.Recommendations = append(h.Recommendations, recommender.TimedRecommendation{Replicas: proposal, At: at})
		}
	}
	if !b.Bounded {
		return
	}
	both := parts.sides[:0]
	side := func(bound, window int32, direction recommender.Direction) []recommender.ScaleEvent {
		if !b.Windowed {
			window = unknown
		}
		from := len(both)
		both = append(both, recommender.ScaleEvent{Change: bound, At: at}, recommender.ScaleEvent{Change: window, At: at})
		if b.HasLimit && b.Direction == direction {
			both = append(both, recommender.ScaleEvent{Change: b.Limit, At: at})
		}
		return both[from:len(both):len(both)]
	}
	h.ScaleUps = side(b.Max, b.UpWindow, recommender.Up)
	h.ScaleDowns = side(b.Min, b.DownWindow, recommender.Down)
}

// basisOf prints the basis of an entry; nil if it has none.
func basisOf(h *recommender.History) *setpointv1.DecisionBasis {
	if len(h.Recommendations) == 0 && len(h.ScaleUps) == 0 && len(h.ScaleDowns) == 0 {
		return nil
	}
	b := &setpointv1.DecisionBasis{
		MinReplicas: number(h.ScaleDowns, boundPlace), MaxReplicas: number(h.ScaleUps, boundPlace),
		ScaleUpWindowSeconds: number(h.ScaleUps, windowPlace), ScaleDownWindowSeconds: number(h.ScaleDowns, windowPlace),
		Ceiling: number(h.ScaleUps, limitPlace), Floor: number(h.ScaleDowns, limitPlace),
	}
	for i := range h.Recommendations {
		if n := h.Recommendations[i].Replicas; i == 0 {
			b.Proposal = &n
		} else {
			b.MetricProposals = append(b.MetricProposals, n)
		}
	}
	return b
}

// number is the one at a place of a list; nil if it is not there.
func number(list []recommender.ScaleEvent, place int) *int32 {
	if place >= len(list) || list[place].Change == unknown {
		return nil
	}
	return &list[place].Change
}

// proposedAt is the basis of a decision that is known by the history after it: what the metrics
// asked for.
func proposedAt(h *recommender.History, at int64) (b recommender.Basis) {
	for i := range h.Recommendations {
		if r := &h.Recommendations[i]; r.At == at {
			b.Proposal, b.Decided = r.Replicas, true
		}
	}
	return b
}

// maxPending bounds the changes whose basis is remembered until they are settled.
const maxPending = 4096

// pendingBases are the bases of changes that this instance has recommended and that are not
// settled, and of some that are: the newest ones. Records don't have them, where each byte counts. The zero value is
// ready to be used.
type pendingBases struct {
	mu   sync.Mutex
	byID map[recommender.ID]recommender.Basis // guarded by mu
	ids  []recommender.ID                     // a ring, oldest at next; guarded by mu
	next int                                  // guarded by mu
}

// note remembers a basis, and forgets the oldest if they are too many.
func (p *pendingBases) note(id recommender.ID, b *recommender.Basis) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byID == nil {
		p.byID = make(map[recommender.ID]recommender.Basis)
	}
	if len(p.ids) < maxPending {
		p.ids = append(p.ids, id)
	} else {
		delete(p.byID, p.ids[p.next])
		p.ids[p.next] = id
		p.next = (p.next + 1) % maxPending
	}
	p.byID[id] = *b
}

// of returns a basis. It stays: whoever settles a change may lose a race and do so again.
func (p *pendingBases) of(id recommender.ID) (b recommender.Basis, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, known = p.byID[id]
	return b, known
}

// Recommended notes what a change was decided within, until OfSettled.
func (l *Log) Recommended(d *recommender.Decision) { l.pending.note(d.ID, &d.Basis) }
