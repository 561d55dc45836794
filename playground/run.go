package playground

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/explain"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/report"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
)

// MaxPoints bounds the points of a series: in longer runs a point stands for several steps.
const MaxPoints = 6000

// runAnswer is the result of all specs, or of all rules of a fleet.
type runAnswer struct {
	// Start is the start in seconds of Unix time, Seconds the length.
	Start   float64 `json:"start"`
	Seconds float64 `json:"seconds"`
	// Zone is the scenario's time zone, for people.
	Zone string `json:"zone"`
	// Steps is the number of evaluations; each point stands for Stride of them.
	Steps  int `json:"steps"`
	Stride int `json:"stride"`
	// At is the time of each point in seconds since the start, Load the rate then.
	At   []float64 `json:"at"`
	Load []float64 `json:"load"`
	Runs []oneRun  `json:"runs"`
	// Rows are the figures in words, side by side.
	Rows []report.Row `json:"rows"`
	// Fleet reports whether the runs are rules of a fleet, by one spec.
	Fleet bool `json:"fleet,omitempty"`
	// Recorded is the count that there really was; absent: not known.
	Recorded *recordedCount `json:"recorded,omitempty"`
	// LeftOut is how many samples of the recorded load have no value, or NaN.
	LeftOut int `json:"leftOut,omitempty"`
	// Covered is the part of the time of which the recorded load has samples, between which there are straight lines;
	// absent: nearly all, or the load is not recorded.
	Covered *float64 `json:"covered,omitempty"`
	// Unfit says that the recorded load does not fit the spec.
	Unfit *unfit `json:"unfit,omitempty"`
}

// recordedCount is the recorded count, by points; null: not recorded then.
type recordedCount struct {
	Counts       []*float64 `json:"counts"`
	Least        float64    `json:"least"`
	Most         float64    `json:"most"`
	ReplicaHours float64    `json:"replicaHours"`
	// Same is the share of the recorded time in which each run has the same count.
	Same []float64 `json:"same"`
}

// unfit is a recorded load that never asks for more than the minimum of the first spec, or nearly
// always for more than ten times its maximum: its unit may not be that of the usage per load.
type unfit struct {
	// Load asks for so many replicas: the highest load, or one that half of the points exceed.
	Load     float64 `json:"load"`
	Replicas float64 `json:"replicas"`
	// Bound is the minimum or the maximum.
	Bound int32 `json:"bound"`
	Few   bool  `json:"few"`
}

// oneRun is the result of one spec, or of one rule. Series have a value for each point.
type oneRun struct {
	Name string `json:"name"`
	// Capacity of the ready pods; null: unlimited.
	Capacity []*float64 `json:"capacity"`
	Queued   []float64  `json:"queued,omitempty"`
	Replicas []int32    `json:"replicas"`
	Ready    []int32    `json:"ready"`
	Needed   []int32    `json:"needed"`
	// Proposal is the count that the metrics ask for; null: none. Held is the count after the windows.
	Proposal []*int32 `json:"proposal"`
	Held     []*int32 `json:"held"`
	// Causes say what decided each step, as indexes of CauseNames.
	Causes     []int    `json:"causes"`
	CauseNames []string `json:"causeNames"`
	// Metrics have the usage ratios; 1: on target, null: not computed.
	Metrics []metricSeries `json:"metrics"`
	Actions []action       `json:"actions"`
}

type metricSeries struct {
	Name  string     `json:"name"`
	Ratio []*float64 `json:"ratio"`
	// Proposal is the count that the metric asks for; null: none. Absent if it is the only metric.
	Proposal []*int32 `json:"proposal,omitempty"`
}

// action is a change of the count.
type action struct {
	Step   int     `json:"step"`
	At     float64 `json:"at"`
	From   int32   `json:"from"`
	To     int32   `json:"to"`
	Load   float64 `json:"load"`
	Cause  string  `json:"cause"`
	Reason string  `json:"reason"`
}

func (a *asked) simulate() answer {
	s := a.scenario
	if len(a.specs) == 0 {
		a.refuse("question", "there is no spec")
		return answer{Problems: a.problems}
	}
	period := s.Loop.SyncPeriod
	steps := int((s.Duration + period - 1) / period)
	out := &runAnswer{
		Start: float64(s.Start.UnixMilli()) / 1000, Seconds: s.Duration.Seconds(), Zone: s.Start.Location().String(),
		Stride: max(1, (steps+MaxPoints-1)/MaxPoints), At: []float64{}, Load: []float64{}, Fleet: s.Fleet != nil,
	}
	all := &report.Report{Name: "playground", Scenario: s}
	count := &counter{series: a.count, period: period, stride: out.Stride}
	for i := range a.columns {
		column := &a.columns[i]
		run := oneRun{Name: column.Name, Actions: []action{}, CauseNames: []string{}}
		g := &gatherer{out: out, run: &run, first: i == 0, causes: map[simulation.Cause]int{}, stride: out.Stride, metricsOf: column.Autoscaler.Spec.Metrics}
		if s.Fleet != nil && column.Rule == simulation.Karmada {
			g.metricsOf = nil // it compares something of its own
		}
		count.begin()
		result, err := column.Run(context.Background(), s, simulation.Limits{Actions: true}, func(s *simulation.Step) error {
			count.add(s)
			return g.add(s)
		})
		if err != nil {
			a.note(a.specOf(i).name, err)
			continue
		}
		out.Steps = result.Steps
		for _, act := range result.Actions {
			run.Actions = append(run.Actions, action{
				Step: int((act.At - s.Loop.Offset) / period), At: act.At.Seconds(), From: act.From, To: act.To, Load: act.Load, Cause: string(act.Cause), Reason: act.Reason,
			})
		}
		out.Runs = append(out.Runs, run)
		all.Runs = append(all.Runs, report.Run{Name: column.Name, Result: result})
	}
	if len(a.problems) > 0 {
		return answer{Problems: a.problems}
	}
	out.Rows = report.Rows(all)
	out.Recorded, out.LeftOut, out.Covered = count.answer(), a.leftOut, a.covered
	if a.files {
		out.Unfit = a.unfit(out.Load)
	}
	return answer{Run: out}
}

// counter compares the runs with the recorded count.
type counter struct {
	series *scenario.Series
	period time.Duration
	stride int
	out    recordedCount
	// steps of the run, how many of them have a recorded count, and how many that count.
	steps, known, same int
}

// begin begins the next run.
func (c *counter) begin() {
	c.steps, c.known, c.same = 0, 0, 0
	c.out.Counts, c.out.ReplicaHours = []*float64{}, 0
	c.out.Same = append(c.out.Same, 0)
}

func (c *counter) add(s *simulation.Step) {
	if c.series == nil {
		return
	}
	count, ok := c.series.At(s.Time)
	if c.steps%c.stride == 0 {
		c.out.Counts = append(c.out.Counts, nil)
		if ok {
			c.out.Counts[len(c.out.Counts)-1] = new(round(count))
		}
	}
	if c.steps++; !ok {
		return
	}
	if c.known++; math.Abs(count-float64(s.Replicas)) < 0.5 {
		c.same++
	}
	if c.known == 1 && len(c.out.Same) == 1 {
		c.out.Least = count
	}
	c.out.Least, c.out.Most = min(c.out.Least, count), max(c.out.Most, count)
	c.out.ReplicaHours += float64(count * c.period.Hours())
	c.out.Same[len(c.out.Same)-1] = round(float64(c.same) / float64(c.known))
}

func (c *counter) answer() *recordedCount {
	if c.known == 0 {
		return nil
	}
	c.out.Least, c.out.Most, c.out.ReplicaHours = round(c.out.Least), round(c.out.Most), round(c.out.ReplicaHours)
	return &c.out
}

// unfit compares the load of all points with the bounds of the first spec.
func (a *asked) unfit(load []float64) *unfit {
	spec := a.specs[0].autoscaler
	of := func(load float64, bound int32, few bool) *unfit {
		return &unfit{load, round(simulation.Wanted(a.scenario, spec, load)), bound, few}
	}
	sorted := slices.Sorted(slices.Values(load))
	if least := max(1, spec.Spec.MinReplicas); len(sorted) > 0 {
		if few := of(sorted[len(sorted)-1], least, true); few.Replicas > 0 && few.Replicas <= float64(least) {
			return few
		}
		if many := of(sorted[len(sorted)/2], spec.Spec.MaxReplicas, false); many.Replicas > 10*float64(many.Bound) {
			return many
		}
	}
	return nil
}

// gatherer collects the steps of a run.
type gatherer struct {
	out    *runAnswer
	run    *oneRun
	first  bool
	stride int
	step   int
	causes map[simulation.Cause]int
	queued bool
	// metricsOf are the metrics of the spec; none: they are not shown.
	metricsOf []recommender.MetricSpec
}

func (g *gatherer) add(s *simulation.Step) error {
	step := g.step
	g.step++
	if step%g.stride != 0 {
		if n := len(g.out.Load) - 1; g.first && n >= 0 {
			g.out.Load[n] = max(g.out.Load[n], s.Load) // no peak is lost
		}
		return nil
	}
	if g.first {
		g.out.At, g.out.Load = append(g.out.At, s.At.Seconds()), append(g.out.Load, round(s.Load))
	}
	r := g.run
	var capacity *float64
	if !math.IsInf(s.Capacity, 1) {
		capacity = new(round(s.Capacity))
	}
	var proposal, held *int32
	if s.Proposal >= 0 {
		proposal = new(s.Proposal)
		held = new(s.Decision.Explanation.Stabilization.Stabilized)
	}
	cause, known := g.causes[s.Cause]
	if !known {
		cause = len(r.CauseNames)
		g.causes[s.Cause] = cause
		r.CauseNames = append(r.CauseNames, string(s.Cause))
	}
	r.Capacity, r.Replicas, r.Ready, r.Needed = append(r.Capacity, capacity), append(r.Replicas, s.Replicas), append(r.Ready, s.Ready), append(r.Needed, s.Needed)
	r.Proposal, r.Held, r.Causes = append(r.Proposal, proposal), append(r.Held, held), append(r.Causes, cause)
	g.queue(s)
	g.metrics(s)
	return nil
}

// queue notes the waiting load, from the first step with any.
func (g *gatherer) queue(s *simulation.Step) {
	if !g.queued && s.Queued > 0 {
		g.queued = true
		g.run.Queued = make([]float64, len(g.run.Replicas)-1, cap(g.run.Replicas))
	}
	if g.queued {
		g.run.Queued = append(g.run.Queued, round(s.Queued))
	}
}

func (g *gatherer) metrics(s *simulation.Step) {
	e := s.Decision.Explanation
	if e == nil {
		for i := range g.run.Metrics {
			g.run.Metrics[i].Ratio = append(g.run.Metrics[i].Ratio, nil)
			g.propose(i, nil)
		}
		return
	}
	for i := range g.metricsOf {
		if i == len(g.run.Metrics) {
			m := metricSeries{Name: g.metricsOf[i].Name(), Ratio: make([]*float64, len(g.run.Replicas)-1)}
			if len(g.metricsOf) > 1 {
				m.Proposal = make([]*int32, len(g.run.Replicas)-1)
			}
			g.run.Metrics = append(g.run.Metrics, m)
		}
		var ratio *float64
		if i < len(e.Metrics) && e.Metrics[i].Compared && !math.IsInf(e.Metrics[i].UsageRatio, 0) && !math.IsNaN(e.Metrics[i].UsageRatio) {
			ratio = new(round(e.Metrics[i].UsageRatio))
		}
		g.run.Metrics[i].Ratio = append(g.run.Metrics[i].Ratio, ratio)
		var proposal *int32
		if i < len(e.Metrics) && e.Metrics[i].Failure == nil && e.Decided {
			proposal = new(e.Metrics[i].Proposal)
		}
		g.propose(i, proposal)
	}
}

// propose notes the proposal of one of several metrics.
func (g *gatherer) propose(i int, proposal *int32) {
	if m := &g.run.Metrics[i]; len(g.metricsOf) > 1 {
		m.Proposal = append(m.Proposal, proposal)
	}
}

// round keeps the digits that a plot can show, a third of the text.
func round(f float64) float64 {
	if f == 0 || math.IsInf(f, 0) {
		return f
	}
	scale := math.Pow10(5 - int(math.Ceil(math.Log10(math.Abs(f)))))
	if math.IsInf(scale, 0) || scale == 0 {
		return f
	}
	return math.Round(f*scale) / scale
}

// stepAnswer explains a step.
type stepAnswer struct {
	At      float64 `json:"at"`
	Summary string  `json:"summary"`
	Text    string  `json:"text"`
}

// errFound ends a run at the requested step.
var errFound = errors.New("found")

func (a *asked) step(q *Question) answer {
	if q.Spec < 0 || q.Spec >= len(a.columns) {
		a.refuse("question", "there is no such spec")
		return answer{Problems: a.problems}
	}
	spec, n := a.specOf(q.Spec), 0
	var out *stepAnswer
	_, err := a.columns[q.Spec].Run(context.Background(), a.scenario, simulation.Limits{}, func(s *simulation.Step) error {
		if n++; n-1 < q.Step {
			return nil
		}
		scale := recommender.Scale{SpecReplicas: s.Replicas, StatusReplicas: s.Ready} // of a fleet
		if s.Input != nil {
			scale = s.Input.Scale
		}
		resp := conversion.Response(s.Decision)
		req := &setpointv1.RecommendRequest{
			Target: "clusters/playground/namespaces/" + spec.namespace + "/targets/" + workloadName(spec), Spec: spec.message, Options: spec.options,
			Scale: &setpointv1.Scale{SpecReplicas: scale.SpecReplicas, StatusReplicas: &scale.StatusReplicas},
		}
		var text strings.Builder
		if err := explain.Write(&text, req, resp, explain.Options{Width: 92, Zone: a.scenario.Start.Location()}); err != nil {
			return err
		}
		out = &stepAnswer{At: s.At.Seconds(), Summary: explain.Summary(resp), Text: text.String()}
		return errFound
	})
	switch {
	case out != nil:
		return answer{Step: out}
	case err != nil:
		a.note(spec.name, err)
	default:
		a.refuse("question", "there is no such step")
	}
	return answer{Problems: a.problems}
}

// workloadName is the name of the workload, else of the autoscaler.
func workloadName(s *spec) string {
	return cmp.Or(s.autoscaler.Spec.ScaleTargetRef.Name, s.object, "web")
}
