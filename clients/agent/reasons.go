package agent

// The agent's own reasons for not scaling an object.
const (
	// ReasonRecommenderUnavailable means that the service does not answer.
	ReasonRecommenderUnavailable = "RecommenderUnavailable"
	// ReasonRecommendationRefused means that it refused to decide.
	ReasonRecommendationRefused = "RecommendationRefused"
	// ReasonAnswerRefused means that its answer is invalid for the request.
	ReasonAnswerRefused = "AnswerRefused"
	// ReasonConflictingAutoscaler means that another autoscaler has the workload.
	ReasonConflictingAutoscaler = "ConflictingAutoscaler"
	// ReasonStatusWrittenByAnother means that another controller acts on the object.
	ReasonStatusWrittenByAnother = "StatusWrittenByAnother"
	// ReasonCountContested means that others change the count each time it is to be written.
	ReasonCountContested = "CountContested"
	// ReasonInvalidObject means that something in the object can't be read.
	ReasonInvalidObject = "InvalidObject"
)

// Reasons of waits, which end by themselves and count as OutcomeWaiting.
const (
	// ReasonDeploying means that a deployment of Nomad is active, during which it accepts no count.
	ReasonDeploying = "Deploying"
	// ReasonUpdating means that a rolling update or a rollback of Swarm is in progress.
	ReasonUpdating = "Updating"
	// ReasonNotListed means that a target was missing from the webhook server's last list. It is
	// gone after lists lacked it for a while.
	ReasonNotListed = "NotListed"
	// ReasonNotFound means that the webhook server lists a target, and answers 404 when it is observed.
	ReasonNotFound = "NotFound"
)

// IsHold reports whether a reason is one of the agent's own.
func IsHold(reason string) bool {
	switch reason {
	case ReasonRecommenderUnavailable, ReasonRecommendationRefused, ReasonAnswerRefused, ReasonConflictingAutoscaler, ReasonStatusWrittenByAnother, ReasonCountContested, ReasonInvalidObject:
		return true
	}
	return false
}

// ReasonShadowDiverged is the reason of the event when a shadow decides differently from the
// acting controller for the first time, or for the first time since one of the two had no
// opinion.
const ReasonShadowDiverged = "ShadowDiverged"

// Reasons of the events when the recommender decides again. The event before has the reason of
// the hold.
const (
	// EventRecommenderAvailable ends ReasonRecommenderUnavailable.
	EventRecommenderAvailable = "RecommenderAvailable"
	// EventRecommendationAccepted ends ReasonRecommendationRefused.
	EventRecommendationAccepted = "RecommendationAccepted"
	// EventAdjusted tells what a stage or an override of the service changes. It comes when that
	// begins.
	EventAdjusted = "Adjusted"
	// EventFleet tells what a member's fleet makes of it, when that changes: that it takes part, is
	// drained, or must wait.
	EventFleet = "Fleet"
)
