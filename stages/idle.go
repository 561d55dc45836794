package stages

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// Idle is when a workload goes to zero.
type Idle struct {
	// Activation are the values that metrics must exceed, in milli-units, by the index of the metric: of all Object
	// and External metrics.
	Activation map[int]int64
	// Cooldown is how long a workload at one replica must be inactive, InitialCooldown the same for a
	// target that has not been active since it was seen first.
	Cooldown, InitialCooldown time.Duration
}

// activeBefore is State.Begun of a target that has been active since it was seen first.
const activeBefore = -1

// idle keeps one replica until the cooldown is over, and at zero lets only activity count.
func (r *run) idle() {
	idle, s := r.plan.Idle, &r.state
	if idle == nil {
		s.InactiveSince, s.AtOneSince, s.Begun = 0, 0, 0
		return
	}
	if r.in.ScaleError != nil {
		return
	}
	now, current := r.now.UnixMilli(), r.in.Scale.SpecReplicas
	if s.Begun == 0 {
		s.Begun = now
	}
	active := false
	for i := range idle.Activation {
		active = active || r.isActive(i)
	}
	switch {
	case active:
		s.InactiveSince, s.Begun = 0, activeBefore
	case s.InactiveSince == 0:
		s.InactiveSince = now
	}
	switch {
	case current != 1:
		s.AtOneSince = 0
	case s.AtOneSince == 0:
		s.AtOneSince = now
	}
	// A schedule or a floor may have raised it.
	if r.in.Spec.MinReplicas != 0 {
		return
	}
	if current == 0 || current == 1 && !active {
		r.onlyActivity()
	}
	if current == 0 {
		return
	}
	wait, since := idle.Cooldown, max(s.InactiveSince, s.AtOneSince)
	if s.Begun != activeBefore {
		wait = idle.InitialCooldown
	}
	zero := since + wait.Milliseconds()
	if current == 1 && !active && now >= zero {
		return
	}
	r.in.Spec.MinReplicas, r.in.OwnMin = 1, &r.original.Spec.MinReplicas
	r.edited = true
	if active {
		return // it proposes one or more
	}
	a := recommender.Adjustment{Stage: recommender.StageIdle, Rule: "cooldown", Before: 0, After: 1}
	if current == 1 {
		a.Until = time.UnixMilli(zero)
		a.Message = fmt.Sprintf("inactive since %s, one replica since %s: zero at %s", clockOf(s.InactiveSince), clockOf(s.AtOneSince), clockOf(zero))
	} else {
		a.Message = fmt.Sprintf("inactive since %s: one replica for %s before zero", clockOf(s.InactiveSince), wait)
	}
	r.tell(a)
}

// clockOf is an instant in a sentence.
func clockOf(milli int64) string { return time.UnixMilli(milli).UTC().Format(time.RFC3339) }

// isActive reports whether a metric is above its activation, or not known.
func (r *run) isActive(index int) bool {
	value, ok := r.total(index)
	return !ok || value > r.plan.Idle.Activation[index]
}

// total returns the value of an Object or External metric, also below 0; ok is false if it fails, or is of pods.
func (r *run) total(index int) (milli int64, ok bool) {
	if index >= len(r.in.Readings) {
		return 0, false
	}
	readings := &r.in.Readings[index]
	if _, ok = readings.Total(&r.in.Spec.Metrics[index], &r.in.Options); !ok {
		return 0, false
	}
	for _, v := range readings.Values {
		if v.Milli > 0 && milli > math.MaxInt64-v.Milli {
			return math.MaxInt64, true
		}
		milli += v.Milli
	}
	return milli, true
}

// onlyActivity has values that are not above their activation count as 0.
func (r *run) onlyActivity() {
	copied := false
	for i := range r.in.Spec.Metrics {
		value, ok := r.total(i)
		if !ok || value == 0 || r.isActive(i) {
			continue
		}
		if !copied {
			r.in.Readings, copied = slices.Clone(r.in.Readings), true
		}
		r.in.Readings[i].Values = []recommender.Value{{}}
		r.edited = true
		a := r.ofMetric(recommender.StageIdle, i)
		a.Rule = "activation"
		a.Message = fmt.Sprintf("%s is %s, not above its activation of %s: it counts as 0", a.Metric, quantity.FormatDecimal(value), quantity.FormatDecimal(r.plan.Idle.Activation[i]))
		r.tell(a)
	}
}
