package decisionlog

import (
	"sync"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

// The lists of an entry's history encode the decision's basis, as counts without instants:
// nothing else of an entry uses the lists, and older versions ignore them. Recommendations are
// the proposal of all metrics and of each; scale-ups are the upper limits, the maximum, the
// window and, if there is one, the ceiling; scale-downs are the lower ones.
const (
	boundPlace = iota
	windowPlace
	limitPlace
)

// unknown encodes a missing number.
const unknown = -1

// basisParts is memory for the lists of a basis.
type basisParts struct {
	proposals [1 + recommender.BasisProposals]recommender.TimedRecommendation
	sides     [2 * (limitPlace + 1)]recommender.ScaleEvent
}

// putBasis encodes the basis in the history of an entry.
func putBasis(h *recommender.History, b *recommender.Basis, parts *basisParts) {
	at := h.Updated.UnixNano() // this instant takes no more than a byte
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

// basisOf decodes the basis of an entry; nil if it has none.
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

// number returns the one at an index of a list; nil if there is none.
func number(list []recommender.ScaleEvent, place int) *int32 {
	if place >= len(list) || list[place].Change == unknown {
		return nil
	}
	return &list[place].Change
}

// proposedAt is the basis of a decision of which only the later history is known: the metrics'
// proposal.
func proposedAt(h *recommender.History, at int64) (b recommender.Basis) {
	for i := range h.Recommendations {
		if r := &h.Recommendations[i]; r.At == at {
			b.Proposal, b.Decided = r.Replicas, true
		}
	}
	return b
}

// maxPending limits the changes whose basis is kept until they are settled.
const maxPending = 4096

// pendingBases are the bases of recent changes that this instance has recommended, whether settled
// or not. The records do not have them, because there each byte counts. The zero value is ready to
// use.
type pendingBases struct {
	mu   sync.Mutex
	byID map[recommender.ID]recommender.Basis // guarded by mu
	ids  []recommender.ID                     // a ring, oldest at next; guarded by mu
	next int                                  // guarded by mu
}

// note adds a basis, and drops the oldest beyond the limit.
func (p *pendingBases) note(id recommender.ID, b *recommender.Basis) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byID == nil {
		p.byID = make(map[recommender.ID]recommender.Basis)
	}
	switch _, known := p.byID[id]; {
	case known: // it has its place
	case len(p.ids) < maxPending:
		p.ids = append(p.ids, id)
	default:
		delete(p.byID, p.ids[p.next])
		p.ids[p.next] = id
		p.next = (p.next + 1) % maxPending
	}
	p.byID[id] = *b
}

// of returns a basis, and keeps it: a settlement that loses a race is repeated.
func (p *pendingBases) of(id recommender.ID) (b recommender.Basis, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, known = p.byID[id]
	return b, known
}

// Recommended keeps the basis of a change for OfSettled.
func (l *Log) Recommended(d *recommender.Decision) { l.pending.note(d.ID, &d.Basis) }
