package agent

// Reasons for which an object is not scaled that are an agent's own.
const (
	// ReasonRecommenderUnavailable means that the service does not answer.
	ReasonRecommenderUnavailable = "RecommenderUnavailable"
	// ReasonRecommendationRefused means that it refused to decide.
	ReasonRecommendationRefused = "RecommendationRefused"
	// ReasonAnswerRefused means that its answer can't be one to what was asked.
	ReasonAnswerRefused = "AnswerRefused"
	// ReasonConflictingAutoscaler means that another autoscaler has the workload.
	ReasonConflictingAutoscaler = "ConflictingAutoscaler"
	// ReasonStatusWrittenByAnother means that another controller acts on the object.
	ReasonStatusWrittenByAnother = "StatusWrittenByAnother"
	// ReasonInvalidObject means that something in the object can't be read.
	ReasonInvalidObject = "InvalidObject"
)

// IsHold reports whether a reason is one of these.
func IsHold(reason string) bool {
	switch reason {
	case ReasonRecommenderUnavailable, ReasonRecommendationRefused, ReasonAnswerRefused, ReasonConflictingAutoscaler, ReasonStatusWrittenByAnother, ReasonInvalidObject:
		return true
	}
	return false
}

// ReasonShadowDiverged is the reason of the event that tells that a shadow decided
// otherwise than the controller in charge, for the first time, or for the first time
// since one of both had no opinion.
const ReasonShadowDiverged = "ShadowDiverged"

// Reasons of the events that tell that the recommender decides again. What kept it from
// that is told with the reason of the hold.
const (
	// EventRecommenderAvailable ends ReasonRecommenderUnavailable.
	EventRecommenderAvailable = "RecommenderAvailable"
	// EventRecommendationAccepted ends ReasonRecommendationRefused.
	EventRecommendationAccepted = "RecommendationAccepted"
)
