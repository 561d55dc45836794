package decisionlog

import (
	"slices"
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// Entry is a decision in the log's form: encoded like the history of a target that has
// nothing but its last decision, which makes it small, checksummed and versioned. As an
// API message it would be four times as large.
type Entry struct {
	Value []byte
	// fed is what the feed gets; nil: Value.
	fed []byte
	// first reports whether it is logged only if the log has no other entry.
	first bool
	// changes reports whether the decision changes the count, unsettled that it is not final:
	// the latter goes to the feed only.
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
	entry := Entry{Value: value, changes: decision.From != decision.To}
	if len(value) > maxFedBytes {
		entry.fed = forFeed(&h)
	}
	return entry
}

// forFeed encodes a decision in no more than maxFedBytes: without readings, and if it must be
// without conditions and with shortened texts.
func forFeed(h *recommender.History) []byte {
	short := *h
	short.Status.CurrentMetrics = nil
	value := encoding.AppendHistory(nil, &short)
	if len(value) <= maxFedBytes {
		return value
	}
	short.Status.Conditions = nil
	short.Last.Reason, short.Last.Error = clipped(short.Last.Reason), clipped(short.Last.Error)
	return encoding.AppendHistory(value[:0], &short)
}

// clipped shortens a text of the feed.
func clipped(text string) string {
	const most = 256
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// OfDecision returns the entry of a decision just made.
func OfDecision(d *recommender.Decision, requestID string) Entry {
	return logDecision(&d.Status, &recommender.LastDecision{
		ID: d.ID, RequestID: requestID, At: d.At.UnixNano(), From: d.Current, To: d.Desired, Reason: d.Reason, Error: d.Error,
	}, &d.Basis)
}

// OfPending returns the entry of a change just recommended, for watchers: the log gets
// it when it is settled.
func OfPending(d *recommender.Decision, requestID string) Entry {
	l := logDecision(&d.Status, &recommender.LastDecision{
		ID: d.ID, RequestID: requestID, At: d.At.UnixNano(), From: d.Current, To: d.Desired, Reason: d.Reason, Error: d.Error,
		Outcome: recommender.Undecided,
	}, &d.Basis)
	l.unsettled = true
	return l
}

// OfSettled returns the entry of a change that was pending before and has that status now. It
// has the basis if Recommended kept it; otherwise only the proposal, from the history.
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

// OfFirst returns the entry of the last decision of a history, which may never have
// been logged.
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

// Repeats reports whether a decision repeats the previous one: the same counts for the
// same reason under the same conditions. Readings and the numbers in messages may
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
