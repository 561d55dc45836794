// Package tune searches the specs of autoscalers for the cheapest one that reaches a goal in a
// scenario: each candidate is run with the production engine.
//
//	result, err := tune.Run(ctx, &scenario, &autoscaler, tune.Goal{MaxShort: 0.005}, tune.Options{})
//
// The search is a pure function of its arguments, whatever the number of workers. The time of the
// scenario is split: candidates are compared on the first part, and the reported ones are run on
// the second one as well, which exposes a spec that fits only one part.
package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
)

// Goal is what a spec must reach; the cheapest spec that does wins.
type Goal struct {
	// MaxShort is the maximum time short of capacity, as a fraction: 0.005 is 0.5 %.
	MaxShort float64
	// MaxLost is the maximum load lost for good, as a fraction of all load. Nil: unlimited.
	MaxLost *float64
	// MaxReversals is the maximum number of reversals per day. Nil: unlimited.
	MaxReversals *float64
}

// Options of a search. Zero values are defaults.
type Options struct {
	// Candidates is how many specs are tried besides the given one (0: 500, at most
	// MaxCandidates).
	Candidates int
	// LeastReplicas is the least minReplicas to try (0: the given spec's).
	LeastReplicas int32
	// Seed selects the candidates.
	Seed uint64
	// Workers is the number of concurrent runs (0: one per processor). The result does
	// not depend on it.
	Workers int
	// Work bounds the runs together, in the unit of MaxWork. 0, or more: that.
	Work int64
	// Progress is called after each run, one call at a time. May be nil.
	Progress func(done int)
}

// Default and maximum of Options.Candidates.
const (
	DefaultCandidates = 500
	MaxCandidates     = 20_000
)

// Score is the result of a candidate in one part of the time.
type Score struct {
	// Short and Lost are fractions of the time and of the load, Reversals is per day.
	Short, Lost, Reversals float64
	// Cost is the running pods' average, to which all costs are proportional.
	Cost float64
}

// Candidate is a spec and its results.
type Candidate struct {
	Spec recommender.Spec
	// Searched is its score in the searched part, Confirmed in the other one.
	Searched, Confirmed Score
	// Reached reports whether it reaches the goal in the first part, Holds whether in the
	// second.
	Reached, Holds bool

	point []float64
	order int
	last  int32 // the count at the end of the searched part
}

// Result is the result of a search.
type Result struct {
	// Given is the given spec.
	Given Candidate
	// Best is the cheapest one that reaches the goal in both parts, else the cheapest in the
	// searched part; nil: none reaches it.
	Best *Candidate
	// Front are the candidates that no other one beats in both cost and shortage,
	// cheapest first, at most MaxFront.
	Front []Candidate
	// Tried counts the candidates, TooLarge those that were too large to run.
	Tried, TooLarge int
	// Split is the offset between the parts.
	Split time.Duration
}

// MaxFront limits Result.Front, and maxConfirmed the candidates for Best that are run in the
// second part.
const (
	MaxFront     = 12
	maxConfirmed = 24
)

// batch is how many candidates are created at a time: later ones use the results of earlier
// ones.
const batch = 32

// search is a search in progress.
type search struct {
	first, second *simulation.Scenario
	given         *simulation.Autoscaler
	goal          Goal
	options       Options
	space         space
	mu            sync.Mutex
	done          int
	// work is that of all runs so far. Guarded by mu.
	work int64
}

// MaxWork bounds the runs of a search together, in simulation.MaxWork's unit: some hours.
const MaxWork = 300 * simulation.MaxWork

// tooMuch refuses a search once its runs have taken, or so many more of the given spec would
// take, more than they may.
func (s *search) tooMuch(more int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if most := s.options.Work; s.work > most/int64(1+more) {
		return fmt.Errorf("%w: %d candidates would look at pods %d times or more, of at most %d; try fewer, or a shorter scenario",
			simulation.ErrTooMuch, s.options.Candidates, s.work*int64(1+more), most)
	}
	return nil
}

// Run searches. It ends with the context's error when the context does.
func Run(ctx context.Context, s *simulation.Scenario, a *simulation.Autoscaler, goal Goal, options Options) (*Result, error) {
	if err := simulation.Check(s, a); err != nil {
		return nil, err
	}
	if options.Candidates == 0 {
		options.Candidates = DefaultCandidates
	}
	if options.Candidates < 0 || options.Candidates > MaxCandidates {
		return nil, fmt.Errorf("%d candidates: must be between 1 and %d", options.Candidates, MaxCandidates)
	}
	if options.Work <= 0 || options.Work > MaxWork {
		options.Work = MaxWork
	}
	if options.Workers <= 0 {
		options.Workers = runtime.GOMAXPROCS(0)
	}
	first, second, err := split(s, a)
	if err != nil {
		return nil, err
	}
	search := &search{first: first, second: second, given: a, goal: goal, options: options, space: newSpace(a, options.LeastReplicas)}
	return search.run(ctx)
}

func (s *search) run(ctx context.Context) (*Result, error) {
	given := []Candidate{{Spec: s.given.Spec}}
	if err := s.score(ctx, s.first, given, searched); err != nil {
		return nil, err
	}
	if math.IsInf(given[0].Searched.Cost, 1) {
		return nil, fmt.Errorf("the given spec: %w", simulation.ErrTooMuch)
	}
	if err := s.tooMuch(s.options.Candidates); err != nil {
		return nil, err
	}
	all := slices.Clone(given)
	result := &Result{Split: s.first.Duration}
	for len(all) <= s.options.Candidates {
		next := s.propose(all, min(batch, s.options.Candidates+1-len(all)))
		if err := s.score(ctx, s.first, next, searched); err != nil {
			return nil, err
		}
		all = append(all, next...)
		if err := s.tooMuch(0); err != nil {
			return nil, err
		}
	}
	for i := range all {
		if math.IsInf(all[i].Searched.Cost, 1) {
			result.TooLarge++
		}
	}
	result.Tried = len(all) - 1
	result.Front = front(all)
	if err := s.score(ctx, s.second, result.Front, confirmed); err != nil {
		return nil, err
	}
	if err := s.score(ctx, s.second, given, confirmed); err != nil {
		return nil, err
	}
	result.Given = given[0]
	best, err := s.best(ctx, all)
	result.Best = best
	return result, err
}

// best is the cheapest candidate that reaches the goal in both parts, else the cheapest.
func (s *search) best(ctx context.Context, all []Candidate) (*Candidate, error) {
	var reach []Candidate
	for _, c := range all {
		if c.Reached {
			reach = append(reach, c)
		}
	}
	slices.SortStableFunc(reach, byCost)
	reach = reach[:min(len(reach), maxConfirmed)]
	if len(reach) == 0 {
		return nil, nil
	}
	if err := s.score(ctx, s.second, reach, confirmed); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(reach, func(c Candidate) bool { return c.Holds }); i >= 0 {
		return &reach[i], nil
	}
	return &reach[0], nil
}

// byCost sorts by cost, then shortage, then order.
func byCost(a, b Candidate) int {
	return cmp.Or(cmp.Compare(a.Searched.Cost, b.Searched.Cost), cmp.Compare(a.Searched.Short, b.Searched.Short), cmp.Compare(a.order, b.order))
}

// front are the candidates that no other one beats, evenly thinned out.
func front(all []Candidate) []Candidate {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, byCost)
	var out []Candidate
	least := math.Inf(1)
	for _, c := range sorted {
		if c.Searched.Short < least && !math.IsInf(c.Searched.Cost, 1) {
			out = append(out, c)
			least = c.Searched.Short
		}
	}
	if len(out) <= MaxFront {
		return out
	}
	thin := make([]Candidate, 0, MaxFront)
	for i := range MaxFront {
		thin = append(thin, out[i*(len(out)-1)/(MaxFront-1)])
	}
	return thin
}

// part of the time of a score.
type part bool

const (
	searched  part = false
	confirmed part = true
)

// score runs candidates, as many at a time as there are workers.
func (s *search) score(ctx context.Context, scenario *simulation.Scenario, candidates []Candidate, of part) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wait sync.WaitGroup
	for range min(s.options.Workers, len(candidates)) {
		wait.Go(func() {
			for i := range next {
				if err := s.scoreOne(ctx, scenario, &candidates[i], of); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range candidates {
		next <- i
	}
	close(next)
	wait.Wait()
	return context.Cause(ctx)
}

func (s *search) scoreOne(ctx context.Context, scenario *simulation.Scenario, c *Candidate, of part) error {
	a := *s.given
	a.Spec = c.Spec
	if of == confirmed {
		// It continues with the count at the end of the first part: within a wide tolerance
		// another spec's count may stay.
		goesOn, last := *scenario, c.last
		goesOn.Workload.Replicas = &last
		scenario = &goesOn
	}
	result, err := simulation.Run(scenario, &a, func(step *simulation.Step) error {
		if of == searched {
			c.last = step.Decision.Desired
		}
		return ctx.Err()
	})
	var work int64
	score := Score{Short: 1, Lost: 1, Reversals: math.Inf(1), Cost: math.Inf(1)}
	switch {
	case errors.Is(err, simulation.ErrTooMuch):
		work = simulation.MaxWork
	case err != nil:
		return err
	default:
		work = result.Work
		f, hours := &result.Figures, scenario.Duration.Hours()
		score = Score{Short: f.ShortTime.Hours() / hours, Reversals: float64(f.Reversals) * 24 / hours, Cost: f.RunningHours / hours}
		if f.Offered > 0 {
			score.Lost = f.Lost / f.Offered
		}
	}
	if of == confirmed {
		c.Confirmed, c.Holds = score, s.goal.reached(score)
	} else {
		c.Searched, c.Reached = score, s.goal.reached(score)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work += work
	if s.done++; s.options.Progress != nil {
		s.options.Progress(s.done)
	}
	return nil
}

// reached reports whether a score reaches the goal.
func (g *Goal) reached(s Score) bool {
	return !math.IsInf(s.Cost, 1) && s.Short <= g.MaxShort && (g.MaxLost == nil || s.Lost <= *g.MaxLost) && (g.MaxReversals == nil || s.Reversals <= *g.MaxReversals)
}

// miss is by how much a score misses the goal, 0: it does not.
func (g *Goal) miss(s Score) float64 {
	miss := max(0, s.Short-g.MaxShort)
	if g.MaxLost != nil {
		miss += max(0, s.Lost-*g.MaxLost)
	}
	if g.MaxReversals != nil {
		miss += max(0, s.Reversals-*g.MaxReversals) / 100
	}
	return miss
}

// split splits a scenario in two: in the middle, at midnight if it has several days.
func split(s *simulation.Scenario, a *simulation.Autoscaler) (first, second *simulation.Scenario, err error) {
	at := s.Duration / 2
	if at >= 24*time.Hour {
		at = at.Truncate(24 * time.Hour)
	}
	if at < time.Minute {
		return nil, nil, fmt.Errorf("a duration of %s: must be at least 2m, because it is split into a part to search and one to confirm", s.Duration)
	}
	one, two := *s, *s
	one.Duration, two.Duration = at, s.Duration-at
	two.Start = s.Start.Add(at)
	if s.Workload.Replicas == nil { // all candidates start with the same count
		replicas := max(1, a.Spec.MinReplicas)
		one.Workload.Replicas = &replicas
	}
	points := slices.Clone(s.Load.Points())
	for i := range points {
		points[i].At -= at
	}
	if two.Load, err = simulation.NewTrace(points); err != nil {
		return nil, nil, err
	}
	one.Events, two.Events = nil, nil
	for _, e := range s.Events {
		if e.At < at {
			one.Events = append(one.Events, e)
			continue
		}
		e.At -= at
		two.Events = append(two.Events, e)
	}
	return &one, &two, nil
}
