package tune

import (
	"cmp"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
)

// space is the search space: each point of the unit cube is a spec. A coordinate below 0 is the
// given spec's own.
type space struct {
	varied []int // the dimensions that are
	given  *simulation.Autoscaler
	// least and most are the bounds of minimums.
	least, most int32
	// steps is the generalized golden ratio's: the sequence of Roberts fills the cube evenly.
	steps []float64
}

// The dimensions, besides one for the target of each metric.
const (
	minimum = iota
	upTolerance
	downTolerance
	upWindow
	downWindow
	upPolicy
	downPolicy
	dimensions
)

// Names are what Options.Vary may name: parts of a spec.
var Names = []string{"target", "minReplicas", "tolerance", "window", "policies"}

// nameOf is a dimension's name.
func nameOf(d int) string {
	switch d {
	case minimum:
		return "minReplicas"
	case upTolerance, downTolerance:
		return "tolerance"
	case upWindow, downWindow:
		return "window"
	case upPolicy, downPolicy:
		return "policies"
	}
	return "target"
}

// Windows, tolerances and policies to try, besides those of the given spec. A window before scaling
// up, and none before scaling down, are what lint warns of.
var (
	downWindows = []int32{60, 120, 300, 600, 900, 1800}
	tolerances  = []float64{0.01, 0.03, 0.05, 0.1, 0.15}
	ups         = []recommender.ScalingPolicy{
		{Type: recommender.PercentPolicy, Value: 10, PeriodSeconds: 15}, {Type: recommender.PercentPolicy, Value: 50, PeriodSeconds: 60},
		{Type: recommender.PercentPolicy, Value: 100, PeriodSeconds: 60}, {Type: recommender.PercentPolicy, Value: 100, PeriodSeconds: 15},
		{Type: recommender.PercentPolicy, Value: 400, PeriodSeconds: 15}, {Type: recommender.PercentPolicy, Value: 900, PeriodSeconds: 15},
	}
	downs = []recommender.ScalingPolicy{
		{Type: recommender.PercentPolicy, Value: 5, PeriodSeconds: 60}, {Type: recommender.PercentPolicy, Value: 10, PeriodSeconds: 60},
		{Type: recommender.PercentPolicy, Value: 25, PeriodSeconds: 60}, {Type: recommender.PercentPolicy, Value: 50, PeriodSeconds: 60},
		{Type: recommender.PercentPolicy, Value: 100, PeriodSeconds: 15},
	}
)

func newSpace(a *simulation.Autoscaler, least int32, vary []string) space {
	if least <= 0 {
		least = a.Spec.MinReplicas
	}
	n := dimensions + len(a.Spec.Metrics)
	// The root of x^(n+1) = x + 1.
	ratio := 2.0
	for range 60 {
		ratio = math.Pow(1+ratio, 1/float64(n+1))
	}
	s := space{given: a, most: highestMinimum(a)}
	s.least = min(max(1, least), s.most)
	for i := range n {
		s.steps = append(s.steps, math.Mod(math.Pow(1/ratio, float64(i+1)), 1))
		if i == minimum && a.Stages != nil && a.Stages.Idle != nil {
			continue // only from 0 can it be idle
		}
		if len(vary) == 0 || slices.Contains(vary, nameOf(i)) {
			s.varied = append(s.varied, i)
		}
	}
	return s
}

// highestMinimum is the highest minReplicas that simulations and the service accept: schedules are not below it.
func highestMinimum(a *simulation.Autoscaler) int32 {
	most := min(a.Spec.MaxReplicas, simulation.MaxPods)
	if a.Stages == nil {
		return most
	}
	for i := range a.Stages.Schedules {
		for _, bound := range []int32{a.Stages.Schedules[i].Min, a.Stages.Schedules[i].Max} {
			if bound >= 0 {
				most = min(most, bound)
			}
		}
	}
	return max(most, a.Spec.MinReplicas)
}

// point returns the i'th point of the sequence shifted by a seed. Each third one changes one
// coordinate of the given spec, each third one two or three, the others all.
func (s *space) point(seed uint64, i int) []float64 {
	shift, chosen := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, uint64(i)))
	point := make([]float64, len(s.steps))
	for d, step := range s.steps {
		_, point[d] = math.Modf(shift.Float64() + step*float64(i))
	}
	n := len(s.varied)
	if i%3 < 2 {
		n = min(n, 1+(i%3)*(1+chosen.IntN(2)))
	}
	kept := make([]bool, len(point))
	for _, k := range chosen.Perm(len(s.varied))[:n] {
		kept[s.varied[k]] = true
	}
	for d := range point {
		if !kept[d] {
			point[d] = -1
		}
	}
	return point
}

// near returns a point near another: most of its coordinates, and some slightly changed, drawn
// again or given up.
func (s *space) near(point []float64, r *rand.Rand) []float64 {
	out := slices.Clone(point)
	changed := false
	for _, d := range s.varied {
		switch r.IntN(4) {
		case 0:
			if out[d] < 0 || r.IntN(6) == 0 {
				changed = changed || out[d] >= 0
				out[d] = -1
				break
			}
			out[d] = min(max(out[d]+0.15*r.NormFloat64(), 0), 1-1e-9)
			changed = true
		case 1:
			if r.IntN(4) == 0 {
				out[d], changed = r.Float64(), true
			}
		}
	}
	if !changed {
		d := s.varied[r.IntN(len(s.varied))]
		if out[d] < 0 {
			out[d] = r.Float64()
		}
		out[d] = min(max(out[d]+0.05*r.NormFloat64(), 0), 1-1e-9)
	}
	return out
}

// pick returns one of some values.
func pick[T any](values []T, at float64) T {
	return values[min(int(at*float64(len(values))), len(values)-1)]
}

func (s *space) spec(point []float64) recommender.Spec {
	spec := s.given.Spec
	defaults := recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.DefaultScaleDown()}
	rules := *cmp.Or(spec.Behavior, &defaults)
	is := func(d int) bool { return point[d] >= 0 }
	if is(minimum) {
		spec.MinReplicas = s.minimum(point[minimum])
	}
	if is(upWindow) {
		rules.ScaleUp.StabilizationWindowSeconds = new(int32(0))
	}
	if is(downWindow) {
		rules.ScaleDown.StabilizationWindowSeconds = new(pick(downWindows, point[downWindow]))
	}
	if is(upPolicy) {
		percent := pick(ups, point[upPolicy])
		rules.ScaleUp.SelectPolicy, rules.ScaleUp.Policies = recommender.MaxChange, []recommender.ScalingPolicy{percent}
		// Where the percentage allows as many at once the other one would never decide.
		if percent.PeriodSeconds != fourPods.PeriodSeconds || percent.Value*spec.MinReplicas < 100*fourPods.Value {
			rules.ScaleUp.Policies = append(rules.ScaleUp.Policies, fourPods)
		}
	}
	if is(downPolicy) {
		rules.ScaleDown.SelectPolicy, rules.ScaleDown.Policies = recommender.MaxChange, []recommender.ScalingPolicy{pick(downs, point[downPolicy])}
	}
	if is(upTolerance) {
		rules.ScaleUp.Tolerance = new(pick(tolerances, point[upTolerance]))
	}
	if is(downTolerance) {
		rules.ScaleDown.Tolerance = new(pick(tolerances, point[downTolerance]))
	}
	// Behavior stays absent if nothing in it changes: the API's defaults written out are other rules.
	if own := cmp.Or(spec.Behavior, &defaults); !reflect.DeepEqual(*own, rules) {
		spec.Behavior = &rules
	}
	spec.Metrics = slices.Clone(spec.Metrics)
	for i := range spec.Metrics {
		if point[dimensions+i] < 0 {
			continue
		}
		scaleTarget(&spec.Metrics[i].Target, point[dimensions+i])
	}
	return spec
}

// fourPods lets small counts rise, as the API's default does.
var fourPods = recommender.ScalingPolicy{Type: recommender.PodsPolicy, Value: 4, PeriodSeconds: 15}

// minimum ranges from the least one to the highest, logarithmically.
func (s *space) minimum(at float64) int32 {
	least, most := float64(s.least), float64(s.most)
	return min(max(int32(math.Round(least*math.Pow(most/least, at))), s.least), s.most)
}

// scaleTarget changes a target logarithmically: a utilization between four tenths of it and 95
// %, others between a third and three times of it.
func scaleTarget(t *recommender.MetricTarget, at float64) {
	if t.AverageUtilization != nil {
		given := float64(*t.AverageUtilization)
		low, high := max(1, 0.4*given), max(95, given)
		v := int32(math.Round(low + (high-low)*at))
		t.AverageUtilization = &v
	}
	factor := math.Pow(9, at) / 3
	for _, quantity := range []**int64{&t.Value, &t.AverageValue} {
		if *quantity != nil {
			v := max(1, int64(math.Round(float64(**quantity)*factor)))
			*quantity = &v
		}
	}
}

// propose creates the next candidates: the first half of all by the sequence, the others near
// the best so far, alternating between those near the goal and those of the front.
func (s *search) propose(all []Candidate, n int) []Candidate {
	var parents []Candidate
	for _, c := range all {
		if c.point != nil && !math.IsInf(c.Searched.Cost, 1) {
			parents = append(parents, c)
		}
	}
	slices.SortStableFunc(parents, func(a, b Candidate) int {
		switch am, bm := miss(a.Searched, s.limit), miss(b.Searched, s.limit); {
		case am < bm:
			return -1
		case am > bm:
			return 1
		}
		return byCost(a, b)
	})
	next := make([]Candidate, 0, n)
	for k := range n {
		i := len(all) + k
		var point []float64
		if i <= s.options.Candidates/2 || len(parents) == 0 {
			point = s.space.point(s.options.Seed, i)
		} else {
			r := rand.New(rand.NewPCG(s.options.Seed, uint64(i)+2))
			point = s.space.near(parents[r.IntN(min(8, len(parents)))].point, r)
		}
		next = append(next, s.candidate(point, i))
	}
	return next
}
