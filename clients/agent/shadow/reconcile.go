package shadow

import "time"

// Reconcile is what both sides wanted at an instant.
type Reconcile struct {
	// At is the instant; reconciles of an object arrive in the order of time.
	At time.Time
	// Period is the longer period of the two sides. Above 0.
	Period time.Duration
	// Ours is the shadow's side, Theirs that of the controller in charge.
	Ours, Theirs Side
}

// Side is what one side wanted, and why.
type Side struct {
	// Replicas is the wanted count. It is meaningless without an opinion.
	Replicas int32 `json:"replicas"`
	// NoOpinion is why the side wanted no count, for example an unreadable metric. Empty: it
	// wanted one.
	NoOpinion string `json:"noOpinion,omitempty"`
	// Conditions by type: status and reason, for example "True ReadyForNewScale". Empty:
	// unknown.
	Conditions map[string]string `json:"conditions,omitempty"`
	// Metrics are the readings, for example "cpu 63%". Empty: unknown.
	Metrics []string `json:"metrics,omitempty"`
	// Limits are the windows, policies and bounds that held the count: sentences without their
	// full stop. Empty: none did, or unknown.
	Limits []string `json:"limits,omitempty"`
}

// patience is how long a difference may last as a matter of timing: two periods, and half a one,
// because reconciles are not exactly a period apart.
func (r *Reconcile) patience() time.Duration { return 2*r.Period + r.Period/2 }

// gap is the difference in replicas.
func (r *Reconcile) gap() int32 {
	d := r.Ours.Replicas - r.Theirs.Replicas
	if d < 0 {
		return -d
	}
	return d
}

// noOpinion is why the sides can't be compared, "" if they can.
func (r *Reconcile) noOpinion() string {
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

// due reports whether the reconcile can be judged.
func (r *Reconcile) due(now time.Time) bool { return now.Sub(r.At) > r.patience() }

// settledBy reports whether a later reconcile shows that a difference was a matter of timing:
// one side has reached the other's count, or both the same.
func (r *Reconcile) settledBy(later *Reconcile) bool {
	if later.At.Sub(r.At) > r.patience() {
		return false
	}
	return later.Ours.Replicas == later.Theirs.Replicas ||
		later.Ours.Replicas == r.Theirs.Replicas || later.Theirs.Replicas == r.Ours.Replicas
}
