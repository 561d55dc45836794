package replay

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/counterfactual"
	"github.com/setpoint-dev/setpoint/stages"
)

// ClosedLoop is what another spec would have done in place of a recording's own: its counts
// change what it sees next.
type ClosedLoop struct {
	// RecordedSeconds is the time in which the other spec has the recorded count, and sees what
	// was recorded; ModelledSeconds that in which the recorded load is shared by its own pods;
	// UnknownSeconds that in which the load was not measured. Together they are
	// Backtest.CoveredSeconds.
	RecordedSeconds float64 `json:"recordedSeconds"`
	ModelledSeconds float64 `json:"modelledSeconds"`
	UnknownSeconds  float64 `json:"unknownSeconds"`
	// LowerBoundSeconds is the modelled time in which half of the recorded pods or more were at
	// their CPU limit: the load was what was measured or more.
	LowerBoundSeconds float64 `json:"lowerBoundSeconds"`
	// LimitKnown reports whether there are CPU limits, and CPU usage in the recording: else nobody knows.
	LimitKnown bool `json:"limitKnown"`
	// PodsMeasured is how many pods were seen to start, ReadySeconds how long the modelled ones
	// take to be ready.
	PodsMeasured int     `json:"podsMeasured"`
	ReadySeconds float64 `json:"readySeconds"`
	// PodsBefore of these were in scenarios that this one continues.
	PodsBefore int `json:"-"`
	// AsRecorded are the metrics that the count does not change here: Object and External ones.
	AsRecorded []string `json:"asRecorded,omitempty"`
	// Unmade are the steps whose own decision nobody made, by the next count: all that a shadow decides.
	Unmade   int        `json:"unmade,omitempty"`
	Recorded ClosedSide `json:"recorded"`
	Other    ClosedSide `json:"other"`
	// Changes are the first MaxDifferences of the other spec, Changed how many there are.
	Changed int          `json:"changed"`
	Changes []LoopChange `json:"changes"`
}

// ClosedSide is what one spec did in the time that is covered.
type ClosedSide struct {
	// ReplicaHours is the integral of the count.
	ReplicaHours float64 `json:"replicaHours"`
	Least        int32   `json:"least"`
	Most         int32   `json:"most"`
	// Ups and Downs are changes of the count, Reversals those against the one before within ten
	// minutes.
	Ups       int `json:"ups"`
	Downs     int `json:"downs"`
	Reversals int `json:"reversals"`
	// ShortSeconds is the time with more load than the ready pods' CPU limits allow; nil: no
	// limit is known.
	ShortSeconds *float64 `json:"shortSeconds,omitempty"`

	last time.Time
	up   bool
	any  bool
}

// LoopChange is a change of the count.
type LoopChange struct {
	Time   time.Time `json:"time"`
	From   int32     `json:"from"`
	To     int32     `json:"to"`
	Reason string    `json:"reason,omitempty"`
	// Recorded is the count that the recorded spec has after this step.
	Recorded int32 `json:"recorded"`
}

// Assumed is what a recording does not say of its pods. The zero value assumes nothing.
type Assumed struct {
	// CPULimit of a pod in milli-cores, in place of the recorded one. 0: that one.
	CPULimit int64
	// Idle is what a pod uses without load.
	Idle []recommender.ResourceUsage
}

// closedLoop runs a scenario with another spec in a closed loop, which is in to, unless it begins here. own are the answers
// of its own spec; visit is called with each step that is covered, and its outcome.
func closedLoop(ctx context.Context, scenario *recording.Scenario, q *Question, own []*setpointv1.RecommendResponse, to *Continuation, visit func(i int, s *counterfactual.Step, o *counterfactual.Outcome)) (*ClosedLoop, error) {
	c := &ClosedLoop{Changes: []LoopChange{}, PodsBefore: to.meter.Starts().Pods}
	meter := &to.meter
	namespace := ""
	err := inputs(ctx, scenario, q, func(i int, in *recommender.Input, _ stages.Around) error {
		meter.Add(scenario.Steps[i].Time, in)
		if in != nil && namespace == "" {
			namespace = in.Namespace
			c.AsRecorded = asRecorded(&in.Spec)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	starts := meter.Starts()
	if slices.ContainsFunc(scenario.Steps, func(s recording.Step) bool { return s.Sums != nil }) {
		starts.Sampled = min(starts.Sampled, windowOf(scenario))
	}
	c.PodsMeasured, c.ReadySeconds = starts.Pods, starts.Ready.Seconds()
	loop := to.loop
	if loop != nil {
		loop.GoOn(starts)
	} else {
		loop = counterfactual.New(namespace, starts, counterfactual.Options{Idle: q.Assumed.Idle, Modelled: q.Modelled})
	}
	if to.loop == nil || q.Spec == nil { // another spec that goes on has its own history
		if scenario.History != nil {
			loop.Begin(historyOf(scenario.History), nil)
		}
		if before, err := stateOf(scenario); err != nil {
			return nil, err
		} else if before != nil {
			loop.Begin(before.History, keptBy(before))
		}
	}
	to.loop = loop
	after, later := int32(0), counts{steps: scenario.Steps}
	err = inputs(ctx, scenario, q, func(i int, in *recommender.Input, around stages.Around) error {
		recorded := &scenario.Steps[i]
		step := counterfactual.Step{Time: recorded.Time, Input: in, Around: around, Failed: recorded.ScaleUpdateError != "", CPULimit: limitOf(recorded, in, q.Assumed)}
		before := after
		if in != nil && in.ScaleError == nil {
			before, after = in.Scale.SpecReplicas, in.Scale.SpecReplicas
			if answer := own[i]; answer != nil && !step.Failed {
				after = c.cameOf(&later, i, before, answer.GetDesiredReplicas())
			}
		}
		step.After = after
		outcome, err := loop.Step(&step)
		if err != nil {
			return fmt.Errorf("%s: %w", scenario.Name, err)
		}
		if c.take(scenario, i, &step, &outcome, before) {
			visit(i, &step, &outcome)
		}
		return nil
	})
	return c, err
}

// cameOf is the count that came of a step at which the recording's own spec decided one. If nobody said whether that was
// made, the next count shows it, as to the engine. A shadow applies nothing: what its workload had next is what another
// autoscaler made of it. So it is where it was not recorded what was decided.
func (c *ClosedLoop) cameOf(later *counts, i int, count, desired int32) int32 {
	step := &later.steps[i]
	name, _ := target.Parse(step.Request.GetTarget())
	shadow := strings.HasSuffix(name.Target, target.ShadowSuffix)
	if !shadow && !step.Unreported && step.Expect != nil {
		return desired
	}
	next := desired // also of the last step, after which there is no count
	if shadow || step.Expect == nil {
		next = count
	}
	if shown, known := later.after(i); known {
		next = shown
	}
	if next == desired {
		return desired
	}
	// That a workload stops, or goes on, is another writer's doing, with each spec.
	if c.Unmade++; (shadow || step.Expect == nil) && (count == 0) == (next == 0) {
		return next
	}
	return count
}

// counts are those of a scenario's steps, looked up in order: each step is read once, however many have none.
type counts struct {
	steps []recording.Step
	at    int
}

// after is the first count after a step, if there is one.
func (c *counts) after(i int) (count int32, known bool) {
	for c.at = max(c.at, i+1); c.at < len(c.steps); c.at++ {
		if count, known = countAt(&c.steps[c.at]); known {
			return count, true
		}
	}
	return 0, false
}

// countAt is the count at a step, if it could be read.
func countAt(step *recording.Step) (count int32, known bool) {
	switch scale := step.Request.GetScale(); {
	case scale != nil:
		return scale.GetSpecReplicas(), step.Request.GetScaleError() == nil
	case step.Scale != nil:
		return step.Scale.Spec.Replicas, step.ScaleGetError == ""
	}
	return 0, false
}

// inputs hands out what each step of a scenario sees with a question's spec, nil where there is no autoscaler, and what
// is around its decision.
func inputs(ctx context.Context, scenario *recording.Scenario, q *Question, give func(int, *recommender.Input, stages.Around) error) error {
	player := recording.NewPlayer(scenario)
	if q.Spec != nil {
		player = player.WithSpec(q.Spec, q.Stages, q.Options)
	}
	window := windowOf(scenario)
	var rose time.Time // when there were last more pods than before
	pods := math.MaxInt
	for i := range scenario.Steps {
		req, err := player.Request(&scenario.Steps[i], "backtest")
		if err != nil {
			return err
		}
		var in *recommender.Input
		var around stages.Around
		if req != nil {
			step := &scenario.Steps[i]
			if in, around, err = read(req, overridesOf(step), &sums{step.Request, step.Sums}); err != nil {
				return fmt.Errorf("%s, step %d: %w", scenario.Name, i+1, err)
			}
			if in.Sums != nil {
				if in.Sums.Pods > pods {
					rose = step.Time
				}
				pods = in.Sums.Pods
				list(step.Time, rose, window, in)
			}
		}
		if err := give(i, in, around); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// asRecorded are the names of the metrics that stay as they were recorded.
func asRecorded(spec *recommender.Spec) []string {
	var out []string
	for i := range spec.Metrics {
		if m := &spec.Metrics[i]; m.Type == recommender.ObjectMetric || m.Type == recommender.ExternalMetric {
			out = append(out, m.Metric.Name)
		}
	}
	return out
}

// usesCPU reports whether CPU usage was measured: without it a limit says nothing.
func usesCPU(in *recommender.Input) bool {
	for i := range in.PodMetrics {
		for _, c := range in.PodMetrics[i].Containers {
			if slices.ContainsFunc(c.Usage, func(u recommender.ResourceUsage) bool { return u.Resource == string(corev1.ResourceCPU) }) {
				return true
			}
		}
	}
	return false
}

// limitOf is the CPU limit of a pod at a step, 0: unknown. The recording has the pods of the whole
// namespace; those of the autoscaler are the input's.
func limitOf(step *recording.Step, in *recommender.Input, assumed Assumed) int64 {
	if assumed.CPULimit > 0 || in == nil || len(in.Pods) == 0 {
		return assumed.CPULimit
	}
	i := slices.IndexFunc(step.Pods, func(p *corev1.Pod) bool { return p.Name == in.Pods[0].Name })
	if i < 0 {
		return 0
	}
	sum := int64(0)
	for _, c := range step.Pods[i].Spec.Containers {
		limit, ok := c.Resources.Limits[corev1.ResourceCPU]
		if !ok {
			return 0
		}
		sum += limit.MilliValue()
	}
	return sum
}

// take adds a step's outcome, unless no count is known.
func (c *ClosedLoop) take(scenario *recording.Scenario, i int, s *counterfactual.Step, o *counterfactual.Outcome, before int32) bool {
	if o.Source == counterfactual.None {
		return false
	}
	length, _ := standsFor(scenario, i)
	seconds := length.Seconds()
	switch o.Source {
	case counterfactual.Recorded:
		c.RecordedSeconds += seconds
	case counterfactual.Modelled:
		c.ModelledSeconds += seconds
		if o.LowerBound {
			c.LowerBoundSeconds += seconds
		}
	default:
		c.UnknownSeconds += seconds
	}
	if s.CPULimit > 0 && (c.LimitKnown || usesCPU(s.Input)) {
		if c.LimitKnown = true; c.Recorded.ShortSeconds == nil {
			c.Recorded.ShortSeconds, c.Other.ShortSeconds = new(float64), new(float64)
		}
		if o.LowerBound {
			*c.Recorded.ShortSeconds += seconds
		}
		if o.Short {
			*c.Other.ShortSeconds += seconds
		}
	}
	from := o.Decision.Current
	if s.Input.ScaleError != nil {
		// It can't be read, and stays as it was; before it was ever read nobody knows it.
		if from = o.Replicas; !c.Recorded.any {
			return false
		}
	}
	c.Recorded.take(s.Time, before, s.After, length)
	if c.Other.take(s.Time, from, o.Replicas, length); o.Replicas == from {
		return true
	}
	if c.Changed++; len(c.Changes) < MaxDifferences {
		c.Changes = append(c.Changes, LoopChange{Time: s.Time, From: from, To: o.Replicas, Reason: simulation.ReasonOf(&o.Decision), Recorded: s.After})
	}
	return true
}

// take adds a step with the counts before and after it.
func (s *ClosedSide) take(at time.Time, before, after int32, length time.Duration) {
	s.ReplicaHours += float64(float64(after) * length.Hours())
	if !s.any {
		s.Least, s.Most, s.any = after, after, true
	}
	s.Least, s.Most = min(s.Least, after), max(s.Most, after)
	if before == after {
		return
	}
	up := after > before
	if up {
		s.Ups++
	} else {
		s.Downs++
	}
	if !s.last.IsZero() && s.up != up && at.Sub(s.last) <= simulation.ReversalTime {
		s.Reversals++
	}
	s.last, s.up = at, up
}
