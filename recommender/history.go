package recommender

import (
	"encoding/hex"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/packed"
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

// ParseID parses what String returns; ok is false for anything else.
func ParseID(s string) (id ID, ok bool) {
	if len(s) != 2*len(id) {
		return ID{}, false
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err == nil && id.String() == s
}

// History is the state that later decisions on one target depend on. The zero value is
// the history of a new target. A History is immutable: Recommend and Settle return new
// ones, which may share parts with it.
type History struct {
	// Seen reports whether the target was ever evaluated; an initial status is then ignored.
	Seen bool
	// Updated is the instant of the newest record. Nothing is recorded before it.
	Updated time.Time
	// Recommendations are upstream's slots: the proposals before stabilization and
	// limits. Initialized reports whether the list exists; the first evaluation creates
	// it with the current count.
	Recommendations []TimedRecommendation
	Initialized     bool
	// Packed has the recommendations in place of Recommendations, for this module's service: only decisions read
	// it, see Unpack. It is valid as long as the bytes that it is from.
	Packed *packed.List
	// Since is the instant of the first evaluation, in nanoseconds since the Unix
	// epoch.
	Since int64
	// RecommendationsLimited reports whether they once exceeded the limit, and therefore
	// no longer equal upstream's slots. Those up to LastingUntil, in nanoseconds since the
	// Unix epoch, may count for longer than upstream's.
	RecommendationsLimited bool
	LastingUntil           int64
	// ScaleUps and ScaleDowns are upstream's slots: changes that were applied.
	// EventsLimited reports whether they once exceeded the limit, and no longer equal
	// upstream's.
	ScaleUps, ScaleDowns []ScaleEvent
	EventsLimited        bool
	// Status is the status as upstream would have stored it.
	Status Status
	// Pending is a change whose outcome is not known yet; nil: none.
	Pending *Pending
	// Settled are the last settled changes, oldest first, at most MaxSettled.
	Settled []Settled
	// Target is the workload as last named by a request, for display.
	Target ObjectReference
	// Last is the last decision that was recorded, for display.
	Last LastDecision
}

// RestartAfterPause forgets the recommendations if nothing was decided for longer than the windows last, as a restart of
// upstream's controller does: the next decision begins with the current replicas. It reports whether it did.
func (h *History) RestartAfterPause(now time.Time, in *Input) bool {
	d := decider{in: in}
	if in.Options.profile().Behavior() {
		d.behavior = in.Spec.Behavior
	}
	if !h.Initialized || now.Sub(h.Updated) <= d.windowsNow() {
		return false
	}
	h.Initialized, h.Since, h.RecommendationsLimited = false, 0, false
	h.Recommendations, h.Packed = nil, nil
	return true
}

// LongestWindow is the longest stabilization window that the API allows. Keep a history at
// least that long.
const LongestWindow = longestWindow

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
	// Outdated reports whether the slot may be reused.
	Outdated bool
	// At is in nanoseconds since the Unix epoch.
	At int64
	// Span is the time between the first and the last of the changes summed up here, in
	// nanoseconds; 0: it is a single change.
	Span int64
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
	// RecordsEvent reports whether the spec had a behavior, so that the change counts
	// for its policies; LongestPeriod is that of the direction, in seconds.
	RecordsEvent  bool
	LongestPeriod int32
	// Zero says how the change affects the ScaledToZero condition.
	Zero ZeroTransition
	// Bare reports whether conditions and events have no reasons, as in profile
	// design-2015.
	Bare bool
	// Outside reports whether the change is an override's: it is no scale, as one that somebody else makes.
	Outside bool
	// KeepsMetrics reports whether the status goes back to PreviousMetrics if the change
	// fails.
	KeepsMetrics    bool
	PreviousMetrics []MetricStatus
	// Reason is the reason of the change. Error is for display, as in LastDecision.
	Reason, Error string
}

// ZeroTransition is the effect of a change on the ScaledToZero condition.
type ZeroTransition uint8

// The transitions: without the scale-to-zero option the condition is removed; versions
// that do not know the condition leave it unchanged.
const (
	ZeroRemoved ZeroTransition = iota
	ZeroTrue
	ZeroFalse
	ZeroUnknown
)

// Outcome is the outcome of a recommended change.
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

// LastDecision summarizes the last recorded decision.
type LastDecision struct {
	ID ID
	// At is in nanoseconds since the Unix epoch.
	At       int64
	From, To int32
	Reason   string
	Error    string
	Outcome  Outcome
}

// recordRecommendation returns the slots with a new recommendation in the given slot,
// appended where that is negative.
func recordRecommendation(memory *memory, slots []TimedRecommendation, slot int, r TimedRecommendation) []TimedRecommendation {
	next := memory.Recommendations(len(slots))
	copy(next, slots)
	if slot < 0 {
		return append(next, r)
	}
	next[slot] = r
	return next
}

// recordBeyondLimit adds a recommendation and drops those before the cutoff.
func recordBeyondLimit(slots []TimedRecommendation, cutoff int64, r TimedRecommendation) []TimedRecommendation {
	next := make([]TimedRecommendation, 0, len(slots)+1)
	for _, old := range slots {
		if old.At >= cutoff {
			next = append(next, old)
		}
	}
	return append(next, r)
}

// recordScaleEvent returns the slots with a new event, as upstream's storeScaleEvent
// does: it marks events older than the longest period for good, and overwrites the last
// marked slot. Beyond the limit it marks none: events stay until no period that the API
// allows can count them.
func recordScaleEvent(slots []ScaleEvent, e ScaleEvent, longestPeriod int32, limited bool) []ScaleEvent {
	next := make([]ScaleEvent, len(slots), len(slots)+1)
	copy(next, slots)
	cutoff := e.At - int64(longestPeriod)*int64(time.Second)
	reusable := -1
	for i := range next {
		if next[i].At-next[i].Span < cutoff {
			next[i].Outdated = true
		}
		if next[i].Outdated {
			reusable = i
		}
	}
	switch {
	case limited:
		next = slices.DeleteFunc(next, func(old ScaleEvent) bool { return old.At < e.At-int64(longestPolicyPeriod) })
		return append(next, e)
	case reusable < 0:
		return append(next, e)
	}
	next[reusable] = e
	return next
}
