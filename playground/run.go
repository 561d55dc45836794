package playground

import (
	"errors"
	"math"
	"strings"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/explain"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/simulate"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/simulation"
)

// MaxPoints bounds the points of a series: of longer runs a point stands for several steps.
const MaxPoints = 6000

// runAnswer is what came of all specs.
type runAnswer struct {
	// Start is the instant of the start, seconds of Unix time; Seconds the length.
	Start   float64 `json:"start"`
	Seconds float64 `json:"seconds"`
	// Zone is the scenario's time zone, for people.
	Zone string `json:"zone"`
	// Steps is how many evaluations there are, each point stands for Stride of them.
	Steps  int `json:"steps"`
	Stride int `json:"stride"`
	// At are the seconds since the start, and Load is the rate then.
	At   []float64 `json:"at"`
	Load []float64 `json:"load"`
	Runs []oneRun  `json:"runs"`
	// Rows are the figures in words, side by side.
	Rows []simulate.Row `json:"rows"`
}

// oneRun is what came of one spec. Series have a value for each of At.
type oneRun struct {
	Name string `json:"name"`
	// Capacity of the ready pods, null: any load.
	Capacity []*float64 `json:"capacity"`
	Queued   []float64  `json:"queued,omitempty"`
	Replicas []int32    `json:"replicas"`
	Ready    []int32    `json:"ready"`
	Needed   []int32    `json:"needed"`
	// Proposal is what metrics ask for, null: nothing; Held is what windows made of it.
	Proposal []*int32 `json:"proposal"`
	Held     []*int32 `json:"held"`
	// Causes are what decided, as numbers of CauseNames.
	Causes     []int    `json:"causes"`
	CauseNames []string `json:"causeNames"`
	// Metrics are the usage ratios, 1: on target; null: not computed.
	Metrics []metricSeries `json:"metrics"`
	Actions []action       `json:"actions"`
}

type metricSeries struct {
	Name  string     `json:"name"`
	Ratio []*float64 `json:"ratio"`
	// Proposal is what the metric asks for, null: nothing. Left out where it is the only metric.
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
	if period == 0 {
		period = simulation.DefaultPeriod
	}
	steps := int((s.Duration + period - 1) / period)
	out := &runAnswer{
		Start: float64(s.Start.UnixMilli()) / 1000, Seconds: s.Duration.Seconds(), Zone: s.Start.Location().String(),
		Stride: max(1, (steps+MaxPoints-1)/MaxPoints), At: []float64{}, Load: []float64{},
	}
	report := &simulate.Report{Name: "playground", Scenario: s}
	for i, spec := range a.specs {
		run := oneRun{Name: spec.name, Actions: []action{}, CauseNames: []string{}}
		g := &gatherer{out: out, run: &run, first: i == 0, causes: map[simulation.Cause]int{}, stride: out.Stride, several: len(spec.autoscaler.Spec.Metrics)}
		result, err := simulation.Run(s, spec.autoscaler, g.add)
		if err != nil {
			a.note(spec.name, err)
			continue
		}
		out.Steps = result.Steps
		for i, act := range result.Actions {
			run.Actions = append(run.Actions, action{
				Step: g.changes[i], At: act.At.Seconds(), From: act.From, To: act.To, Load: act.Load, Cause: string(act.Cause), Reason: act.Reason,
			})
		}
		out.Runs = append(out.Runs, run)
		report.Runs = append(report.Runs, simulate.Run{Name: spec.name, Result: result})
	}
	if len(a.problems) > 0 {
		return answer{Problems: a.problems}
	}
	out.Rows = simulate.Rows(report)
	return answer{Run: out}
}

// gatherer takes the steps of a run in.
type gatherer struct {
	out    *runAnswer
	run    *oneRun
	first  bool
	stride int
	step   int
	causes map[simulation.Cause]int
	// changes are the steps that change the count.
	changes []int
	queued  bool
	// several is how many metrics the spec has.
	several int
}

func (g *gatherer) add(s *simulation.Step) error {
	step := g.step
	g.step++
	if s.Decision.Changes() {
		g.changes = append(g.changes, step)
	}
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

// queue notes what waits, from the first step on at which anything does.
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
	for i := range s.Input.Spec.Metrics {
		if i == len(g.run.Metrics) {
			m := metricSeries{Name: s.Input.Spec.Metrics[i].Name(), Ratio: make([]*float64, len(g.run.Replicas)-1)}
			if g.several > 1 {
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

// propose notes what one of several metrics asks for.
func (g *gatherer) propose(i int, proposal *int32) {
	if m := &g.run.Metrics[i]; g.several > 1 {
		m.Proposal = append(m.Proposal, proposal)
	}
}

// round leaves of a number what a plot can show, which is a third as long.
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

// errFound ends a run at the step that was asked for.
var errFound = errors.New("found")

func (a *asked) step(q *Question) answer {
	if q.Spec < 0 || q.Spec >= len(a.specs) {
		a.refuse("question", "there is no such spec")
		return answer{Problems: a.problems}
	}
	spec, n := a.specs[q.Spec], 0
	var out *stepAnswer
	_, err := simulation.Run(a.scenario, spec.autoscaler, func(s *simulation.Step) error {
		if n++; n-1 < q.Step {
			return nil
		}
		resp := conversion.Response(s.Decision)
		req := &setpointv1.RecommendRequest{
			Target: "clusters/playground/namespaces/" + spec.namespace + "/targets/" + nameOr(s.Input, spec.object), Spec: spec.message, Options: spec.options,
			Scale: &setpointv1.Scale{SpecReplicas: s.Input.Scale.SpecReplicas, StatusReplicas: &s.Input.Scale.StatusReplicas},
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

// nameOr is the workload's name, or that of the autoscaler.
func nameOr(in *recommender.Input, orElse string) string {
	if in.Spec.ScaleTargetRef.Name != "" {
		return in.Spec.ScaleTargetRef.Name
	}
	if orElse != "" {
		return orElse
	}
	return "web"
}
