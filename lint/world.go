package lint

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
)

// mostWork bounds one run of a scenario, in simulation.MaxWork's unit: some seconds. A rule runs
// it twice at most.
const mostWork = simulation.MaxWork / 10

// worldOf is a subject's scenario, at its controller's pace, with pods that are ready no sooner than their probes allow.
func worldOf(of *Subject) *simulation.Scenario {
	if of.Scenario == nil {
		return nil
	}
	world := *of.Scenario
	_ = world.PacedBy(of.Autoscaler) // one has one period
	if of.Workload != nil {
		s := &world.Workload.Startup
		s.From = max(s.From, of.Workload.ReadyAfter)
		if s.Kind != simulation.FixedStartup {
			s.To = max(s.To, s.From)
		}
	}
	return &world
}

// ContainersOf are the containers of a simulated workload's pods.
func ContainersOf(w *simulation.Workload) (all []Container) {
	amounts := func(of []recommender.ResourceUsage) map[string]int64 {
		out := make(map[string]int64, len(of))
		for _, one := range of {
			out[one.Resource] = one.Milli
		}
		return out
	}
	for _, c := range w.Containers {
		all = append(all, Container{Name: c.Name, Requests: amounts(c.Requests), Limits: amounts(c.Limits)})
	}
	return all
}

// play runs a scenario. Nil: it can't be run, or observe has seen enough, and said errStop.
func (s *subject) play(world *simulation.Scenario, a *simulation.Autoscaler, observe func(*simulation.Step) error) *simulation.Result {
	if s.err != nil {
		return nil
	}
	result, err := simulation.RunWithin(s.ctx, world, a, simulation.Limits{Work: mostWork}, observe)
	if err != nil && !errors.Is(err, errStop) {
		s.err = err
	}
	if err != nil {
		return nil
	}
	return result
}

// startupOf is how long pods take from their creation to readiness: the least, or the median of
// times that have one.
func startupOf(w *simulation.Workload) time.Duration { return w.SchedulingDelay + w.Startup.From }

// outrun is a rise of the load to twice what it was within the start-up of a pod.
type outrun struct {
	from, to time.Duration // to is when it had doubled
	low      float64
	high     float64
	short    bool
}

// startupAboveDoubling looks for rises that double the load before a pod is ready, and for what
// becomes of them.
func startupAboveDoubling(s *subject) {
	if s.Scenario == nil {
		return
	}
	startup := startupOf(&s.Scenario.Workload)
	if startup == 0 {
		return
	}
	type instant struct {
		at   time.Duration
		load float64
	}
	// least are the evaluations within a start-up whose load none after them is below, so that the
	// first one has the least of all.
	var least []instant
	var rises []outrun
	until := time.Duration(-1)
	result := s.play(s.Scenario, s.Autoscaler, func(step *simulation.Step) error {
		for len(least) > 0 && least[0].at < step.At-startup {
			least = least[1:]
		}
		for len(least) > 0 && least[len(least)-1].load >= step.Load {
			least = least[:len(least)-1]
		}
		least = append(least, instant{step.At, step.Load})
		if low := least[0]; low.load > 0 && step.Load >= 2*low.load && step.Needed > step.Ready && step.At > until {
			// The latest instant of half the load is when the doubling began.
			for _, i := range least {
				if 2*i.load <= step.Load {
					low = i
				}
			}
			rises = append(rises, outrun{from: low.at, to: step.At, low: low.load, high: step.Load})
			until = step.At + startup
		}
		if n := len(rises); n > 0 && step.At <= until && step.Load > step.Capacity {
			rises[n-1].short = true
		}
		return nil
	})
	if result == nil || len(rises) == 0 || slices.ContainsFunc(rises, func(r outrun) bool { return !r.short }) {
		return
	}
	fastest := slices.MinFunc(rises, func(a, b outrun) int { return int((a.to - a.from) - (b.to - b.from)) })
	s.report("spec.minReplicas", fmt.Sprintf("pods take %s to be ready, and the load doubles within %s: short of capacity at %d of %d such rises", span(startup), span(fastest.to-fastest.from), len(rises), len(rises)),
		fmt.Sprintf("load %s → %s from %s to %s after the start, start-up %s; short for %s in all", decimals(fastest.low), decimals(fastest.high),
			span(fastest.from), span(fastest.to), span(startup), span(result.Figures.ShortTime)))
}

// startCountsAsLoad compares the scenario with one in which pods use no more while they warm up.
func startCountsAsLoad(s *subject) {
	if s.Scenario == nil || s.Scenario.Workload.Warmup == 0 {
		return
	}
	for i := range s.spec.Metrics {
		m := &s.spec.Metrics[i]
		if m.Resource != "cpu" {
			continue
		}
		u := slices.IndexFunc(s.Scenario.Workload.Usage, func(u simulation.Usage) bool { return u.Metric == m.Resource })
		if u < 0 || s.Scenario.Workload.Usage[u].Warmup == 0 {
			continue
		}
		cold := *s.Scenario
		cold.Workload.Warmup = 0
		with, without := s.play(s.Scenario, s.Autoscaler, nil), s.play(&cold, s.Autoscaler, nil)
		if with == nil || without == nil || with.Figures.Most <= without.Figures.Most && with.Figures.ReplicaHours <= 1.01*without.Figures.ReplicaHours {
			return
		}
		s.report(fmt.Sprintf("spec.metrics[%d]", i), fmt.Sprintf("what pods use while they start brings more pods: up to %d in place of %d", with.Figures.Most, without.Figures.Most),
			fmt.Sprintf("%sm more for %s after the start, ready after %s, cpuInitializationPeriod %s: %s replica-hours in place of %s",
				decimals(s.Scenario.Workload.Usage[u].Warmup), span(s.Scenario.Workload.Warmup), span(startupOf(&s.Scenario.Workload)), span(s.options.CPUInitializationPeriod),
				decimals(with.Figures.ReplicaHours), decimals(without.Figures.ReplicaHours)))
		return
	}
}

// surgeCountsAsLoad rolls the workload out in the middle of the scenario, as its Deployment says.
func surgeCountsAsLoad(s *subject) {
	if s.Scenario == nil || s.Workload == nil || s.spec.ScaleTargetRef.Kind != "Deployment" || s.Workload.Surge == "0" {
		return
	}
	at := s.Scenario.Duration / 2
	plain := *s.Scenario
	plain.Events = slices.DeleteFunc(slices.Clone(plain.Events), func(e simulation.Event) bool { return e.Kind == simulation.Rollout })
	// The highest counts from the rollout on, until the pods of it have long been ready.
	until := at + 30*time.Minute + 2*startupOf(&plain.Workload)
	var current int32
	most := func(world *simulation.Scenario) (highest int32, ran bool) {
		result := s.play(world, s.Autoscaler, func(step *simulation.Step) error {
			if step.At < at {
				current = step.Replicas
			} else if step.At <= until {
				highest = max(highest, step.Decision.Desired)
			}
			return nil
		})
		return highest, result != nil
	}
	without, ran := most(&plain)
	if !ran || current == 0 {
		return
	}
	surge, text := shareOf(s.Workload.Surge, current)
	rolled := plain
	rolled.Events = append(slices.Clone(plain.Events), simulation.Event{At: at, Kind: simulation.Rollout, Surge: surge})
	slices.SortStableFunc(rolled.Events, func(a, b simulation.Event) int { return int(a.At/time.Millisecond) - int(b.At/time.Millisecond) })
	with, ran := most(&rolled)
	if !ran || with <= without {
		return
	}
	s.report("spec.scaleTargetRef", fmt.Sprintf("a rollout brings up to %d replicas in place of %d", with, without),
		fmt.Sprintf("maxSurge %s of %d replicas = %d pods more, %s after the start of the scenario, each with what it uses while it starts and without load", text, current, surge, span(at)))
}

// shareOf is how many pods a count or a percentage is of a count: rounded up, as the Deployment and
// the disruption controllers do; empty: 25 %, a Deployment's maxSurge.
func shareOf(text string, of int32) (count int32, shown string) {
	text = cmp.Or(text, "25%")
	if percent, is := strings.CutSuffix(text, "%"); is {
		p, _ := strconv.ParseInt(percent, 10, 32) // as Kubernetes: whole numbers only
		return int32(min(math.Ceil(float64(max(0, p))/100*float64(of)), simulation.MaxPods)), percent + " %"
	}
	n, _ := strconv.ParseInt(text, 10, 32)
	return int32(min(max(0, n), simulation.MaxPods)), text
}

// oneMetricDecides looks whether one of several metrics asks for the most at every evaluation.
func oneMetricDecides(s *subject) {
	if s.Scenario == nil || len(s.spec.Metrics) < 2 {
		return
	}
	most := make([]int32, len(s.spec.Metrics)) // the largest proposals
	decides := make([]bool, len(s.spec.Metrics))
	for i := range decides {
		decides[i] = true
	}
	evaluations := 0
	result := s.play(s.Scenario, s.Autoscaler, func(step *simulation.Step) error {
		e := step.Decision.Explanation
		if e == nil || !e.Decided || slices.ContainsFunc(e.Metrics, func(m recommender.MetricEvaluation) bool { return m.Failure != nil }) {
			return nil
		}
		evaluations++
		for i := range e.Metrics {
			most[i] = max(most[i], e.Metrics[i].Proposal)
			decides[i] = decides[i] && e.Metrics[i].Proposal == e.Proposal
		}
		return nil
	})
	winner := slices.Index(decides, true)
	if result == nil || evaluations == 0 || winner < 0 || slices.Contains(decides[winner+1:], true) {
		return // several say the same
	}
	var others []string
	for i := range most {
		if i != winner {
			others = append(others, fmt.Sprintf("%s at most %d", metricName(&s.spec.Metrics[i]), most[i]))
		}
	}
	s.report(fmt.Sprintf("spec.metrics[%d]", winner), fmt.Sprintf("%s alone decides in this scenario", metricName(&s.spec.Metrics[winner])),
		fmt.Sprintf("it asks for the most replicas at each of %d evaluations, at most %d; %s", evaluations, most[winner], strings.Join(others, ", ")))
}

func metricName(m *recommender.MetricSpec) string {
	if m.Resource != "" {
		return m.Resource
	}
	return m.Metric.Name
}

// windowAboveRhythm looks whether the scale-down window keeps the count where a scenario without it
// would have it fall again and again.
func windowAboveRhythm(s *subject) {
	if s.Scenario == nil {
		return
	}
	a := *s.Autoscaler
	window := a.Options.DownscaleStabilization
	if b := a.Spec.Behavior; b != nil && b.ScaleDown.SelectPolicy == recommender.NoSelection {
		return
	} else if b != nil && b.ScaleDown.StabilizationWindowSeconds != nil {
		window = time.Duration(*b.ScaleDown.StabilizationWindowSeconds) * time.Second
		without, zero := *b, int32(0)
		without.ScaleDown.StabilizationWindowSeconds = &zero
		a.Spec.Behavior = &without
	} else {
		a.Options.DownscaleStabilization = time.Nanosecond
	}
	if window == 0 {
		return
	}
	// The longest time for which fewer replicas would have done, not counting the last one: it
	// goes on after the scenario.
	longest, since := time.Duration(0), time.Duration(-1)
	with := s.play(s.Scenario, s.Autoscaler, func(step *simulation.Step) error {
		switch fewer := step.Proposal >= 0 && step.Proposal < step.Replicas; {
		case fewer && since < 0:
			since = step.At
		case !fewer && since >= 0:
			longest, since = max(longest, step.At-since), -1
		}
		return nil
	})
	if with == nil || with.Figures.Downs > 0 || longest == 0 {
		return
	}
	without := s.play(s.Scenario, &a, nil)
	if without == nil || without.Figures.Downs < 2 || without.Figures.ReplicaHours >= with.Figures.ReplicaHours {
		return
	}
	s.report("spec.behavior.scaleDown.stabilizationWindowSeconds", fmt.Sprintf("the count never falls: the load is back before %s have passed", span(window)),
		fmt.Sprintf("fewer replicas would do for %s at a time, window %s: no scale-down, %s replica-hours; without the window %d scale-downs, %s replica-hours",
			span(longest), span(window), decimals(with.Figures.ReplicaHours), without.Figures.Downs, decimals(without.Figures.ReplicaHours)))
}

// idleHolds looks how far the count falls without any load.
func idleHolds(s *subject) {
	if s.Scenario == nil || s.spec.MinReplicas == s.spec.MaxReplicas || s.neverDown() {
		return
	}
	nothing, err := simulation.Constant(0)
	if err != nil {
		return
	}
	world := *s.Scenario
	from := min(s.spec.MaxReplicas, max(s.spec.MinReplicas+1, 20))
	world.Load, world.Events, world.Duration, world.Workload.Replicas = nothing, nil, 6*time.Hour, &from
	count, since := from, time.Duration(0)
	var ratio float64
	var by int
	result := s.play(&world, s.Autoscaler, func(step *simulation.Step) error {
		if step.Replicas != count {
			count, since = step.Replicas, step.At
		}
		if e := step.Decision.Explanation; e != nil && e.Winner >= 0 && e.Metrics[e.Winner].Compared {
			by, ratio = e.Winner, e.Metrics[e.Winner].UsageRatio
		}
		return nil
	})
	if result == nil || count <= max(1, s.spec.MinReplicas) || ratio == 0 || world.Duration-since < time.Hour || count == from && from < s.spec.MaxReplicas && ratio > 1 {
		return
	}
	s.report(fmt.Sprintf("spec.metrics[%d]", by), fmt.Sprintf("without load the count stays at %d, above minReplicas %d", count, s.spec.MinReplicas),
		fmt.Sprintf("%s of pods without load is %s of the target: %d × %s = %s, rounded up; within ± %s of the target nothing changes",
			metricName(&s.spec.Metrics[by]), percentOf(ratio), count, decimals(ratio), decimals(float64(count)*ratio), asWritten(s.tolerance(recommender.Down))))
}

// zeroForGood looks whether a count that fell to 0 rises again: by the policies, and once the scenario's highest load comes.
func zeroForGood(s *subject) {
	if b := s.spec.Behavior; s.spec.MinReplicas != 0 || b != nil && b.ScaleUp.SelectPolicy == recommender.NoSelection {
		return
	}
	if s.stuckAtZero() {
		var allow []string
		for _, p := range s.spec.Behavior.ScaleUp.Policies {
			allow = append(allow, fmt.Sprintf("%s %d allows %s", p.Type, p.Value, decimals(direction{}.allowed(p, 0))))
		}
		s.report("spec.behavior.scaleUp.policies", "once the count is 0 no load brings a replica",
			fmt.Sprintf("of 0 replicas %s; %s counts", strings.Join(allow, ", "), s.spec.Behavior.ScaleUp.SelectPolicy))
		return
	}
	if s.Scenario == nil {
		return
	}
	highest := 0.0
	for _, p := range s.Scenario.Load.Points() {
		highest = max(highest, p.Value)
	}
	const back = 3 * time.Hour // no window is longer than an hour
	load, err := simulation.Jump(0, highest, back)
	if err != nil || highest == 0 {
		return
	}
	one := int32(1)
	world := *s.Scenario
	world.Load, world.Events, world.Duration, world.Workload.Replicas = load, nil, back+2*time.Hour, &one
	zero, up := false, false
	result := s.play(&world, s.Autoscaler, func(step *simulation.Step) error {
		if step.At < back {
			zero = step.Replicas == 0
			return nil
		}
		if up = step.Decision.Desired > 0; up || !zero {
			return errStop
		}
		return nil
	})
	if result == nil || up || !zero {
		return
	}
	var names []string
	for i := range s.spec.Metrics {
		names = append(names, metricName(&s.spec.Metrics[i])+" of 0 pods = 0")
	}
	s.report("spec.minReplicas", "once the count is 0 no load brings a replica",
		fmt.Sprintf("%s, at a load of %s for %s", strings.Join(names, ", "), decimals(highest), span(world.Duration-back)))
}

// What a pod without any load may well use: percent of a target that half of is a tenth, and CPU in
// milli-units.
const (
	idleShare = 20
	idleCPU   = 10
)

// idleAlone reports whether half of a target is so little that an idle pod may use it.
func (s *subject) idleAlone(m *recommender.MetricSpec, percent int32) bool {
	if s.Workload == nil {
		return false
	}
	request, _, without, _ := s.amounts(m)
	return len(without) == 0 && request > 0 && request*int64(percent)/200 <= idleCPU
}

// smallCounts shows from what load on a small count falls no further.
func smallCounts(s *subject) {
	if s.spec.MinReplicas != 1 || s.spec.MaxReplicas < 2 || s.Behavior && s.spec.Behavior.ScaleDown.SelectPolicy == recommender.NoSelection {
		return
	}
	tolerance := s.tolerance(recommender.Down)
	if tolerance >= 1 {
		return
	}
	s.utilizations(func(at string, m *recommender.MetricSpec, percent int32) {
		if percent > idleShare && (m.Resource != "cpu" || !s.idleAlone(m, percent)) {
			return
		}
		var parts []string
		for n := int32(2); n <= min(s.spec.MaxReplicas, 5); n++ {
			share := min(float64(n-1)/float64(n), 1-tolerance)
			parts = append(parts, fmt.Sprintf("%d → %d at %s %%", n, n-1, decimals(float64(percent)*share)))
		}
		s.report(at, fmt.Sprintf("the last replicas go only far below %d %% of %s", percent, m.Resource),
			fmt.Sprintf("n → n − 1 at %d %% × (n − 1) ÷ n, or at less: %s", percent, strings.Join(parts, ", ")))
	})
}
