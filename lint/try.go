package lint

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
)

// period is Kubernetes' time from one evaluation to the next.
const period = simulation.DefaultPeriod

// longest bounds how long a way is followed, in virtual time.
const longest = 24 * time.Hour

// tolerance is the one in force: some versions ignore the spec's, as the engine says.
func (s *subject) tolerance(d recommender.Direction) float64 {
	in := recommender.Input{Namespace: s.namespace, Spec: s.total(), Options: *s.options, Explain: true, ExplainLimit: recommender.ExplainNoPods}
	decision, _ := recommender.Recommend(begin, &in, &recommender.History{})
	if d == recommender.Down {
		return decision.Explanation.Tolerances.ScaleDown
	}
	return decision.Explanation.Tolerances.ScaleUp
}

func (s *subject) toleranceField(direction string) string {
	return "spec.behavior." + direction + ".tolerance"
}

// high is a count above the minimum from which it could fall.
func (s *subject) high() int32 { return min(max(2, s.spec.MinReplicas+1), s.spec.MaxReplicas) }

// total is the spec with one metric in place of its own: a total with a target of 1 per
// replica. What windows, policies and tolerances do is the same for any metric.
func (s *subject) total() recommender.Spec {
	spec := *s.spec
	each := int64(1000)
	spec.Metrics = []recommender.MetricSpec{{
		Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "load"},
		Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &each},
	}}
	return spec
}

var begin = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// loop runs the engine: load is what the metric says, for a count of from after the load of
// from for before. It gives each count, with its time since before, until until says stop.
func (s *subject) loop(spec *recommender.Spec, from int32, before time.Duration, load func(at time.Duration) int64, see func(at time.Duration, count int32) (stop bool)) {
	engine := simulation.NewEngine(s.namespace)
	count := from
	in := recommender.Input{Namespace: s.namespace, Spec: *spec, Options: *s.options}
	for at := -before; at <= longest; at += period {
		in.ID[0]++
		if in.ID[0] == 0 {
			in.ID[1]++
		}
		in.Scale = recommender.Scale{SpecReplicas: count, StatusReplicas: count}
		in.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: load(at)}}}}
		decision, err := engine.Recommend(begin.Add(before+at), &in)
		if err != nil {
			return
		}
		if decision.Changes() {
			count = decision.Desired
			if engine.Settle(decision.ID, recommender.Applied, "") != nil {
				return
			}
		}
		if at >= 0 && see(at, count) {
			return
		}
	}
}

// way is how a count got from one to another.
type way struct {
	from, to int32
	counts   []int32
	// first is when it first changed, pause the time from there to the next change, and length when it arrived, if it did
	// within longest.
	first, pause, length time.Duration
	arrived              bool
}

func (s *subject) follow(from, to int32) way {
	w := way{from: from, to: to, counts: []int32{from}}
	if from == to {
		w.arrived = true
		return w
	}
	spec := s.total()
	load := func(at time.Duration) int64 {
		if at < 0 {
			return int64(from) * 1000
		}
		if to > from {
			return 2 * int64(to) * 1000 // beyond any tolerance
		}
		return 0
	}
	s.loop(&spec, from, time.Hour, load, func(at time.Duration, count int32) bool {
		if last := w.counts[len(w.counts)-1]; count != last {
			switch len(w.counts) {
			case 1:
				w.first = at
			case 2:
				w.pause = at - w.first
			}
			w.counts = append(w.counts, count)
		}
		w.length, w.arrived = at, to > from && count >= to || to < from && count <= to // or at 0, where that is allowed
		return w.arrived
	})
	return w
}

// climb is the way from the minimum to the maximum, and descend that back.
func (s *subject) climb() way {
	if s.climbs == nil {
		w := s.follow(max(1, s.spec.MinReplicas), s.spec.MaxReplicas)
		s.climbs = &w
	}
	return *s.climbs
}

func (s *subject) descend() way {
	if s.descends == nil {
		w := s.follow(s.spec.MaxReplicas, max(1, s.spec.MinReplicas))
		s.descends = &w
	}
	return *s.descends
}

func (w *way) words() string {
	if !w.arrived {
		return "more than " + span(longest)
	}
	return span(w.length)
}

// path is the way in its first counts: 50 → 49 → 48 → … → 2.
func (w *way) path() string {
	var parts []string
	for i, n := range w.counts {
		if i == 5 && len(w.counts) > 6 {
			parts = append(parts, "…", strconv.Itoa(int(w.counts[len(w.counts)-1])))
			break
		}
		parts = append(parts, strconv.Itoa(int(n)))
	}
	return strings.Join(parts, " → ")
}

// steps is the path with its length: …: 48 changes, the first one after 5m.
func (w *way) steps() string {
	if len(w.counts) == 1 {
		return fmt.Sprintf("%d, without a change", w.from)
	}
	return fmt.Sprintf("%s: %d changes, the first one after %s", w.path(), len(w.counts)-1, span(w.first))
}

// neverDown reports whether the count stays without any load.
func (s *subject) neverDown() bool {
	if s.high() == s.spec.MinReplicas {
		return false
	}
	spec := s.total()
	stays := true
	s.loop(&spec, s.high(), 0, func(time.Duration) int64 { return 0 }, func(_ time.Duration, count int32) bool {
		stays = count == s.high()
		return !stays
	})
	return stays
}

// stuckAtZero reports whether the policies of scaling up keep a count that fell to 0 there, whatever the load.
func (s *subject) stuckAtZero() bool {
	if s.spec.Behavior == nil {
		return false
	}
	const back = 2 * time.Hour // longer than windows and periods are
	spec := s.total()
	zero, up := false, false
	s.loop(&spec, 1, 0, func(at time.Duration) int64 {
		if at < back {
			return 0
		}
		return 2 * int64(spec.MaxReplicas) * 1000
	}, func(at time.Duration, count int32) bool {
		if at < back {
			zero = count == 0
			return false
		}
		up = count > 0
		return up || !zero || at > 2*back
	})
	return zero && !up
}

// steady are the least and the greatest load in replicas at which a count stays, for a
// metric of a target each.
func (s *subject) steady(n int32) (low, high int32) {
	spec := s.total()
	spec.Behavior = nil
	if s.spec.Behavior != nil {
		up, down := s.tolerance(recommender.Up), s.tolerance(recommender.Down)
		zero := int32(0)
		b := recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.DefaultScaleDown()}
		b.ScaleUp.Tolerance, b.ScaleDown.Tolerance, b.ScaleDown.StabilizationWindowSeconds = &up, &down, &zero
		spec.Behavior = &b
	}
	spec.MinReplicas, spec.MaxReplicas = 1, math.MaxInt32
	stays := func(load int64) bool {
		in := recommender.Input{
			Namespace: s.namespace, Spec: spec, Options: *s.options, Scale: recommender.Scale{SpecReplicas: n, StatusReplicas: n},
			Readings: []recommender.Readings{{Values: []recommender.Value{{Milli: load * 1000}}}},
			Explain:  true, ExplainLimit: recommender.ExplainNoPods,
		}
		decision, _ := recommender.Recommend(begin, &in, &recommender.History{})
		return decision.Explanation != nil && decision.Explanation.Decided && decision.Explanation.Proposal == n
	}
	// The loads at which it stays are one stretch around the count, however long: maxReplicas may
	// be any number.
	count := int64(n)
	below := sort.Search(int(count-1), func(i int) bool { return !stays(count - 1 - int64(i)) })
	above := sort.Search(int(min(2*count, math.MaxInt32)-count), func(i int) bool { return !stays(count + 1 + int64(i)) })
	return n - int32(below), int32(count + int64(above))
}

// movesOne reports whether a direction's policies allow exactly one replica at a count.
func (s *subject) movesOne(d direction, n int32) bool {
	spec := s.total()
	spec.MinReplicas, spec.MaxReplicas = 1, max(2*n, n+10)
	load, want := int64(spec.MaxReplicas)*1000, n+1
	if d.down {
		load, want = 0, n-1
		if want < 1 {
			return false
		}
	}
	got := n
	s.loop(&spec, n, time.Hour, func(at time.Duration) int64 {
		if at < 0 {
			return int64(n) * 1000
		}
		return load
	}, func(_ time.Duration, count int32) bool {
		got = count
		return got != n
	})
	return got == want
}

// runsAway reports whether a total of twice the target goes to the maximum.
func (s *subject) runsAway(m *recommender.MetricSpec) bool {
	from := max(1, s.spec.MinReplicas)
	if from == s.spec.MaxReplicas || s.spec.MaxReplicas < 4 {
		return false
	}
	scenario, a, err := s.alone(m, 1)
	if err != nil {
		return false
	}
	a.Spec.MinReplicas, a.Spec.MaxReplicas = min(from, 10), min(s.spec.MaxReplicas, 100)
	if b := s.spec.Behavior; b != nil { // how fast is another rule's
		fast := recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.DefaultScaleDown()}
		fast.ScaleUp.SelectPolicy, fast.ScaleUp.Tolerance = b.ScaleUp.SelectPolicy, b.ScaleUp.Tolerance
		a.Spec.Behavior = &fast
	}
	scenario.Workload.Replicas = &a.Spec.MinReplicas
	scenario.Workload.Usage = []simulation.Usage{{Metric: m.Metric.Name, PerLoad: 2 * float64(*m.Target.Value), Follows: simulation.Offered, Window: time.Second}}
	away := false
	_, err = simulation.Run(scenario, a, func(step *simulation.Step) error {
		if away = step.Decision.Desired == a.Spec.MaxReplicas; away {
			return errStop
		}
		return nil
	})
	return away && errors.Is(err, errStop)
}

// errStop ends a simulation that has shown enough.
var errStop = errors.New("enough was seen")

// alone is an autoscaler with one metric of the spec, and a scenario for it: pods of the
// workload's template, and each unit of load per second uses a thousandth.
func (s *subject) alone(m *recommender.MetricSpec, load float64) (*simulation.Scenario, *simulation.Autoscaler, error) {
	trace, err := simulation.Constant(load)
	if err != nil {
		return nil, nil, err
	}
	a := &simulation.Autoscaler{Namespace: s.namespace, Spec: *s.spec, Options: *s.options}
	a.Spec.Metrics = []recommender.MetricSpec{*m}
	a.Spec.MinReplicas, a.Spec.MaxReplicas = 1, 10
	replicas := int32(2)
	scenario := &simulation.Scenario{
		Start: begin, Duration: time.Hour, Load: trace,
		Workload: simulation.Workload{Replicas: &replicas, Usage: []simulation.Usage{{Metric: m.Resource, PerLoad: 1}}},
	}
	return scenario, a, nil
}

// failsWithout reports whether the metric fails for pods of the template.
func (s *subject) failsWithout(m *recommender.MetricSpec) bool {
	scenario, a, err := s.alone(m, 1)
	if err != nil {
		return false
	}
	for _, c := range s.containers() {
		out := simulation.Container{Name: c.Name}
		for _, name := range slices.Sorted(maps.Keys(c.Requests)) {
			out.Requests = append(out.Requests, recommender.ResourceUsage{Resource: name, Milli: c.Requests[name]})
		}
		scenario.Workload.Containers = append(scenario.Workload.Containers, out)
	}
	fails := false
	_, err = simulation.Run(scenario, a, func(step *simulation.Step) error {
		fails = step.Cause == simulation.CauseFailingMetric
		if step.At >= time.Minute {
			return errStop
		}
		return nil
	})
	return fails && errors.Is(err, errStop)
}

// neverUp reports whether pods whose usage is at most so much of their request are too few at
// no load.
func (s *subject) neverUp(m *recommender.MetricSpec, most float64) bool {
	const request = 1000
	scenario, a, err := s.alone(m, 1e9)
	if err != nil {
		return false
	}
	scenario.Workload.Capacity = most * request
	name := m.Container
	name = cmp.Or(name, "app")
	scenario.Workload.Containers = []simulation.Container{{Name: name, Requests: []recommender.ResourceUsage{{Resource: m.Resource, Milli: request}}}}
	never := true
	_, err = simulation.Run(scenario, a, func(step *simulation.Step) error {
		if never = step.Proposal <= 2; !never {
			return errStop
		}
		return nil
	})
	return never && err == nil
}

// decimals is a number without an exponent, of two decimal places at most, or of two figures.
func decimals(f float64) string {
	if math.Abs(f) < 0.1 {
		return printable.Figures(f, 2)
	}
	return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64)
}

// amountOf is what a container requests or may use of a resource, in the unit that people write.
func amountOf(resource string, milli int64) string {
	if resource == "memory" {
		return decimals(float64(milli)/1000/(1<<20)) + "Mi"
	}
	return fmt.Sprintf("%dm", milli)
}

// asWritten is a tolerance, or what it leaves of 1, as people write it.
func asWritten(f float64) string { return printable.Figures(f, 6) }

// percentOf is a share in percent with one decimal place, or in two figures.
func percentOf(f float64) string {
	if math.Abs(f) < 0.01 {
		return printable.Figures(f*100, 2) + " %"
	}
	return strconv.FormatFloat(math.Round(f*1000)/10, 'f', -1, 64) + " %"
}

// span is a duration in few figures: 1h5m.
func span(d time.Duration) string {
	text := d.Round(time.Second).String()
	text = strings.TrimSuffix(text, "m0s") + map[bool]string{true: "m"}[strings.HasSuffix(text, "m0s")]
	return strings.TrimSuffix(text, "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(text, "h0m")]
}
