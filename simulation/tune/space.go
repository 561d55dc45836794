package tune

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
)

// space is the search space: each point of the unit cube is a spec.
type space struct {
	given *simulation.Autoscaler
	least int32 // the least minimum
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

// Windows, tolerances and policies to try, besides those of the given spec.
var (
	upWindows   = []int32{0, 0, 30, 60, 120}
	downWindows = []int32{0, 60, 120, 300, 600, 900, 1800}
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

func newSpace(a *simulation.Autoscaler, least int32) space {
	if least <= 0 {
		least = a.Spec.MinReplicas
	}
	n := dimensions + len(a.Spec.Metrics)
	// The root of x^(n+1) = x + 1.
	ratio := 2.0
	for range 60 {
		ratio = math.Pow(1+ratio, 1/float64(n+1))
	}
	s := space{given: a, least: min(max(1, least), a.Spec.MaxReplicas)}
	for i := range n {
		s.steps = append(s.steps, math.Mod(math.Pow(1/ratio, float64(i+1)), 1))
	}
	return s
}

// point returns the i'th point of the sequence shifted by a seed.
func (s *space) point(seed uint64, i int) []float64 {
	shift := rand.New(rand.NewPCG(seed, 1))
	point := make([]float64, len(s.steps))
	for d, step := range s.steps {
		_, point[d] = math.Modf(shift.Float64() + step*float64(i))
	}
	return point
}

// near returns a point near another: most of its coordinates, and some slightly changed or
// drawn again.
func (s *space) near(point []float64, r *rand.Rand) []float64 {
	out := slices.Clone(point)
	changed := false
	for d := range out {
		switch r.IntN(4) {
		case 0:
			out[d] = min(max(out[d]+0.15*r.NormFloat64(), 0), 1-1e-9)
			changed = true
		case 1:
			if r.IntN(4) == 0 {
				out[d], changed = r.Float64(), true
			}
		}
	}
	if !changed {
		d := r.IntN(len(out))
		out[d] = min(max(out[d]+0.05*r.NormFloat64(), 0), 1-1e-9)
	}
	return out
}

// pick returns one of some values.
func pick[T any](values []T, at float64) T {
	return values[min(int(at*float64(len(values))), len(values)-1)]
}

// spec returns the spec of a point.
func (s *space) spec(point []float64) recommender.Spec {
	spec := s.given.Spec
	rules := recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.DefaultScaleDown()}
	if spec.Behavior != nil {
		rules = *spec.Behavior
	}
	spec.MinReplicas = s.minimum(point[minimum])
	up, down := pick(upWindows, point[upWindow]), pick(downWindows, point[downWindow])
	rules.ScaleUp.StabilizationWindowSeconds, rules.ScaleDown.StabilizationWindowSeconds = &up, &down
	rules.ScaleUp.Policies = []recommender.ScalingPolicy{pick(ups, point[upPolicy]), {Type: recommender.PodsPolicy, Value: 4, PeriodSeconds: 15}}
	rules.ScaleDown.Policies = []recommender.ScalingPolicy{pick(downs, point[downPolicy])}
	rules.ScaleUp.SelectPolicy, rules.ScaleDown.SelectPolicy = recommender.MaxChange, recommender.MaxChange
	upMost, downMost := pick(tolerances, point[upTolerance]), pick(tolerances, point[downTolerance])
	rules.ScaleUp.Tolerance, rules.ScaleDown.Tolerance = &upMost, &downMost
	spec.Behavior = &rules
	spec.Metrics = slices.Clone(spec.Metrics)
	for i := range spec.Metrics {
		scaleTarget(&spec.Metrics[i].Target, point[dimensions+i])
	}
	return spec
}

// minimum ranges from the least one to the maximum, logarithmically.
func (s *space) minimum(at float64) int32 {
	least, most := float64(s.least), float64(s.given.Spec.MaxReplicas)
	return min(max(int32(math.Round(least*math.Pow(most/least, at))), s.least), s.given.Spec.MaxReplicas)
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
		switch am, bm := s.goal.miss(a.Searched), s.goal.miss(b.Searched); {
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
		next = append(next, Candidate{Spec: s.space.spec(point), point: point, order: i})
	}
	return next
}
