package recommender

import (
	"encoding/hex"
	"time"
)

// ID names a recommendation. The zero value names none.
type ID [16]byte

// String returns the ID in hexadecimal, empty for the zero value.
func (id ID) String() string {
	if id == (ID{}) {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// ParseID reads what String wrote; ok is false for anything else.
func ParseID(s string) (id ID, ok bool) {
	if len(s) != 2*len(id) {
		return ID{}, false
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err == nil && id.String() == s
}

// History is what later decisions on one target depend on. The zero value is
// that of a target that was never seen. A History is never changed once it is
// made: Recommend and Settle return new ones, which may share parts with it.
type History struct {
	// Seen says that the target has been evaluated: an initial status counts no more.
	Seen bool
	// Updated is the instant of the newest record. Nothing is recorded before it.
	Updated time.Time
	// Recommendations are upstream's slots: what metrics asked for, before
	// stabilization and limits. Initialized says that the list exists, which
	// the count at first sight makes it.
	Recommendations []TimedRecommendation
	Initialized     bool
	// Since is when that was, in nanoseconds since the Unix epoch.
	Since int64
	// ScaleUps and ScaleDowns are upstream's slots: changes that were applied.
	ScaleUps, ScaleDowns []ScaleEvent
	// Status is as upstream would have stored it.
	Status Status
	// Pending is a change that is not yet known to be applied, nil: there is none.
	Pending *Pending
	// Settled are the changes last settled, oldest first, at most MaxSettled.
	Settled []Settled
	// Target is the workload as last named, for display.
	Target ObjectReference
	// Last is the last decision that was recorded, for display.
	Last LastDecision
	// Answers are the last answers that were given under a request id, oldest first.
	Answers []Answer
}

// MaxSettled bounds History.Settled.
const MaxSettled = 16

// TimedRecommendation is one recommendation.
type TimedRecommendation struct {
	Replicas int32
	// At is in nanoseconds since the Unix epoch.
	At int64
}

// ScaleEvent is one change of the replicas.
type ScaleEvent struct {
	// Change is above 0 in both directions.
	Change int32
	// Outdated says that the slot may be reused.
	Outdated bool
	// At is in nanoseconds since the Unix epoch.
	At int64
}

// Pending is a change that was recommended and not yet reported.
type Pending struct {
	ID ID
	// At is the instant of the recommendation, in nanoseconds since the Unix epoch.
	At int64
	// From and To are the replicas before and after.
	From, To int32
	// PreviousDesired is the status' desired replicas before.
	PreviousDesired int32
	// RecordsEvent says that the spec had a behavior, so that the change counts
	// for its policies; LongestPeriod is that of the direction, in seconds.
	RecordsEvent  bool
	LongestPeriod int32
	// Zero is what becomes of the ScaledToZero condition.
	Zero ZeroTransition
	// Bare says that neither conditions nor events tell of reasons: the design of
	// 2015 had none.
	Bare bool
	// KeepsMetrics says that the status goes back to PreviousMetrics if the change
	// fails.
	KeepsMetrics    bool
	PreviousMetrics []MetricStatus
	// Reason is why. RequestID and Error are for display, as in LastDecision.
	Reason, RequestID, Error string
}

// ZeroTransition is what a change makes of the ScaledToZero condition.
type ZeroTransition uint8

// The transitions: without the scale-to-zero option the condition goes; versions that
// do not know it leave it as it is.
const (
	ZeroRemoved ZeroTransition = iota
	ZeroTrue
	ZeroFalse
	ZeroUnknown
)

// Outcome is what became of a recommended change.
type Outcome uint8

// The outcomes. Dropped is a change that was never reported and that the next
// request did not show either.
const (
	NotChanged Outcome = iota
	Undecided
	Applied
	Failed
	Dropped
)

// Settled is a change whose outcome is known.
type Settled struct {
	ID      ID
	Outcome Outcome
}

// LastDecision is the last recorded decision in brief.
type LastDecision struct {
	ID        ID
	RequestID string
	// At is in nanoseconds since the Unix epoch.
	At       int64
	From, To int32
	Reason   string
	Error    string
	Outcome  Outcome
}

// Answer is an answer that may be asked for again.
type Answer struct {
	RequestID string
	ID        ID
	// At is the instant decided for, in nanoseconds since the Unix epoch.
	At       int64
	From, To int32
	Reason   string
	Error    string
	Status   Status
	Events   []Event
	// Explanation is opaque here; empty: none was asked for.
	Explanation []byte
}

// NewAnswer returns what is to be kept of a decision's answer.
func NewAnswer(requestID string, d *Decision, explanation []byte) Answer {
	return Answer{
		RequestID: requestID, ID: d.ID, At: d.At.UnixNano(), From: d.Current, To: d.Desired,
		Reason: d.Reason, Error: d.Error, Status: d.Status, Events: d.Events, Explanation: explanation,
	}
}

// Decision returns the decision that the answer was given for, without its
// explanation.
func (a *Answer) Decision() Decision {
	return Decision{
		ID: a.ID, At: time.Unix(0, a.At).UTC(), Current: a.From, Desired: a.To,
		Reason: a.Reason, Error: a.Error, Status: a.Status, Events: a.Events,
	}
}

// AnswerFor returns the answer that was given under that request id, nil if none
// is remembered.
func (h *History) AnswerFor(requestID string) *Answer {
	for i := range h.Answers {
		if h.Answers[i].RequestID == requestID {
			return &h.Answers[i]
		}
	}
	return nil
}

// WithAnswer returns the history with an answer added, and without those that
// are older than the retention or more than the limit.
func (h History) WithAnswer(a Answer, retention time.Duration, limit int) History {
	kept := make([]Answer, 0, len(h.Answers)+1)
	for _, old := range h.Answers {
		if a.At-old.At <= int64(retention) {
			kept = append(kept, old)
		}
	}
	kept = append(kept, a)
	if len(kept) > limit {
		kept = kept[len(kept)-limit:]
	}
	h.Answers = kept
	h.Last.RequestID = a.RequestID
	if h.Pending != nil && h.Pending.ID == a.ID {
		pending := *h.Pending
		pending.RequestID = a.RequestID
		h.Pending = &pending
	}
	return h
}

// recordRecommendation returns the slots with a new recommendation in the slot
// given, appended where that is negative.
func recordRecommendation(slots []TimedRecommendation, slot int, r TimedRecommendation) []TimedRecommendation {
	next := make([]TimedRecommendation, len(slots), len(slots)+1)
	copy(next, slots)
	if slot < 0 {
		return append(next, r)
	}
	next[slot] = r
	return next
}

// recordScaleEvent returns the slots with a new event, as upstream's
// storeScaleEvent does: what is older than the longest period is marked for
// good, and the last marked slot is overwritten.
func recordScaleEvent(slots []ScaleEvent, e ScaleEvent, longestPeriod int32) []ScaleEvent {
	next := make([]ScaleEvent, len(slots), len(slots)+1)
	copy(next, slots)
	cutoff := e.At - int64(longestPeriod)*int64(time.Second)
	reusable := -1
	for i := range next {
		if next[i].At < cutoff {
			next[i].Outdated = true
		}
		if next[i].Outdated {
			reusable = i
		}
	}
	if reusable < 0 {
		return append(next, e)
	}
	next[reusable] = e
	return next
}
