package recommender

import "time"

// Direction is a direction of change.
type Direction uint8

// The directions.
const (
	NoDirection Direction = iota
	Up
	Down
)

// Stabilization is the effect of the windows on a proposal.
type Stabilization struct {
	// Proposed and Stabilized are the replicas before and after.
	Proposed, Stabilized int32
	// Reason is that of AbleToScale, Message its sentence.
	Reason, Message string
	// Windows are those that applied: the downward one, preceded by the upward one with
	// behavior.
	Windows    [2]Window
	WindowsLen int
	// slot is the slot of the recommendations to reuse, -1 to append; those before
	// obsolete are in no window.
	slot     int
	obsolete int64
}

// Window is the result of searching one stabilization window.
type Window struct {
	Direction Direction
	Length    time.Duration
	// Counted is how many recommendations are in it.
	Counted int32
	// Replicas is the safest of them and of the proposal.
	Replicas int32
	// Held reports whether a recommendation is safer than the proposal. HeldSince is
	// the newest with Replicas, ReleasedAt when that leaves the window, and
	// FullyReleasedAt when the last one safer than the proposal does;
	// nanoseconds since the Unix epoch.
	Held                                   bool
	HeldSince, ReleasedAt, FullyReleasedAt int64
}

// newWindow returns a window that contains only the proposal.
func newWindow(direction Direction, length time.Duration, proposed int32) Window {
	return Window{Direction: direction, Length: length, Replicas: proposed}
}

// count adds a recommendation that leaves the window at the given instant.
func (w *Window) count(r TimedRecommendation, proposed int32, leaves int64) {
	w.Counted++
	if w.Direction == Up && r.Replicas < proposed || w.Direction == Down && r.Replicas > proposed {
		w.hold(r, leaves)
	}
}

// hold adds a recommendation that is safer than the proposal.
func (w *Window) hold(r TimedRecommendation, leaves int64) {
	w.FullyReleasedAt = max(w.FullyReleasedAt, leaves)
	safest := !w.Held || w.Direction == Up && r.Replicas < w.Replicas || w.Direction == Down && r.Replicas > w.Replicas
	if safest || r.Replicas == w.Replicas && r.At > w.HeldSince {
		w.Held, w.Replicas, w.HeldSince, w.ReleasedAt = true, r.Replicas, r.At, leaves
	}
}

// stabilizeWithoutBehavior takes the highest recommendation of the downscale
// window, which may be above the current count. An entry exactly as old as the
// window still counts. Upstream: stabilizeRecommendation.
func stabilizeWithoutBehavior(now int64, h *History, window time.Duration, proposed int32) Stabilization {
	down := newWindow(Down, window, proposed)
	slot := -1
	cutoff := now - int64(window)
	if p := h.Packed; p != nil {
		down.searchPacked(p, cutoff-1, int64(window)+1, proposed)
		slot = obsoletePacked(p, cutoff)
	}
	for i, r := range h.Recommendations {
		if r.At < cutoff {
			slot = i
			continue
		}
		down.count(r, proposed, r.At+int64(window)+1)
	}
	s := Stabilization{Proposed: proposed, Stabilized: down.Replicas, Windows: [2]Window{down}, WindowsLen: 1, slot: slot, obsolete: cutoff}
	s.explain(Down)
	return s
}

// stabilizeWithBehavior stays at the current count unless the lowest
// recommendation of the upward window is above it, or the highest of the
// downward one below. An entry exactly as old as a window does not count.
// Upstream: stabilizeRecommendationWithBehaviors.
func stabilizeWithBehavior(now int64, h *History, upWindow, downWindow time.Duration, current, proposed int32) Stabilization {
	up, down := newWindow(Up, upWindow, proposed), newWindow(Down, downWindow, proposed)
	upCutoff, downCutoff := now-int64(upWindow), now-int64(downWindow)
	slot := -1
	if p := h.Packed; p != nil {
		up.searchPacked(p, upCutoff, int64(upWindow), proposed)
		down.searchPacked(p, downCutoff, int64(downWindow), proposed)
		slot = obsoletePacked(p, min(upCutoff, downCutoff))
	}
	for i, r := range h.Recommendations {
		if r.At > upCutoff {
			up.count(r, proposed, r.At+int64(upWindow))
		}
		if r.At > downCutoff {
			down.count(r, proposed, r.At+int64(downWindow))
		}
		if r.At < upCutoff && r.At < downCutoff {
			slot = i
		}
	}
	stabilized := min(max(current, up.Replicas), down.Replicas)
	s := Stabilization{Proposed: proposed, Stabilized: stabilized, Windows: [2]Window{up, down}, WindowsLen: 2, slot: slot, obsolete: min(upCutoff, downCutoff)}
	if proposed >= current {
		s.explain(Up)
	} else {
		s.explain(Down)
	}
	return s
}

// stabilizeOneSided takes the lowest recommendation of the upward window on the way up,
// and the highest of the downward one on the way down, even if that is on the other
// side of the current count. Upstream: stabilizeRecommendationWithBehaviors up to
// v1.20.
func stabilizeOneSided(now int64, h *History, upWindow, downWindow time.Duration, current, proposed int32) Stabilization {
	direction, length := Up, upWindow
	if proposed < current {
		direction, length = Down, downWindow
	}
	window := newWindow(direction, length, proposed)
	cutoff, obsolete := now-int64(length), now-int64(max(upWindow, downWindow))
	slot := -1
	if p := h.Packed; p != nil {
		window.searchPacked(p, cutoff, int64(length), proposed)
		slot = obsoletePacked(p, obsolete)
	}
	for i, r := range h.Recommendations {
		if r.At > cutoff {
			window.count(r, proposed, r.At+int64(length))
		}
		if r.At < obsolete {
			slot = i
		}
	}
	s := Stabilization{Proposed: proposed, Stabilized: window.Replicas, Windows: [2]Window{window}, WindowsLen: 1, slot: slot, obsolete: obsolete}
	s.explain(direction)
	return s
}

// explain sets the reason; direction is the one that was held back, if any.
func (s *Stabilization) explain(direction Direction) {
	switch {
	case s.Stabilized == s.Proposed:
		s.Reason, s.Message = ReadyForNewScale, "recommended size matches current size"
	case direction == Up:
		s.Reason = ScaleUpStabilized
		s.Message = "recent recommendations were lower than current one, applying the lowest recent recommendation"
	default:
		s.Reason = ScaleDownStabilized
		s.Message = "recent recommendations were higher than current one, applying the highest recent recommendation"
	}
}
