package recording

import "time"

// History is what a target had before the first step of a scenario, of what later
// decisions depend on besides the autoscaler's status.
type History struct {
	// Recommendations, in the order of the controller's slots.
	Recommendations []Recommendation `json:"recommendations,omitempty"`
	// ScaleUps and ScaleDowns that were applied, in the order of the controller's slots.
	ScaleUps   []ScaleEvent `json:"scaleUps,omitempty"`
	ScaleDowns []ScaleEvent `json:"scaleDowns,omitempty"`
}

// Recommendation is what metrics asked for at an instant, before windows and limits.
type Recommendation struct {
	Replicas int32     `json:"replicas"`
	Time     time.Time `json:"time"`
}

// ScaleEvent is a change of the count.
type ScaleEvent struct {
	// Change is above 0 in both directions.
	Change int32     `json:"change"`
	Time   time.Time `json:"time"`
	// Outdated says that the slot may be reused.
	Outdated bool `json:"outdated,omitempty"`
}
