package fleets

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/stages"
)

// overridden are the overrides in force of the member itself.
type overridden struct {
	inForce []stages.Override
	at      time.Time
}

// Reasons of a member's conditions that are the fleet's.
const (
	// FleetUndecided: the fleet has not decided yet.
	FleetUndecided = "FleetUndecided"
	// FleetUnplaced: replicas of the fleet find no member.
	FleetUnplaced = "FleetUnplaced"
)

// respond makes the answer to a member: its share, within the bounds of its own spec, and as overrides of its own
// change it. It names no other member.
func (c *call) respond(next *state, a *fleet.Answer) *setpointv1.RecommendResponse {
	j := c.job
	var d recommender.Decision
	if c.blind {
		d = c.seesNothing(a)
	} else {
		d = c.share(next, a)
	}
	d.Explanation = c.explanation
	if c.decided != nil && c.decided.decision.Error != "" && !c.blind {
		d.Error = failure(next.decisions.Status.Conditions)
	}
	a.Holds = a.Holds && !d.Changes() // its own bounds, or an override, count before the fleet has decided
	response := conversion.Response(&d)
	response.RecommendationId = "" // there is nothing to report: the next call shows the replicas
	response.Fleet = conversion.FleetShare(a)
	if j.RequestID != "" {
		response.RequestId = new(j.RequestID)
	}
	j.Decision = d
	return response
}

// seesNothing is what the controller would say that can't see the scale or the pods: nothing changes.
func (c *call) seesNothing(a *fleet.Answer) recommender.Decision {
	in := c.job.Input
	d, _ := recommender.Recommend(c.job.Now, in, &recommender.History{})
	d.Reason, d.Events, d.Current = "", nil, in.Scale.SpecReplicas
	if in.ScaleError != nil { // it can't be told: the last one that is known
		if d.Current = a.Share; d.Current == 0 && in.PreviousStatus != nil {
			d.Current = max(0, in.PreviousStatus.CurrentReplicas)
		}
	}
	d.Desired, d.Status.CurrentReplicas, d.Status.DesiredReplicas = d.Current, d.Current, d.Current
	return d
}

// input is the member's, with the bounds that its share has: the fleet's operator may empty any member.
func (c *call) input(drained bool) *recommender.Input {
	if !drained {
		return c.job.Input
	}
	in := *c.job.Input
	in.Spec.MinReplicas = 0
	return &in
}

// override is what overrides of the member make of a count. A share has them in its bounds already: that it is the same
// does not say that it would be so without them.
func (c *call) override(in *recommender.Input, replicas int32, conditions []recommender.Condition) (after int32, reason string, with []recommender.Condition, adjusted *recommender.Adjusted) {
	around := stages.Around{Overrides: c.own.inForce, OverridesAt: c.own.at}
	after, reason, with, adjusted = around.Override(c.job.Now, in, in.Scale.SpecReplicas, replicas, conditions)
	for i := range with {
		if said, agrees := strings.CutSuffix(with[i].Message, stages.Agrees); agrees {
			with[i].Message = said + "so its share is that"
		}
	}
	return after, reason, with, adjusted
}

// bounds are those that any share of the member ends in, as far as they count for its fleet: its spec's, and what overrides
// of its own make of these.
func (c *call) bounds(of *fleet.Spec) (least, most int32) {
	in := c.input(of.Drained(c.job.Target))
	own := in.Spec.MinReplicas
	if least, most = own, in.Spec.MaxReplicas; len(c.own.inForce) > 0 {
		least, _, _, _ = c.override(in, least, nil)
		most, _, _, _ = c.override(in, most, nil)
	}
	if least == own {
		least = of.OwnMin(c.job.Target, own)
	}
	return least, most
}

// share makes a decision of a member's share: it has one, for its call tells something.
func (c *call) share(next *state, a *fleet.Answer) recommender.Decision {
	j := c.job
	in, current, text := c.input(a.Drained), j.Input.Scale.SpecReplicas, shareText(a)
	d := recommender.Decision{At: j.Now, Current: current, Desired: a.Share}
	limited := recommender.DesiredWithinRange
	switch own := &in.Spec; {
	case a.Off:
		d.Desired = 0
	case a.Share > own.MaxReplicas:
		d.Desired, limited = own.MaxReplicas, recommender.TooManyReplicas
	case a.Share < own.MinReplicas:
		d.Desired, limited = own.MinReplicas, recommender.TooFewReplicas
	}
	conditions := c.conditions(next, a, limited, text)
	if !a.Off {
		d.Desired, d.Reason, conditions, d.Adjusted = c.override(in, d.Desired, conditions)
		if d.Desired == 0 && c.zeroes(next, a) {
			conditions = append(conditions, c.since(recommender.Condition{Type: recommender.ScaledToZero, Status: recommender.ConditionTrue, Reason: recommender.ScaledToZero, Message: "the HPA controller scaled the workload to zero"}))
		}
	}
	if d.Reason == "" && d.Changes() {
		d.Reason = text
	}
	able := &conditions[0]
	able.Reason, able.Message = recommender.ReadyForNewScale, "recommended size matches current size"
	if d.Changes() {
		able.Reason, able.Message = recommender.SucceededRescale, fmt.Sprintf("the HPA controller was able to update the target scale to %d", d.Desired)
	}
	d.Status = recommender.Status{
		CurrentReplicas: current, DesiredReplicas: d.Desired, Conditions: conditions,
		CurrentMetrics: c.readings(next.decisions.Status.CurrentMetrics),
	}
	if j.Input.HasGeneration {
		d.Status.ObservedGeneration = new(j.Input.Generation)
	}
	if d.Changes() {
		d.Status.LastScaleTime = j.Now
	} else if p := j.Input.PreviousStatus; p != nil {
		d.Status.LastScaleTime = p.LastScaleTime
	}
	return d
}

// readings are those of the last decision, unless the fleet had other metrics then: the member has not asked about these, and
// agents refuse an answer that tells of them.
func (c *call) readings(last []recommender.MetricStatus) []recommender.MetricStatus {
	metrics := c.told.fleet.Engine.Metrics
	for i := range last {
		m := &last[i]
		if i >= len(metrics) {
			return nil
		}
		if of := &metrics[i]; m.Type != "" && (m.Type != of.Type || m.Resource != of.Resource || m.Container != of.Container || m.Metric.Name != of.Metric.Name) {
			return nil
		}
	}
	return last
}

// shareText is the sentence about a share.
func shareText(a *fleet.Answer) string {
	if a.Decided.IsZero() {
		return "the fleet has not decided yet"
	}
	text := fmt.Sprintf("share of fleet: %d of %d", a.Share, a.Total)
	if a.Unplaced > 0 {
		text += fmt.Sprintf("; %d find no place", a.Unplaced)
	}
	return text
}

// conditions are the controller's, AbleToScale first. As from the controller, there is no ScalingActive after a decision that
// looked at no metric, because the fleet was out of its bounds.
func (c *call) conditions(next *state, a *fleet.Answer, limited recommender.LimitReason, text string) []recommender.Condition {
	began := time.Unix(0, next.fleet.Began).UTC()
	told := []recommender.Condition{{Type: recommender.AbleToScale, Status: recommender.ConditionTrue, LastTransitionTime: began}}
	of := next.decisions.Status.Conditions
	switch i := slices.IndexFunc(of, isActive); {
	case a.Off:
		told = append(told, c.since(recommender.Condition{Type: recommender.ScalingActive, Status: recommender.ConditionFalse, Reason: recommender.ScalingDisabled, Message: "scaling is disabled since the replica count of the target is zero"}))
	case i >= 0:
		active := of[i]
		if active.Status != recommender.ConditionTrue && active.Reason != recommender.ScalingDisabled {
			active.Message = failure(of)
		}
		told = append(told, active)
	case a.Decided.IsZero():
		told = append(told, recommender.Condition{Type: recommender.ScalingActive, Status: recommender.ConditionUnknown, Reason: FleetUndecided, Message: "the fleet has not decided yet", LastTransitionTime: began})
	}
	scaling := recommender.Condition{Type: recommender.ScalingLimited, Status: recommender.ConditionFalse, Reason: string(limited), Message: text}
	switch {
	case limited != recommender.DesiredWithinRange:
		scaling.Status, scaling.Message = recommender.ConditionTrue, limited.Message()+"; "+text
	case a.Unplaced > 0:
		scaling.Status, scaling.Reason = recommender.ConditionTrue, FleetUnplaced
	}
	return append(told, c.since(scaling))
}

// zeroes reports whether a share of 0 is the fleet's: not while it has not decided, unless it was so before, and not that of
// a fleet that somebody switched off.
func (c *call) zeroes(next *state, a *fleet.Answer) bool {
	if a.Decided.IsZero() {
		return c.zeroed()
	}
	i := slices.IndexFunc(next.decisions.Status.Conditions, isActive)
	return i < 0 || next.decisions.Status.Conditions[i].Reason != recommender.ScalingDisabled
}

func isActive(c recommender.Condition) bool { return c.Type == recommender.ScalingActive }

// failure is what members learn of a fleet's failure under these conditions, whoever asks: what it says itself may name
// pods of other members.
func failure(of []recommender.Condition) string {
	for _, c := range of {
		if isActive(c) && c.Status != recommender.ConditionTrue {
			return "the fleet could not compute its count: " + c.Reason + seeFleet
		}
	}
	return "the fleet could not compute its count from all metrics" + seeFleet
}

const seeFleet = "; who may read the fleet sees why with GetFleet"

// since sets since when a condition is as it is, as far as the caller knows.
func (c *call) since(now recommender.Condition) recommender.Condition {
	now.LastTransitionTime = c.job.Now
	if p := c.job.Input.PreviousStatus; p != nil {
		for i := range p.Conditions {
			if was := &p.Conditions[i]; was.Type == now.Type && was.Status == now.Status {
				now.LastTransitionTime = was.LastTransitionTime
			}
		}
	}
	return now
}

// stored tells of a call that was stored: the decision, shares and states that it changed.
func (c *call) stored(k *known, next *state, a *fleet.Answer) {
	log := c.options.Decisions
	if c.decided != nil {
		d := &c.decided.decision // which was taken into the state
		if d.Desired -= next.fleet.Unplaced; !d.Changes() {
			d.Reason = ""
		} else {
			c.options.Log.Info("fleet scaled", zap.String("fleet", c.key.String()), zap.Int32("from", d.Current), zap.Int32("to", d.Desired),
				zap.String("reason", apierror.ClipMarked(d.Reason)), zap.Stringer("recommendation", d.ID))
		}
		if moved := c.membersOf(k, next); moved != "" {
			d.Reason = strings.TrimPrefix(d.Reason+"; "+moved, "; ")
		}
		log.Append(c.key, log.Shared(nil, c.key, d, k.state.shared(), k.spec.hash)...)
		c.metrics.decided(d)
		if single := c.targets.Metrics.Targets; single != nil {
			single.Decided(c.key, d, next.decisions.Interval, next.decisions.TurnTimes(), nil)
		}
	}
	// An override that keeps the member from a change begins or ends, and so changes its bounds, although it is told the same.
	// What the member was told at its last call of whether the fleet computes anything is not so any more: it decides by now, or
	// its metrics fail.
	turned, told := int64(0), false
	if i := slices.IndexFunc(next.decisions.Status.Conditions, isActive); i >= 0 {
		turned = next.decisions.Status.Conditions[i].LastTransitionTime.UnixNano()
	}
	for i := range next.fleet.Members { // which are the spec's, in its order
		now := &next.fleet.Members[i]
		was := k.state.fleet.Member(i, now.Key)
		if was == nil {
			was = &fleet.MemberRecord{}
		}
		c.moved(k.spec.fleet.Members[i].Name, was, now)
		if k.spec.fleet.Members[i].Name == c.job.Target {
			told = now.HasShare && (!was.HasShare || was.Answered != now.Answered || was.Seen < turned || !was.SameBounds(now))
		}
	}
	if c.blind || !told {
		return
	}
	d := c.job.Decision
	d.ID = c.job.Input.ID
	log.Append(c.job.Key, decisionlog.OfShare(&d, c.job.SpecHash))
	if d.Changes() {
		c.options.Log.Info("share of a fleet changed", zap.String("target", c.job.Target), zap.Int32("from", d.Current), zap.Int32("to", d.Desired), zap.Int32("share", a.Share))
	}
}

// membersOf says which members the decision did without, or counted, for the first time, if it found another count than the
// one before has left.
func (c *call) membersOf(k *known, next *state) string {
	if last := &k.state.shared().Last; last.At == 0 || last.To == c.decided.decision.Current {
		return ""
	}
	var said []string
	for i := range next.fleet.Members {
		now := &next.fleet.Members[i]
		if what := now.Moved(k.state.fleet.Member(i, now.Key)); what != "" {
			said = append(said, "member "+what+": "+k.spec.fleet.Members[i].Name)
		}
	}
	return apierror.ClipMarked(strings.Join(said, "; "))
}

// moved logs and counts a member that became lost, or returned.
func (c *call) moved(name string, was, now *fleet.MemberRecord) {
	if was.Gone == now.Gone {
		return
	}
	fields := []zap.Field{zap.String("fleet", c.key.String()), zap.String("member", name), zap.Time("lastCall", time.Unix(0, was.Seen)), zap.Int32("share", now.Share)}
	if now.Gone {
		c.metrics.lost.Inc()
		c.options.Log.Warn("member of a fleet lost", fields...)
		return
	}
	c.metrics.returned.Inc()
	c.options.Log.Info("member of a fleet returned", fields...)
}
