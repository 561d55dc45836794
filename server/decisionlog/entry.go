package decisionlog

import (
	"slices"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// Entry is a decision as the log keeps it: encoded like the history of a target of
// which nothing is known but its last decision, and so as small, checked and of a format
// that can change. As an API message it would take four times as much.
type Entry struct {
	Value []byte
	// first reports whether it is of interest only where the log has no other.
	first bool
	// changes says that the decision changes the count, unsettled that it is not final: such a
	// one goes to the feed only.
	changes, unsettled bool
}

func logDecision(status *recommender.Status, decision *recommender.LastDecision, basis *recommender.Basis) Entry {
	h := recommender.History{Updated: time.Unix(0, decision.At).UTC(), Status: *status, Last: *decision}
	var parts basisParts
	putBasis(&h, basis, &parts)
	value := encoding.AppendHistory(nil, &h)
	if len(value) > maxLoggedBytes {
		h.Status.CurrentMetrics = nil
		h.Status.Conditions = slices.Clone(h.Status.Conditions)
		for i := range h.Status.Conditions {
			c := &h.Status.Conditions[i]
			c.Reason, c.Message = apierror.ClipMarked(c.Reason), apierror.ClipMarked(c.Message)
		}
		h.Last.Reason, h.Last.Error = apierror.ClipMarked(h.Last.Reason), apierror.ClipMarked(h.Last.Error)
		value = encoding.AppendHistory(value[:0], &h)
	}
	return Entry{Value: value, changes: decision.From != decision.To}
}

// OfDecision is for a decision that has just been made.
func OfDecision(d *recommender.Decision, requestID string) Entry {
	return logDecision(&d.Status, &recommender.LastDecision{
		ID: d.ID, RequestID: requestID, At: d.At.UnixNano(), From: d.Current, To: d.Desired, Reason: d.Reason, Error: d.Error,
	}, &d.Basis)
}

// OfPending is for a change that has just been recommended, for those who watch: the log
// takes it when it is settled.
func OfPending(d *recommender.Decision, requestID string) Entry {
	l := logDecision(&d.Status, &recommender.LastDecision{
		ID: d.ID, RequestID: requestID, At: d.At.UnixNano(), From: d.Current, To: d.Desired, Reason: d.Reason, Error: d.Error,
		Outcome: recommender.Undecided,
	}, &d.Basis)
	l.unsettled = true
	return l
}

// OfSettled is for a change that was pending before, with the status given. The log knows its
// basis if Recommended has noted it; otherwise the history knows what was proposed.
func (l *Log) OfSettled(before *recommender.History, status *recommender.Status, outcome recommender.Outcome) Entry {
	p := before.Pending
	basis, known := l.pending.of(p.ID)
	if !known {
		basis = proposedAt(before, p.At)
	}
	return logDecision(status, &recommender.LastDecision{
		ID: p.ID, RequestID: p.RequestID, At: p.At, From: p.From, To: p.To, Reason: p.Reason, Error: p.Error, Outcome: outcome,
	}, &basis)
}

// OfFirst is for the last decision of a history, which may never have been logged.
func OfFirst(before *recommender.History) Entry {
	basis := proposedAt(before, before.Last.At)
	l := logDecision(&before.Status, &before.Last, &basis)
	l.first = true
	return l
}

// Decision returns the entry's decision; nil if it is invalid.
func (l Entry) Decision() *setpointv1.Decision {
	h, err := encoding.DecodeHistory(l.Value)
	if err != nil {
		return nil
	}
	d := conversion.LastDecision(&h)
	if d != nil {
		d.Basis = basisOf(&h)
	}
	return d
}

// Repeats reports whether a decision says what the last one said: the same counts for
// the same reason under the same conditions. Readings and the numbers in messages may
// differ.
func Repeats(d *recommender.Decision, before *recommender.History) bool {
	last := &before.Last
	if last.At == 0 || last.From != d.Current || last.To != d.Desired || last.Reason != d.Reason || last.Error != d.Error {
		return false
	}
	return slices.EqualFunc(d.Status.Conditions, before.Status.Conditions, func(a, b recommender.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
	})
}
