package agent

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// Reasons of the events that tell that the recommender decides again. What kept it from
// that is told with the reason of the condition.
const (
	// EventRecommenderAvailable ends ReasonRecommenderUnavailable.
	EventRecommenderAvailable = "RecommenderAvailable"
	// EventRecommendationAccepted ends ReasonRecommendationRefused.
	EventRecommendationAccepted = "RecommendationAccepted"
)

// minTellInterval is the least time between two events that tell that an object is not
// decided on. Where the recommender comes and goes the condition tells the rest.
const minTellInterval = time.Minute

// endings are the events that end what events tell of, by its reason.
var endings = map[string]struct{ reason, message string }{
	ReasonRecommenderUnavailable: {EventRecommenderAvailable, "the recommender answers again"},
	ReasonRecommendationRefused:  {EventRecommendationAccepted, "the recommender no longer refuses to decide"},
}

// tellHold sends an event when the recommender begins not to decide on an object, and no
// other one before that is over, however its words change.
func (r *round) tellHold(reason, message string) {
	_, tells := endings[reason]
	if !tells || r.o.shadow || r.toldHold() == reason || time.Since(r.st.toldAt) < minTellInterval {
		return
	}
	r.st.told, r.st.toldAt = &reason, time.Now()
	r.events.Event(r.o.stored, corev1.EventTypeWarning, reason, message)
}

// tellDecided sends an event when the recommender decides again.
func (r *round) tellDecided() {
	end, tells := endings[r.toldHold()]
	r.st.told = new(string)
	if tells {
		r.events.Event(r.o.stored, corev1.EventTypeNormal, end.reason, end.message)
	}
}

// toldHold returns the reason that was told and is not over, "" if there is none. At
// first that is what an agent before this one wrote.
func (r *round) toldHold() string {
	if r.st.told != nil {
		return *r.st.told
	}
	c := conditionOf(statusOf(r.stored()), autoscalingv2.AbleToScale)
	if c == nil || c.Status != corev1.ConditionFalse {
		return ""
	}
	return c.Reason
}
