package agent

import (
	"cmp"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// hold leaves the count unchanged and has the platform show why.
func (r *reconcile) hold(h Hold) Outcome {
	h.Outcome = cmp.Or(h.Outcome, OutcomeInvalid)
	if h.Since.IsZero() {
		h.Since = time.Now()
	}
	// Log once, not in every reconcile. Some reasons have another message each time, with the
	// same cause for all objects.
	cause := h.Message
	switch h.Reason {
	case ReasonRecommenderUnavailable:
		cause = h.Reason + causeOf(h.Message)
	case ReasonAnswerRefused:
		cause = h.Reason
	}
	switch {
	case h.ofAll:
		r.st.held = ""
	case r.st.held == cause, h.Silent,
		r.once.say(r.log, zapcore.WarnLevel, "not scaled", cause, zap.String("reason", h.Reason), zap.String("message", h.Message+h.wants)):
		r.st.held = cause
	}
	h.Message += h.wants
	if r.o.Shadow {
		r.undecided(h.Reason + ": " + h.Message)
	} else {
		r.tellHold(h.Reason, h.Message)
	}
	r.telling.Hold = &h
	return h.Outcome
}

// holdAway is hold while the service does not answer. away reports whether it answers nobody, which the log has once for
// all objects.
func (r *reconcile) holdAway(since time.Time, reason string, away bool) Outcome {
	return r.hold(Hold{
		ofAll: away, Outcome: OutcomeAway, Reason: ReasonRecommenderUnavailable, Since: since,
		Message: fmt.Sprintf("the recommender has been unavailable since %s: %s", since.UTC().Format(time.RFC3339), reason),
	})
}

// minTellInterval is the minimum time between two events about an object without decisions.
// If the recommender comes and goes the hold shows the rest.
const minTellInterval = time.Minute

// endings are the events that report the end of a problem, by the problem's reason.
var endings = map[string]struct{ reason, message string }{
	ReasonRecommenderUnavailable: {EventRecommenderAvailable, "the recommender answers again"},
	ReasonRecommendationRefused:  {EventRecommendationAccepted, "the recommender no longer refuses to decide"},
}

// tellHold emits an event when the recommender stops deciding on an object, and no further
// one until that is over, even if the message changes.
func (r *reconcile) tellHold(reason, message string) {
	_, tells := endings[reason]
	if !tells || r.toldHold() == reason || time.Since(r.st.eventAt) < minTellInterval {
		return
	}
	r.st.eventReason, r.st.eventAt = &reason, time.Now()
	r.telling.event(warning, reason, message)
}

// tellDecided emits an event when the recommender decides again.
func (r *reconcile) tellDecided() {
	end, tells := endings[r.toldHold()]
	r.st.eventReason = new(string)
	if tells {
		r.telling.event(normal, end.reason, end.message)
	}
}

// adjustedEvery is the minimum time between two events about what comes and goes, such as an adjustment.
const adjustedEvery = 10 * time.Minute

// told is the last event about something that comes and goes: what it was, when the event was, and whether
// it has ended since.
type told struct {
	what  string
	at    time.Time
	ended bool
}

// begins reports whether to tell that something is so now, and then remembers it; empty: nothing is.
func (t *told) begins(what string) bool {
	if what == "" {
		t.ended = true
		return false
	}
	least := minTellInterval
	if what == t.what {
		least = adjustedEvery
	}
	if what == t.what && !t.ended || !t.at.IsZero() && time.Since(t.at) < least {
		return false
	}
	*t = told{what: what, at: time.Now()}
	return true
}

// tellAdjusted emits an event when a stage or an override begins to change the count, and no
// further one while it does, even if the message changes.
func (r *reconcile) tellAdjusted(e *evaluation) {
	what := ""
	if one := decisive(e.Answer); one != nil {
		what = one.GetStage() + " " + one.GetRule()
	}
	if !r.st.adjusted.begins(what) {
		return
	}
	text := AdjustedBy(e.Answer)
	r.once.say(r.log, zapcore.InfoLevel, "adjusted", what, zap.String("adjusted", text))
	r.telling.event(normal, EventAdjusted, text)
}

// toldHold returns the reason of the last event that is not over, "" if there is none. At
// first it is the reason that an earlier agent wrote.
func (r *reconcile) toldHold() string {
	if r.st.eventReason != nil {
		return *r.st.eventReason
	}
	return r.o.Held
}
