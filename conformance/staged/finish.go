package staged

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/conformance/cluster"
	"github.com/setpoint-dev/setpoint/conformance/generate"
)

// becomes is what guards and overrides make of a decided count; by is the override that made it, if one did.
func (s *step) becomes(decided int32) (n int32, by *generate.Override) {
	current := s.Scale.Spec.Replicas
	n = decided
	if n < current && current <= s.HPA.Spec.MaxReplicas && s.turnedTooOften() {
		n = current
	}
	return s.overridden(n)
}

// turnedTooOften counts, for each turn, those in the period before it.
func (s *step) turnedTooOften() bool {
	b := s.Stages.GetGuards().GetReversals()
	if b == nil {
		return false
	}
	hold := 10 * time.Minute
	if b.GetHold() != nil {
		hold = b.GetHold().AsDuration()
	}
	for _, at := range s.turns {
		n := 0
		for _, other := range s.turns {
			if !other.After(at) && at.Sub(other) < b.GetPeriod().AsDuration() {
				n++
			}
		}
		if n > int(b.GetCount()) && s.Time.Before(at.Add(hold)) {
			return true
		}
	}
	return false
}

// inForce are the overrides that count now: the most specific first, of one level the newest.
func (s *step) inForce() []generate.Override {
	var out []generate.Override
	for _, o := range s.overrides {
		if !s.Time.Before(o.GetStartTime().AsTime()) && s.Time.Before(o.GetExpireTime().AsTime()) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b generate.Override) int {
		return cmp.Or(b.Level-a.Level, b.GetCreateTime().AsTime().Compare(a.GetCreateTime().AsTime()), strings.Compare(a.GetName(), b.GetName()))
	})
	return out
}

// overridden applies the overrides to a count.
func (s *step) overridden(decided int32) (int32, *generate.Override) {
	all, current := s.inForce(), s.Scale.Spec.Replicas
	floor, ceiling := int32(-1), int32(-1)
	var pin, raised, lowered *generate.Override
	for i := range all {
		o := &all[i]
		if o.GetHold() {
			return current, o
		}
		if o.Pin != nil && pin == nil {
			pin = o
		}
		if o.Floor != nil && o.GetFloor() > floor {
			floor, raised = o.GetFloor(), o
		}
		if o.Ceiling != nil && (ceiling < 0 || o.GetCeiling() < ceiling) {
			ceiling, lowered = o.GetCeiling(), o
		}
	}
	if ceiling >= 0 && floor > ceiling {
		return current, raised
	}
	n, by := decided, (*generate.Override)(nil)
	if pin != nil {
		n, by = pin.GetPin(), pin
	}
	if n < floor {
		n, by = floor, raised
	}
	if ceiling >= 0 && n > ceiling {
		n, by = ceiling, lowered
	}
	if by != nil && n != current {
		n = min(max(n, minOf(&s.hpa.Spec)), s.hpa.Spec.MaxReplicas)
	}
	for i := range all {
		if o := &all[i]; o.GetNoScaleDown() && n < current || o.GetNoScaleUp() && n > current {
			return current, o
		}
	}
	return n, by
}

// limit has the scale's updates fail that guards and overrides prevent.
func (s *step) limit() {
	if s.hpa == nil || s.unreadable || s.Stages.GetGuards().GetReversals() == nil && len(s.inForce()) == 0 {
		return
	}
	may := cluster.Counts{Least: math.MaxInt32, Most: -1}
	current, most := s.Scale.Spec.Replicas, s.hpa.Spec.MaxReplicas
	// Between two of these numbers all counts are allowed, or none.
	ends := []int32{0, current, minOf(&s.hpa.Spec), most}
	for _, o := range s.inForce() {
		ends = append(ends, o.GetPin(), o.GetFloor(), o.GetCeiling())
	}
	for _, end := range ends {
		for _, n := range []int32{max(end, 1) - 1, end, min(end, math.MaxInt32-1) + 1} {
			if after, _ := s.becomes(n); after == n && n != current && n <= most {
				may.Least, may.Most = min(may.Least, n), max(may.Most, n)
			}
		}
	}
	s.ScaleUpdates = &may
}

// shown is what Setpoint's status shows, where the edited controller's shows something else from a step on.
type shown struct {
	conditions map[string]recording.Condition
	// parted reports whether the two have differed.
	parted  bool
	desired int32
	metrics []autoscalingv2.MetricStatus
	// zeroGone reports that a change has removed ScaledToZero, which these scenarios never set.
	zeroGone bool
}

// newShown is what the status shows before a scenario.
func newShown(status *autoscalingv2.HorizontalPodAutoscalerStatus) *shown {
	v := &shown{conditions: map[string]recording.Condition{}, desired: status.DesiredReplicas, metrics: status.CurrentMetrics}
	for _, c := range status.Conditions {
		v.condition(recording.Condition{
			Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: recording.Text{Value: c.Message},
			LastTransitionTime: recording.Instant{Known: true, Time: c.LastTransitionTime.Time},
		})
	}
	return v
}

func (v *shown) condition(c recording.Condition) { v.conditions[c.Type] = c }

// expected turns the outcomes of the edited controller into those of Setpoint. What it changes is in
// Differences, and counted.
func (e *editor) expected(expects []recording.Expect, count func(difference string)) []recording.Expect {
	var out []recording.Expect
	v := newShown(&e.scenario.HPA.Status)
	for i := range expects {
		s := &e.steps[i]
		if s.of < 0 {
			v.parted = true
			count(Remembered)
			continue
		}
		if s.hpa == nil {
			v = newShown(&autoscalingv2.HorizontalPodAutoscalerStatus{})
			out = append(out, expects[i])
			continue
		}
		expect := expects[i]
		s.partial = slices.ContainsFunc(expect.Events, func(event recording.Event) bool {
			return event.Type == "Warning" && event.Reason != "FailedRescale"
		})
		expect.Conditions, expect.Events = slices.Clone(expect.Conditions), slices.Clone(expect.Events)
		e.renamed(s, &expect, count)
		s.reread(&expect, v, count)
		isChanged := s.finished(&expect, v, count)
		s.part(&expect, v, isChanged)
		out = append(out, expect)
	}
	return out
}

func (e *editor) renamed(s *step, expect *recording.Expect, count func(string)) {
	is := e.named(&expect.Error)
	for i := range expect.Conditions {
		is = e.named(&expect.Conditions[i].Message) || is
	}
	for i := range expect.Events {
		text := &expect.Events[i].Message
		if is = e.named(text) || is; s.reason != "" {
			text.Value = strings.ReplaceAll(text.Value, "All metrics below target", s.reason)
		}
	}
	if is {
		count(Renamed)
	}
}

// reread puts what the one-metric runs say of the spec's metrics in the place of what is said of others.
func (s *step) reread(e *recording.Expect, v *shown, count func(string)) {
	defer func() { v.metrics = e.CurrentMetrics }()
	if s.unreadable { // nothing was read, and they stay
		e.CurrentMetrics = v.metrics
	}
	if !s.replaced {
		return
	}
	count(Read)
	var failures []recording.Event
	e.CurrentMetrics = make([]autoscalingv2.MetricStatus, len(s.metrics))
	for i := range s.metrics {
		if t := &s.metrics[i]; t.failed != nil {
			failures = append(failures, *t.failed)
		} else {
			e.CurrentMetrics[i] = t.status
		}
	}
	e.Events = append(failures, e.Events[min(s.retained, len(e.Events)):]...)
}

// attempted is the count that the controller wrote, or tried to write.
func attempted(e *recording.Expect) (n int32, at int, ok bool) {
	if e.Scaled {
		return e.ScaledTo, -1, true
	}
	for i, event := range e.Events {
		if text, found := strings.CutPrefix(event.Message.Value, "New size: "); found && event.Reason == "FailedRescale" {
			number, _, _ := strings.Cut(text, ";")
			if n, err := strconv.Atoi(number); err == nil {
				return int32(n), i, true
			}
		}
	}
	return 0, -1, false
}

// finished applies guards and overrides to the outcome, and reports whether they change it.
func (s *step) finished(e *recording.Expect, v *shown, count func(string)) bool {
	if s.ScaleUpdates == nil || s.disabled(e) {
		return false
	}
	current := s.Scale.Spec.Replicas
	decided, event, tried := attempted(e)
	if !tried {
		decided = current
	}
	final, by := s.becomes(decided)
	if final == decided {
		return false
	}
	v.parted = true
	if event >= 0 {
		e.Events = slices.Delete(e.Events, event, event+1)
		// Where some metrics fail, the controller would have returned that in the place of the failed update.
		e.Error = recording.Text{Undetermined: s.partial}
	}
	e.DesiredReplicas, e.Scaled = current, false
	able := func(status, reason, message string) {
		for i := range e.Conditions {
			if c := &e.Conditions[i]; c.Type == "AbleToScale" {
				c.Status, c.Reason, c.Message = status, reason, recording.Text{Value: message}
			}
		}
	}
	if final == current {
		count(Held)
		able("True", anyReason, "")
		return true
	}
	count(Replaced)
	reason := fmt.Sprintf("Overridden (%s): %s", by.GetName(), by.GetReason())
	sentence := fmt.Sprintf("New size: %d; reason: %s", final, reason)
	if wrong := s.ScaleUpdateError; wrong != "" {
		ref := s.HPA.Spec.ScaleTargetRef
		e.DesiredReplicas = v.desired
		e.Events = append(e.Events, recording.Event{Type: "Warning", Reason: "FailedRescale", Message: recording.Text{Value: sentence + "; error: " + wrong}})
		e.Error = recording.Text{Value: fmt.Sprintf("failed to rescale %s/%s/%s: %s", ref.Kind, s.namespace, ref.Name, wrong)}
		able("False", "FailedUpdateScale", "the HPA controller was unable to update the target scale: "+wrong)
		return true
	}
	v.zeroGone = true
	e.DesiredReplicas, e.Scaled, e.ScaledTo = final, true, final
	e.Events = append(e.Events, recording.Event{Type: "Normal", Reason: "SuccessfulRescale", Message: recording.Text{Value: sentence}})
	able("True", "SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", final))
	return true
}

// anyReason stands for the reason of a condition that the failed update has overwritten.
const anyReason = "any"

// disabled reports whether the controller leaves the workload alone. The condition stays where a bound is
// enforced later.
func (s *step) disabled(e *recording.Expect) bool {
	return s.Scale.Spec.Replicas == 0 && slices.ContainsFunc(e.Conditions, func(c recording.Condition) bool { return c.Type == "ScalingActive" && c.Reason == "ScalingDisabled" })
}

// part keeps what Setpoint shows apart from what the edited controller has gone on to show.
func (s *step) part(e *recording.Expect, v *shown, isChanged bool) {
	defer func() {
		for _, c := range e.Conditions {
			v.condition(c)
		}
		v.desired = e.DesiredReplicas
	}()
	if !v.parted {
		return
	}
	if kept(e) && !isChanged {
		e.DesiredReplicas = v.desired
	}
	now := recording.Instant{Known: true, Time: s.Time}
	if v.zeroGone {
		e.Conditions = slices.DeleteFunc(e.Conditions, func(c recording.Condition) bool { return c.Type == "ScaledToZero" })
	}
	conditions := e.Conditions[:0]
	evaluated := s.evaluates()
	failing := false
	for _, event := range e.Events {
		failing = failing || event.Reason == "FailedComputeMetricsReplicas"
	}
	for _, c := range e.Conditions {
		before, was := v.conditions[c.Type]
		isSet := true
		switch c.Type {
		case "ScalingActive":
			isSet = !s.unreadable && (evaluated || s.Scale.Spec.Replicas == 0)
		case "ScalingLimited":
			isSet = !s.unreadable && (evaluated || s.Scale.Spec.Replicas == 0 && !s.disabled(e)) && !failing
		case "AbleToScale":
			if !s.unreadable && c.Status == "False" && was { // it was True for a moment
				before, was = recording.Condition{}, false
			}
		default:
			conditions = append(conditions, c)
			continue
		}
		switch {
		case !isSet && !was:
			continue
		case !isSet:
			c = before
		case was && before.Status == c.Status:
			c.LastTransitionTime = before.LastTransitionTime
		default:
			c.LastTransitionTime = now
		}
		conditions = append(conditions, c)
	}
	e.Conditions = conditions
}

// kept reports whether an outcome keeps the desired replicas of the one before.
func kept(e *recording.Expect) bool {
	return slices.ContainsFunc(e.Events, func(event recording.Event) bool {
		return event.Type == "Warning" && (event.Reason == "FailedComputeMetricsReplicas" || event.Reason == "FailedGetScale" || event.Reason == "FailedRescale")
	})
}
