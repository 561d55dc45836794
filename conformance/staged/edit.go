package staged

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	custommetrics "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/conformance/cluster"
	"github.com/setpoint-dev/setpoint/conformance/generate"
)

var zeroQuantity = *resource.NewQuantity(0, resource.DecimalSI)

// input is a step as Setpoint gets it.
type input struct {
	generate.Around
	step recording.Step
	// hpa has the spec in effect; nil: it is deleted.
	hpa *autoscalingv2.HorizontalPodAutoscaler
	// unreadable reports that the scale could not be read.
	unreadable bool
	// overrides are all that were created so far.
	overrides []generate.Override
	// turns are when the count turned before, oldest first.
	turns []time.Time
}

// step is a step as the real controller gets it.
type step struct {
	recording.Step
	// ScaleUpdates are the counts that may be written, see package cluster.
	ScaleUpdates *cluster.Counts `json:"scaleUpdates,omitempty"`

	*input    `json:"-"`
	namespace string
	// of is the index of the input's step, below 0: it is one more reconcile of the step before.
	of int
	// voters are proposals beside the metrics'; caps limit the combined one.
	voters, caps []proposal
	// suspect are the names of metrics whose fall is not believed.
	suspect map[string]bool
	// metrics are those of the spec before any was replaced, evaluated if one-metric runs have told.
	metrics []told
	// replaced reports whether the spec's metrics were.
	replaced bool
	// remembers reports that failing metrics hold the count, which is to be recorded.
	remembers bool
	// reason is that of a combined proposal of fewer replicas; empty: the controller's.
	reason string
	// partial reports that the edited controller told of failing metrics.
	partial bool
	// retained is how many of the failing metrics the spec still has.
	retained int
}

type proposal struct {
	rule     string
	replicas int32
}

// min and max are the bounds of the spec.
func minOf(spec *autoscalingv2.HorizontalPodAutoscalerSpec) int32 {
	if spec.MinReplicas == nil {
		return 1
	}
	return *spec.MinReplicas
}

// editor makes the edits of a scenario.
type editor struct {
	scenario  *recording.Scenario
	inputs    []input
	steps     []step
	calendars map[string]*calendar
	guarded   map[string]*guardedMetric
	resting   resting
	fallen    map[string]*fallenMetric
	// names are what Setpoint calls the metrics that are in the place of others.
	names map[string]string
}

// forget drops what is known of a target that was deleted.
func (e *editor) forget() {
	e.guarded, e.resting, e.fallen = map[string]*guardedMetric{}, resting{}, map[string]*fallenMetric{}
}

// edit makes the edits that come before the metrics are evaluated. An inexpressible one ends the scenario.
func (e *editor) edit() (cut string, err error) {
	e.calendars, e.names = map[string]*calendar{}, map[string]string{}
	e.forget()
	for i := range e.inputs {
		s, err := e.step(i)
		if why, is := errors.AsType[inexpressible](err); is {
			return why.why, nil
		}
		if err != nil {
			return "", err
		}
		e.steps = append(e.steps, s)
	}
	return "", nil
}

func (e *editor) step(i int) (step, error) {
	in := &e.inputs[i]
	s := step{Step: in.step, input: in, namespace: e.scenario.HPA.Namespace, of: i, suspect: map[string]bool{}}
	if in.hpa == nil {
		e.forget()
		return s, nil
	}
	s.HPA = in.hpa.DeepCopy()
	if err := e.bounds(&s); err != nil {
		return s, err
	}
	if err := e.freshness(&s); err != nil {
		return s, err
	}
	if err := e.guards(&s); err != nil {
		return s, err
	}
	return s, e.idle(&s)
}

// bounds moves minReplicas and maxReplicas by the schedules that act at once and the caller's floors, and
// finds the voters and caps of those that are paced.
func (e *editor) bounds(s *step) error {
	now, spec := s.Time, &s.HPA.Spec
	least, most := minOf(spec), spec.MaxReplicas
	type when struct {
		*setpointv1.Schedule
		active      bool
		ended, next time.Time
	}
	var all []when
	for _, schedule := range s.Stages.GetSchedules() {
		if schedule.GetSuspended() {
			continue
		}
		c := e.calendars[schedule.GetName()]
		if c == nil {
			var err error
			if c, err = newCalendar(schedule, e.inputs[0].step.Time); err != nil {
				return err
			}
			e.calendars[schedule.GetName()] = c
		}
		w := when{Schedule: schedule}
		w.active, w.ended, w.next = c.at(now)
		all = append(all, w)
	}
	baseOf := func(isPaced bool) int32 { // a ramp that acts at once leaves out paced minimums
		base := least
		for _, w := range all {
			if w.active && w.MinReplicas != nil && (isPaced || w.GetMinPace() != "PACED") {
				base = max(base, w.GetMinReplicas())
			}
		}
		return min(base, most)
	}
	floor, top, paced := int32(-1), int32(-1), proposal{replicas: -1}
	lower := func(of *int32, to int32) {
		if *of < 0 || to < *of {
			*of = to
		}
	}
	limit := proposal{replicas: -1}
	for _, w := range all {
		isPaced := w.GetMinPace() == "PACED"
		rule := "schedule/" + w.GetName()
		if n, is := minimumAt(now, w.Schedule, w.active, w.ended, w.next, baseOf(isPaced)); is {
			if !isPaced {
				floor = max(floor, n)
			} else if n > paced.replicas {
				paced = proposal{rule, n}
			}
		}
		if w.MaxReplicas == nil || !w.active {
			continue
		}
		if w.GetMaxPace() == "AT_ONCE" {
			lower(&top, w.GetMaxReplicas())
		} else if limit.replicas < 0 || w.GetMaxReplicas() < limit.replicas {
			limit = proposal{rule, w.GetMaxReplicas()}
		}
	}
	if paced.replicas >= 0 {
		s.voters = append(s.voters, paced)
	}
	for _, p := range s.Proposals {
		if !now.Before(p.GetExpireTime().AsTime()) {
			continue
		}
		mine := proposal{"proposal/" + p.GetName(), p.GetReplicas()}
		switch p.GetRole() {
		case "FLOOR":
			floor = max(floor, mine.replicas)
		case "VOTER":
			s.voters = append(s.voters, mine)
		case "CAP":
			if limit.replicas < 0 || mine.replicas < limit.replicas {
				limit = mine
			}
		}
	}
	if floor > least && least < most {
		least = min(floor, most)
		spec.MinReplicas = &least
	}
	if top >= 0 && top < most && least < most {
		spec.MaxReplicas = max(top, least)
	}
	if limit.replicas >= 0 {
		limit.replicas = max(limit.replicas, paced.replicas, least)
		s.caps = append(s.caps, limit)
	}
	return nil
}

// minimumAt is a schedule's minimum, if it has one at that instant; ramps begin and end at base.
func minimumAt(now time.Time, s *setpointv1.Schedule, active bool, ended, next time.Time, base int32) (int32, bool) {
	if s.MinReplicas == nil {
		return 0, false
	}
	full := s.GetMinReplicas()
	if active {
		return full, true
	}
	if full <= base {
		return 0, false
	}
	most, is := int32(0), false
	part := func(of, ramp time.Duration) {
		if of <= 0 || of > ramp {
			return
		}
		share := new(big.Rat).Mul(big.NewRat(int64(full-base), 1), big.NewRat(int64(of), int64(ramp)))
		whole, rest := new(big.Int).QuoRem(share.Num(), share.Denom(), new(big.Int))
		n := base + int32(whole.Int64())
		if rest.Sign() > 0 {
			n++
		}
		most, is = max(most, n), true
	}
	if up := s.GetRampUp().AsDuration(); !next.IsZero() {
		part(up-next.Sub(now), up)
	}
	if down := s.GetRampDown().AsDuration(); !ended.IsZero() {
		part(down-now.Sub(ended), down)
	}
	return most, is
}

// freshness removes samples that are too old, or makes their metric fail.
func (e *editor) freshness(s *step) error {
	f := s.Stages.GetFreshness()
	if f == nil || s.unreadable {
		return nil
	}
	most, ahead := f.GetMaxSampleAge().AsDuration(), 10*time.Second
	if f.GetFutureTolerance() != nil {
		ahead = f.GetFutureTolerance().AsDuration()
	}
	stale := func(taken time.Time) bool {
		age := s.Time.Sub(taken)
		return taken.IsZero() || age > most || -age > ahead
	}
	s.PodMetrics = slices.DeleteFunc(slices.Clone(s.PodMetrics), func(m metricsv1beta1.PodMetrics) bool { return stale(m.Timestamp.Time) })
	read := s.CustomMetrics
	for i := range s.HPA.Spec.Metrics {
		m := &s.HPA.Spec.Metrics[i]
		if m.Pods != nil {
			if err := s.alone(m); err != nil {
				return err
			}
			s.CustomMetrics = slices.DeleteFunc(slices.Clone(s.CustomMetrics), func(v custommetrics.MetricValue) bool {
				return v.Metric.Name == m.Pods.Metric.Name && v.DescribedObject.Kind == "Pod" && stale(v.Timestamp.Time)
			})
		}
		if !isTotal(m) {
			continue
		}
		whole := *s
		whole.CustomMetrics = read
		samples, ok := whole.total(m)
		if !ok {
			continue
		}
		var old []time.Time
		for _, v := range samples {
			if stale(v.taken) {
				old = append(old, v.taken)
			}
		}
		if len(old) == 0 {
			continue
		}
		what, taken := "the newest value", slices.MaxFunc(old, time.Time.Compare)
		if len(old) < len(samples) {
			what, taken = "a value", slices.MinFunc(old, time.Time.Compare)
		} else if len(samples) == 1 && taken.IsZero() {
			what = "the value"
		}
		var text string
		switch age := s.Time.Sub(taken); {
		case taken.IsZero():
			text = what + " has no timestamp"
		case age < 0:
			text = fmt.Sprintf("%s is %s ahead of the clock, more than %s", what, -age, ahead)
		default:
			text = fmt.Sprintf("%s is %s old, more than %s", what, age, most)
		}
		if err := s.fails(m, text); err != nil {
			return err
		}
	}
	return nil
}

// guardedMetric is what a zero guard knows of a metric.
type guardedMetric struct {
	believed *int64
	since    time.Time
}

// guards make metrics fail whose fall is not believed yet.
func (e *editor) guards(s *step) error {
	spec := &s.HPA.Spec
	known := map[string]*guardedMetric{}
	for _, g := range s.Stages.GetZeroGuards() {
		k := e.guarded[g.GetMetric()]
		if k == nil {
			k = &guardedMetric{}
		}
		known[g.GetMetric()] = k
		m := metricNamed(spec, g.GetMetric())
		samples, ok := s.total(m)
		if ok = ok && hasTarget(m) && !s.unreadable; !ok {
			k.since = time.Time{}
			continue
		}
		value, drop := sum(m, samples), int64(g.GetDropPercent())
		if drop == 0 {
			drop = 100
		}
		suspect := false
		if k.believed != nil && *k.believed > 0 {
			line := new(big.Rat).Mul(new(big.Rat).SetInt64(*k.believed), big.NewRat(100-drop, 100))
			suspect = new(big.Rat).SetInt64(value).Cmp(line) <= 0
		}
		milli := time.UnixMilli(s.Time.UnixMilli())
		if suspect && k.since.IsZero() {
			k.since = milli
		}
		confirm := g.GetConfirm().AsDuration()
		if !suspect || milli.Sub(k.since) >= confirm {
			k.believed, k.since = &value, time.Time{}
			continue
		}
		s.suspect[g.GetMetric()] = true
		text := fmt.Sprintf("the value fell from %s to %s at %s; not believed until it has lasted %s (%s)", milliText(*k.believed), milliText(value),
			k.since.UTC().Format("15:04:05Z"), confirm, k.since.UTC().Add(confirm).Format("15:04:05Z"))
		if err := s.fails(m, text); err != nil {
			return err
		}
	}
	e.guarded = known
	return nil
}

func metricNamed(spec *autoscalingv2.HorizontalPodAutoscalerSpec, name string) *autoscalingv2.MetricSpec {
	for i := range spec.Metrics {
		if generate.MetricName(&spec.Metrics[i]) == name {
			return &spec.Metrics[i]
		}
	}
	return nil
}

// resting is since when a workload is idle.
type resting struct {
	inactive, one, begun time.Time
	wasActive            bool
}

// idle keeps one replica until the cooldown is over, and has only activity count at zero.
func (e *editor) idle(s *step) error {
	idle := s.Stages.GetIdle()
	if idle == nil {
		e.resting = resting{}
		return nil
	}
	if s.unreadable {
		return nil
	}
	now := time.UnixMilli(s.Time.UnixMilli())
	r, spec := &e.resting, &s.HPA.Spec
	if r.begun.IsZero() {
		r.begun = now
	}
	value := func(m *autoscalingv2.MetricSpec) (milli int64, ok bool) {
		samples, ok := s.total(m)
		ok = ok && hasTarget(m) // else the controller can't read it
		for _, v := range samples {
			if v.milli > 0 && milli > math.MaxInt64-v.milli {
				return math.MaxInt64, ok
			}
			milli += v.milli
		}
		return milli, ok
	}
	isActive := func(m *autoscalingv2.MetricSpec) bool {
		milli, ok := value(m)
		limit := resource.Quantity{}
		if named := idle.GetActivation()[generate.MetricName(m)]; named != "" {
			limit = resource.MustParse(named)
		}
		return !ok || milli > limit.MilliValue()
	}
	active := false
	for i := range spec.Metrics {
		active = active || isTotal(&spec.Metrics[i]) && isActive(&spec.Metrics[i])
	}
	current := s.Scale.Spec.Replicas
	if r.wasActive = r.wasActive || active; active {
		r.inactive = time.Time{}
	} else if r.inactive.IsZero() {
		r.inactive = now
	}
	if current != 1 {
		r.one = time.Time{}
	} else if r.one.IsZero() {
		r.one = now
	}
	if minOf(spec) > 0 {
		return nil
	}
	wait := 5 * time.Minute
	if idle.GetCooldown() != nil {
		wait = idle.GetCooldown().AsDuration()
	}
	if !r.wasActive && idle.GetInitialCooldown() != nil {
		wait = idle.GetInitialCooldown().AsDuration()
	}
	if current > 0 {
		isDue := current == 1 && !active && now.Sub(r.inactive) >= wait && now.Sub(r.one) >= wait && (r.wasActive || now.Sub(r.begun) >= wait)
		if !isDue {
			one := int32(1)
			spec.MinReplicas = &one
		}
	}
	if current != 0 && (current != 1 || active) {
		return nil
	}
	for i := range spec.Metrics {
		m := &spec.Metrics[i]
		if !isTotal(m) {
			continue
		}
		if milli, ok := value(m); !ok || milli == 0 || isActive(m) {
			continue
		}
		if err := s.becomesZero(m); err != nil {
			return err
		}
	}
	return nil
}
