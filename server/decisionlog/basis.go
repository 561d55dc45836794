package decisionlog

import (
	"sync"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
)

// basisOf returns a basis as a message; nil if nothing is known.
func basisOf(b *recommender.Basis) *setpointv1.DecisionBasis {
	if !b.Decided && !b.Bounded {
		return nil
	}
	m := &setpointv1.DecisionBasis{}
	if b.Decided {
		m.Proposal, m.MetricProposals = &b.Proposal, b.Proposals[:b.ProposalsLen]
	}
	if !b.Bounded {
		return m
	}
	m.MinReplicas, m.MaxReplicas = &b.Min, &b.Max
	if b.Windowed {
		m.ScaleUpWindowSeconds, m.ScaleDownWindowSeconds = &b.UpWindow, &b.DownWindow
	}
	switch {
	case b.HasLimit && b.Direction == recommender.Up:
		m.Ceiling = &b.Limit
	case b.HasLimit && b.Direction == recommender.Down:
		m.Floor = &b.Limit
	}
	return m
}

// Entries of earlier versions have the basis in the lists of the decision's history, as counts
// without instants. Recommendations are the proposal of all metrics and of each; scale-ups are the
// upper limits, the maximum, the window and, if there is one, the ceiling; scale-downs are the
// lower ones.
const (
	boundPlace = iota
	windowPlace
	limitPlace
)

// hiddenBasis returns the basis of an entry of an earlier version; nil if it has none.
func hiddenBasis(h *recommender.History) *setpointv1.DecisionBasis {
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

// number returns the one at an index of a list; nil if there is none, for which these entries have
// -1, too.
func number(list []recommender.ScaleEvent, place int) *int32 {
	if place >= len(list) || list[place].Change == -1 {
		return nil
	}
	return &list[place].Change
}

// proposedAt is the basis of a decision of which only the later record is known: the metrics'
// proposal.
func proposedAt(r *record.Record, at int64) (b recommender.Basis) {
	b.Proposal, b.Decided = r.Proposal(at)
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

// Basis returns the basis of a recent change that this instance recommended; nil if it does not have it.
func (l *Log) Basis(id recommender.ID) *setpointv1.DecisionBasis {
	basis, known := l.pending.of(id)
	if !known {
		return nil
	}
	return basisOf(&basis)
}
