package record

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/recommender"
)

// NewAnswer returns the part of a decision that an answer keeps.
func NewAnswer(requestID string, d *recommender.Decision, explanation []byte) Answer {
	return Answer{
		RequestID: requestID, ID: d.ID, At: d.At.UnixNano(), From: d.Current, To: d.Desired,
		Reason: d.Reason, Error: d.Error, Status: d.Status, Events: d.Events, Explanation: explanation, Adjusted: d.Adjusted,
	}
}

// DecisionOf returns the decision of an answer, without its explanation.
func DecisionOf(a *Answer) recommender.Decision {
	return recommender.Decision{
		ID: a.ID, At: time.Unix(0, a.At).UTC(), Current: a.From, Desired: a.To,
		Reason: a.Reason, Error: a.Error, Status: a.Status, Events: a.Events, Adjusted: a.Adjusted,
	}
}

// AnswerFor returns the answer to that request id, nil if there is none.
func (r *Record) AnswerFor(requestID string) *Answer {
	for i := range r.Answers {
		if r.Answers[i].RequestID == requestID {
			return &r.Answers[i]
		}
	}
	return nil
}

// Poll is a question that a decision for all who poll answers.
type Poll struct {
	// Spec is the etag of the stored spec; empty: it is no poll.
	Spec string
	// After is the last decision that the poller has seen, and AfterAt its instant, in nanoseconds
	// since the Unix epoch: neither it nor one before it answers.
	After   recommender.ID
	AfterAt int64
	// Shadows is what the record is to keep of the stored spec's shadows, without histories; nil: it has none.
	Shadows []byte
}

// AnswerTo returns the last decision as the answer to a poll; nil if it answers another question.
// It is another poller's, who was first.
func (r *Record) AnswerTo(p Poll) *Answer {
	l := &r.Last
	if p.Spec == "" || r.LastPoll != p.Spec || l.ID == p.After || l.At < p.AfterAt {
		return nil
	}
	return &Answer{ID: l.ID, At: l.At, From: l.From, To: l.To, Reason: l.Reason, Error: l.Error, Status: r.Status, Adjusted: r.Adjusted}
}

// Limits limit the answers that a record keeps.
type Limits struct {
	// Retention is how long an answer is kept.
	Retention time.Duration
	// Count is the number of answers.
	Count int
	// Bytes is their total size. The newest answer is always kept.
	Bytes int
}

// WithAnswer returns the record with an answer added, within the limits.
func (r *Record) WithAnswer(a Answer, limits Limits) Record {
	next := *r
	next.Answers = slices.Concat(r.Answers, []Answer{a})
	next.LastRequest = a.RequestID
	if r.Pending != nil && r.Pending.ID == a.ID {
		next.PendingRequest = a.RequestID
	}
	return next.WithinLimits(a.At, limits)
}

// WithinLimits returns the record without answers older than the retention at the given
// instant, in nanoseconds since the Unix epoch. If the rest is too many or too large, it
// drops the oldest explanations first, which a retry does not need, and then the oldest
// answers.
func (r *Record) WithinLimits(now int64, limits Limits) Record {
	next := *r
	first := max(0, len(r.Answers)-limits.Count)
	kept := r.Answers[first:]
	if slices.ContainsFunc(kept, func(a Answer) bool { return expired(&a, now, limits.Retention) }) {
		kept = slices.DeleteFunc(slices.Clone(kept), func(a Answer) bool { return expired(&a, now, limits.Retention) })
	}
	if excess := sizeOfAll(kept) - limits.Bytes; excess > 0 {
		kept = shed(slices.Clone(kept), excess)
	}
	if next.Answers = kept; len(kept) == 0 {
		next.Answers = nil
	}
	return next
}

func expired(a *Answer, now int64, retention time.Duration) bool { return now-a.At > int64(retention) }

// sizeOfAll estimates the size of answers in the encoding, which may be smaller because it
// abbreviates most messages.
func sizeOfAll(answers []Answer) (bytes int) {
	for i := range answers {
		bytes += sizeOf(&answers[i])
	}
	return bytes
}

func sizeOf(a *Answer) int {
	const fields = 64 // approximate size of all fields that are not texts
	n := fields + len(a.RequestID) + len(a.Reason) + len(a.Error) + len(a.Explanation)
	for i := range a.Events {
		n += len(a.Events[i].Reason) + len(a.Events[i].Message) + 4
	}
	for i := range a.Status.Conditions {
		n += len(a.Status.Conditions[i].Message) + 16
	}
	for i := range a.Status.CurrentMetrics {
		n += sizeOfMetric(&a.Status.CurrentMetrics[i])
	}
	if a.Adjusted != nil {
		for _, list := range [...][]recommender.Adjustment{a.Adjusted.Adjustments, a.Adjusted.Overrides} {
			for i := range list {
				n += 16 + len(list[i].Rule) + len(list[i].Metric) + len(list[i].Message)
			}
		}
	}
	return n
}

func sizeOfMetric(m *recommender.MetricStatus) int {
	o := &m.DescribedObject
	n := 32 + len(m.Resource) + len(m.Container) + len(m.Metric.Name) + len(o.Kind) + len(o.Name) + len(o.APIVersion)
	if m.Metric.Selector != nil {
		n += codec.Size(m.Metric.Selector)
	}
	return n
}

// shed frees that many bytes of the answers, which it may change in place: explanations
// first, oldest first.
func shed(answers []Answer, excess int) []Answer {
	for i := 0; i < len(answers)-1 && excess > 0; i++ {
		excess -= len(answers[i].Explanation)
		answers[i].Explanation = nil
	}
	for len(answers) > 1 && excess > 0 {
		excess -= sizeOf(&answers[0])
		answers = answers[1:]
	}
	return answers
}
