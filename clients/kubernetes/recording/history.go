package recording

import (
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// History is the target's history before the first step of a scenario, as far as later
// decisions depend on it, besides the autoscaler's status.
type History struct {
	// Recommendations, in the order of the controller's slots.
	Recommendations []Recommendation `json:"recommendations,omitempty"`
	// ScaleUps and ScaleDowns are the applied ones, in the order of the controller's slots.
	ScaleUps   []ScaleEvent `json:"scaleUps,omitempty"`
	ScaleDowns []ScaleEvent `json:"scaleDowns,omitempty"`
}

// Recommendation is the metrics' recommendation at an instant, before windows and limits.
type Recommendation struct {
	Replicas int32     `json:"replicas"`
	Time     time.Time `json:"time"`
}

// ScaleEvent is a change of the count.
type ScaleEvent struct {
	// Change is above 0 in both directions.
	Change int32     `json:"change"`
	Time   time.Time `json:"time"`
	// Outdated reports whether the slot may be reused.
	Outdated bool `json:"outdated,omitempty"`
}

// HistoryOf converts the service's history of a target.
func HistoryOf(h *setpointv1.History) *History {
	out := &History{ScaleUps: eventsOf(h.GetScaleUps()), ScaleDowns: eventsOf(h.GetScaleDowns())}
	for _, r := range h.GetRecommendations() {
		out.Recommendations = append(out.Recommendations, Recommendation{Replicas: r.GetReplicas(), Time: r.GetTime().AsTime()})
	}
	return out
}

func eventsOf(events []*setpointv1.ScaleEvent) []ScaleEvent {
	var out []ScaleEvent
	for _, e := range events {
		out = append(out, ScaleEvent{Change: e.GetReplicaChange(), Time: e.GetTime().AsTime(), Outdated: e.GetOutdated()})
	}
	return out
}
