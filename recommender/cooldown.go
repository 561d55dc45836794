package recommender

import "time"

// reconcileWithCooldown is the controller of v1.6 to v1.11, which starts from the
// observed instead of the desired replicas. Upstream: reconcileAutoscaler of v1.11.
func (d *decider) reconcileWithCooldown() {
	if d.in.ScaleError != nil {
		d.scaleUnavailable(d.in.ScaleError)
		return
	}
	d.countObserved()
	d.setCondition(AbleToScale, ConditionTrue, SucceededGetScale, "the HPA controller was able to get the target's current scale")
	if d.in.Scale.SpecReplicas == 0 {
		d.scalingDisabled()
	} else if !d.enforcedBound() {
		d.followMetricsWithCooldown()
	}
}

// enforcedBound moves a count outside of the bounds, or at zero, into them, and reports whether it did.
func (d *decider) enforcedBound() bool {
	spec := &d.in.Spec
	switch {
	case d.current > spec.MaxReplicas:
		d.enforceBound(PathAboveMax, spec.MaxReplicas, AboveMaxReplicas)
	case d.current < spec.MinReplicas:
		d.enforceBound(PathBelowMin, spec.MinReplicas, BelowMinReplicas)
	case d.current == 0:
		d.enforceBound(PathBelowMin, 1, notAboveZero)
	default:
		return false
	}
	return true
}

// countObserved bases the decision on the observed replicas.
func (d *decider) countObserved() {
	d.current = d.in.Scale.StatusReplicas
	d.decision.Current, d.decision.Desired = d.current, d.current
}

func (d *decider) followMetricsWithCooldown() {
	metrics, statuses, s, ok := d.readMetrics()
	if !ok {
		return
	}
	name := d.winnerName(metrics, s.winner)
	d.setCondition(ScalingActive, ConditionTrue, ValidMetricFound, d.validMetricMessage(name))
	proposal := d.decideFor(&s)
	t := &d.trace
	t.RateLimit, t.Bounds = boundWithoutBehavior(&d.in.Spec, d.current, proposal, d.profile)
	d.warnOfGrowth()
	d.reportBounds()
	read := d.now
	if proposal > 0 && d.in.proposals == nil {
		read = d.readAt(s.winner)
	}
	t.Stabilization = coolDown(&d.in.Options, d.next.Status.LastScaleTime, read, d.current, t.Bounds.Bounded)
	able := ConditionTrue
	if t.Stabilization.Reason != ReadyForNewScale {
		able = ConditionFalse
	}
	d.setCondition(AbleToScale, able, t.Stabilization.Reason, t.Stabilization.Message)
	desired := t.Stabilization.Stabilized
	if desired == d.current {
		d.setStatus(desired, statuses)
		return
	}
	d.rescale(desired, rescaleReason(name, proposal, d.current), statuses)
}

// readAt returns the timestamp of a metric's reading; now if it is unknown.
func (d *decider) readAt(metric int) time.Time {
	var at time.Time
	switch d.in.Spec.Metrics[metric].Type {
	case ResourceMetric, ContainerResourceMetric:
		at = d.in.PodMetrics[0].Timestamp
	default:
		at = d.in.Readings[metric].Timestamp
	}
	if at.IsZero() {
		return d.now
	}
	return at
}

// coolDown keeps the count until a delay has passed between the last change and the
// timestamp of the reading; at exactly the delay it still keeps it.
func coolDown(o *Options, last, read time.Time, current, wanted int32) Stabilization {
	up, down := delays(o, last, read, current)
	s := Stabilization{Proposed: wanted, Stabilized: wanted, WindowsLen: 2, slot: -1}
	s.Windows = [2]Window{up, down}
	if wanted > current && up.Held || wanted < current && down.Held {
		s.Stabilized = current
	}
	switch {
	case up.Held && down.Held:
		s.Reason = BackoffBoth
		s.Message = "the time since the previous scale is still within both the downscale and upscale forbidden windows"
	case down.Held:
		s.Reason, s.Message = BackoffDownscale, "the time since the previous scale is still within the downscale forbidden window"
	case up.Held:
		s.Reason, s.Message = BackoffUpscale, "the time since the previous scale is still within the upscale forbidden window"
	default:
		s.Reason, s.Message = ReadyForNewScale, "the last scale time was sufficiently old as to warrant a new scale"
	}
	return s
}

// delays returns the state of both directions' delays at an instant.
func delays(o *Options, last, at time.Time, current int32) (up, down Window) {
	up, down = newWindow(Up, o.UpscaleDelay, current), newWindow(Down, o.DownscaleDelay, current)
	if !last.IsZero() {
		up.coolDown(last, at)
		down.coolDown(last, at)
	}
	return up, down
}

// coolDown marks the window as holding if the last change is in it.
func (w *Window) coolDown(last, read time.Time) {
	over := last.Add(w.Length)
	if over.Before(read) {
		return
	}
	released := over.UnixNano() + 1
	w.Counted, w.Held, w.HeldSince, w.ReleasedAt, w.FullyReleasedAt = 1, true, last.UnixNano(), released, released
}
