package shadow

import "time"

// Round is what both sides wanted at an instant.
type Round struct {
	// At is the instant; reconciles of an object come in the order of time.
	At time.Time
	// Period is the time between reconciles, of the one of both that has fewer. Above 0.
	Period time.Duration
	// Ours is the shadow's side, Theirs that of the controller in charge.
	Ours, Theirs Side
}

// Side is what one of both wanted, and why.
type Side struct {
	// Replicas that were wanted. They say nothing where there is no opinion.
	Replicas int32 `json:"replicas"`
	// NoOpinion is why no count was wanted, for example a metric that could not be
	// read. Empty: one was.
	NoOpinion string `json:"noOpinion,omitempty"`
	// Conditions by their type: status and reason, for example "True ReadyForNewScale".
	// Empty: not known.
	Conditions map[string]string `json:"conditions,omitempty"`
	// Metrics are the values that were read, for example "cpu 63%". Empty: not known.
	Metrics []string `json:"metrics,omitempty"`
	// Limits are what held the count: windows, policies, bounds. Sentences without
	// their stop. Empty: nothing did, or not known.
	Limits []string `json:"limits,omitempty"`
}

// patience is how many periods a difference may last that is one of timing.
const patience = 2

// gap is by how many replicas the two differ.
func (r *Round) gap() int32 {
	d := r.Ours.Replicas - r.Theirs.Replicas
	if d < 0 {
		return -d
	}
	return d
}

// noOpinion is why there is nothing to compare, "" if there is.
func (r *Round) noOpinion() string {
	switch ours, theirs := r.Ours.NoOpinion, r.Theirs.NoOpinion; {
	case ours != "" && ours == theirs:
		return "here and there: " + ours
	case ours != "" && theirs != "":
		return "here: " + ours + "; there: " + theirs
	case ours != "":
		return "here: " + ours
	case theirs != "":
		return "there: " + theirs
	}
	return ""
}

// due reports whether the reconcile can be judged by now.
func (r *Round) due(now time.Time) bool { return now.Sub(r.At) > patience*r.Period }

// settledBy reports whether a later reconcile shows that a difference was one of timing: one
// of both has come to where the other was, or both to the same.
func (r *Round) settledBy(later *Round) bool {
	if later.At.Sub(r.At) > patience*r.Period {
		return false
	}
	return later.Ours.Replicas == later.Theirs.Replicas ||
		later.Ours.Replicas == r.Theirs.Replicas || later.Theirs.Replicas == r.Ours.Replicas
}
