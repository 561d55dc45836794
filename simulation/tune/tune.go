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
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
)

// Goal is what a spec must reach.
type Goal struct {
	// MaxShort is the maximum time short of capacity, as a fraction: 0.005 is 0.5 %.
	MaxShort float64
	// MaxLost is the maximum load lost for good, as a fraction of all load. Nil: what the given
	// spec loses, and LostSlack.
	MaxLost *float64
	// MaxReversals is the maximum number of reversals per day. Nil: those of the given spec, and
	// one for each day or part of one.
	MaxReversals *float64
}

// LostSlack is how much more of the load than the given spec another one may lose.
const LostSlack = 0.0001

// near is how much more than the cheapest spec a simpler one may cost.
const near = 1.05

// Options of a search. Zero values are defaults.
type Options struct {
	// Vary are the parts of the spec that are changed, of Names. Empty: all.
	Vary []string
	// Lint returns what is wrong with an autoscaler in a scenario, or by itself if that is nil. A
	// spec with what the given one does not have is not chosen. Nil: nothing is.
	Lint func(context.Context, *simulation.Autoscaler, *simulation.Scenario) ([]string, error)
	// Redrawn is the scenario with another seed. Nil: it has another one for what is drawn while
	// it runs.
	Redrawn *simulation.Scenario
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
	// Progress is called after each run, one call at a time, with about how many there will be. May
	// be nil.
	Progress func(done, total int)
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
	// Trials are the results of what it was tried in to be chosen, up to the first one that it did
	// not pass. Nil: it was not.
	Trials []Trial
	// Changes is in how many parts it differs from the given spec.
	Changes int

	point    []float64
	order    int
	last     int32 // the count at the end of the searched part
	most     int32 // the highest count of the last run
	refused  bool  // by lint
	accepted bool
}

// Trial is a run in the part that confirms, as it is or changed, with what was allowed.
type Trial struct {
	Name           string
	Score, Allowed Score
	Passed         bool
}

// The trials. A node is a tenth of the pods, at least one: they vanish at the load's peak.
const (
	HeldOut    = "other days"
	OtherSeed  = "another seed"
	NodeFailed = "a node less"
	MoreLoad   = "load + 20 %"
)

// trial is one in which specs are tried.
type trial struct {
	name     string
	scenario *simulation.Scenario
	allowed  Score
	peak     time.Duration // of the load, where it counts
}

// Result is the result of a search.
type Result struct {
	// Given is the given spec.
	Given Candidate
	// Best is, of the specs that pass all trials and cost at most 5 % more than the cheapest of
	// these, the one with the fewest changes; if none passes the one that passes most; nil: none
	// reaches the goal. The given spec may be it. Passed tells which.
	Best   *Candidate
	Passed bool
	// Cheapest is the cheapest that passes all trials, nil: none does.
	Cheapest *Candidate
	// Refused counts the specs that reach the goal and have new findings of Lint.
	Refused int
	// Front are the candidates that no other one beats in both cost and shortage,
	// cheapest first, at most MaxFront.
	Front []Candidate
	// Tried counts the candidates, TooLarge those that were too large to run.
	Tried, TooLarge int
	// Split is the offset between the parts.
	Split time.Duration
}

// MaxFront limits Result.Front, and maxSimpler the candidates of few changes that are tried.
const (
	MaxFront   = 12
	maxSimpler = 16
)

// batch is how many candidates are created at a time: later ones use the results of earlier
// ones.
const batch = 32

// search is a search in progress.
type search struct {
	whole, first *simulation.Scenario
	trials       []trial
	given        *simulation.Autoscaler
	goal         Goal
	limit        Score // the goal in the searched part
	own          []string
	options      Options
	space        space
	mu           sync.Mutex
	done         int
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

// InputError is about a scenario, a spec or options that can't be searched.
type InputError struct{ error }

// Unwrap returns what is wrong.
func (e InputError) Unwrap() error { return e.error }

// Run searches. It ends with the context's error when the context does, and with an InputError if there is nothing to
// search.
func Run(ctx context.Context, s *simulation.Scenario, a *simulation.Autoscaler, goal Goal, options Options) (*Result, error) {
	search, err := newSearch(s, a, goal, options)
	if err != nil {
		return nil, InputError{err}
	}
	return search.run(ctx)
}

func newSearch(s *simulation.Scenario, a *simulation.Autoscaler, goal Goal, options Options) (*search, error) {
	if err := simulation.Check(s, a); err != nil {
		return nil, err
	}
	options.Candidates = cmp.Or(options.Candidates, DefaultCandidates)
	if options.Candidates < 0 || options.Candidates > MaxCandidates {
		return nil, fmt.Errorf("%d candidates: must be between 1 and %d", options.Candidates, MaxCandidates)
	}
	if options.Work <= 0 || options.Work > MaxWork {
		options.Work = MaxWork
	}
	if options.Workers <= 0 {
		options.Workers = runtime.GOMAXPROCS(0)
	}
	for _, name := range options.Vary {
		if !slices.Contains(Names, name) {
			return nil, fmt.Errorf("%q can't be varied: must be one of %v", name, Names)
		}
	}
	search := &search{whole: s, given: a, goal: goal, options: options, space: newSpace(a, options.LeastReplicas, options.Vary)}
	if len(search.space.varied) == 0 {
		return nil, fmt.Errorf("there is nothing to vary: minReplicas stays 0 where the stage idle scales to zero; vary others of %v", Names)
	}
	return search, search.prepare()
}

// prepare makes the parts of the time and the trials.
func (s *search) prepare() error {
	first, second, err := split(s.whole, s.given)
	if err != nil {
		return err
	}
	redrawn := *s.whole
	redrawn.Seed++
	if s.options.Redrawn != nil {
		redrawn = *s.options.Redrawn
	}
	_, other, err := split(&redrawn, s.given)
	if err != nil {
		return err
	}
	more := *second
	if more.Load, err = second.Load.Scale(moreLoad); err != nil {
		return err
	}
	s.first, s.trials = first, []trial{{name: HeldOut, scenario: second}, {name: OtherSeed, scenario: other}, {name: NodeFailed, scenario: second, peak: peakOf(second)}, {name: MoreLoad, scenario: &more}}
	return nil
}

// moreLoad is the load of MoreLoad.
const moreLoad = 1.2

func (s *search) run(ctx context.Context) (*Result, error) {
	all := []Candidate{{Spec: s.given.Spec}}
	given := &all[0]
	if err := s.search(ctx, all); err != nil {
		return nil, err
	}
	if math.IsInf(given.Searched.Cost, 1) {
		return nil, fmt.Errorf("the given spec: %w", simulation.ErrTooMuch)
	}
	s.limit = s.goal.allowed(given.Searched, s.first.Duration)
	given.Reached = within(given.Searched, s.limit)
	if err := s.tooMuch(s.options.Candidates); err != nil {
		return nil, err
	}
	result := &Result{Split: s.first.Duration}
	for len(all) <= s.options.Candidates {
		next := s.propose(all, min(batch, s.options.Candidates+1-len(all)))
		if err := s.search(ctx, next); err != nil {
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
	if err := s.measure(ctx, &all[0]); err != nil {
		return nil, err
	}
	result.Given = all[0]
	simpler, err := s.choose(ctx, all, result)
	if err != nil {
		return nil, err
	}
	result.Front = front(append(all, simpler...))
	return result, s.each(ctx, len(result.Front), func(ctx context.Context, i int) error {
		if result.Front[i].Trials != nil {
			return nil
		}
		return s.try(ctx, &result.Front[i], 0)
	})
}

// measure runs the given spec in all trials: what is allowed there depends on it.
func (s *search) measure(ctx context.Context, given *Candidate) (err error) {
	if s.options.Lint != nil {
		if s.own, err = s.options.Lint(ctx, s.given, s.whole); err != nil {
			return err
		}
	}
	for i := range s.trials {
		t := &s.trials[i]
		score, err := s.score(ctx, t, given)
		if err != nil {
			return err
		}
		t.allowed = s.goal.allowed(score, t.scenario.Duration)
		switch t.name {
		case HeldOut:
		case OtherSeed:
			t.allowed.Short = max(t.allowed.Short, score.Short)
		default:
			t.allowed = t.allowed.doubled(t.scenario.Duration, score)
		}
		given.note(t, score)
	}
	return nil
}

// doubled is what is allowed where more goes wrong than the goal is for: twice as much, and ten
// minutes short, or what the given spec does. Of a run of few minutes that is all of the time.
func (s Score) doubled(length time.Duration, given Score) Score {
	s.Short = min(1, max(2*s.Short+float64(10*time.Minute)/float64(length), given.Short))
	s.Lost = min(1, max(2*s.Lost+10*LostSlack, given.Lost))
	s.Reversals = max(2*s.Reversals, given.Reversals)
	return s
}

// note adds a trial's result.
func (c *Candidate) note(t *trial, score Score) {
	passed := within(score, t.allowed)
	c.Trials = append(c.Trials, Trial{t.name, score, t.allowed, passed})
	if t.name == HeldOut {
		c.Confirmed, c.Holds = score, passed
	}
}

// try runs one trial of a candidate.
func (s *search) try(ctx context.Context, c *Candidate, trial int) error {
	score, err := s.score(ctx, &s.trials[trial], c)
	if err == nil {
		c.note(&s.trials[trial], score)
	}
	return err
}

// accept tries a candidate until it is refused by lint, or fails a trial. The scenario's lint takes
// the longest, and is the last.
func (s *search) accept(ctx context.Context, c *Candidate) error {
	if refused, err := s.lint(ctx, c, nil); refused || err != nil {
		return err
	}
	c.Trials = nil
	for i := range s.trials {
		if err := s.try(ctx, c, i); err != nil {
			return err
		}
		if !c.Trials[i].Passed {
			return nil
		}
	}
	refused, err := s.lint(ctx, c, s.whole)
	c.accepted = err == nil && !refused
	return err
}

func (s *search) lint(ctx context.Context, c *Candidate, scenario *simulation.Scenario) (bool, error) {
	if s.options.Lint == nil || c.Changes == 0 {
		return false, nil
	}
	a := *s.given
	a.Spec = c.Spec
	found, err := s.options.Lint(ctx, &a, scenario)
	c.refused = slices.ContainsFunc(found, func(id string) bool { return !slices.Contains(s.own, id) })
	return c.refused, err
}

// together is how many candidates are tried at once, whatever the number of workers.
const together = 4

// firstAccepted tries candidates in their order.
func (s *search) firstAccepted(ctx context.Context, candidates []*Candidate) (*Candidate, error) {
	for len(candidates) > 0 {
		n := min(together, len(candidates))
		if err := s.each(ctx, n, func(ctx context.Context, i int) error { return s.accept(ctx, candidates[i]) }); err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(candidates[:n], func(c *Candidate) bool { return c.accepted }); i >= 0 {
			return candidates[i], nil
		}
		candidates = candidates[n:]
	}
	return nil, nil
}

// choose finds the cheapest candidate that passes, and the simplest that costs hardly more. It returns
// those that take back changes of the cheapest.
func (s *search) choose(ctx context.Context, all []Candidate, result *Result) (simpler []Candidate, err error) {
	var reach, some []*Candidate
	for i := range all {
		if all[i].Reached {
			reach = append(reach, &all[i])
		}
	}
	slices.SortStableFunc(reach, func(a, b *Candidate) int { return byCost(*a, *b) })
	// Ever fewer of those that cost ever more.
	for i := 0; i < len(reach); i += 1 + i/8 {
		some = append(some, reach[i])
	}
	cheapest, err := s.firstAccepted(ctx, some)
	if err != nil {
		return nil, err
	}
	if result.Cheapest, result.Passed = cheapest, cheapest != nil; cheapest == nil {
		for _, c := range some {
			if !c.refused && (result.Best == nil || len(c.Trials) > len(result.Best.Trials)) {
				result.Best = c
			}
		}
	} else if result.Best, simpler, err = s.simplest(ctx, reach, cheapest); err != nil {
		return nil, err
	} else if result.Best.Searched.Cost < cheapest.Searched.Cost {
		result.Cheapest = result.Best
	}
	for _, c := range reach {
		if c.refused {
			result.Refused++
		}
	}
	return simpler, nil
}

// simplest is the candidate of fewest changes that costs hardly more than the cheapest, which may be
// it: of those that were tried, and of those that take back changes of the cheapest one by one, which it
// returns, too.
func (s *search) simplest(ctx context.Context, reach []*Candidate, cheapest *Candidate) (found *Candidate, back []Candidate, err error) {
	most := near * cheapest.Searched.Cost
	simpler := slices.DeleteFunc(slices.Clone(reach), func(c *Candidate) bool { return c.Changes >= cheapest.Changes || c.Searched.Cost > most })
	for at := cheapest; at.point != nil; {
		var next []Candidate
		for d := range at.point {
			if at.point[d] >= 0 {
				point := slices.Clone(at.point)
				point[d] = -1
				next = append(next, s.candidate(point, at.order))
			}
		}
		if err := s.search(ctx, next); err != nil {
			return nil, nil, err
		}
		back = append(back, next...)
		next = slices.DeleteFunc(next, func(c Candidate) bool { return !c.Reached || c.Searched.Cost > most || c.Changes >= at.Changes })
		if len(next) == 0 {
			break
		}
		slices.SortStableFunc(next, byCost)
		for i := range next {
			simpler = append(simpler, &next[i])
		}
		at = &next[0]
	}
	slices.SortStableFunc(simpler, func(a, b *Candidate) int { return cmp.Or(cmp.Compare(a.Changes, b.Changes), byCost(*a, *b)) })
	found, err = s.firstAccepted(ctx, simpler[:min(len(simpler), maxSimpler)])
	return cmp.Or(found, cheapest), back, err
}

func (s *search) candidate(point []float64, order int) Candidate {
	c := Candidate{Spec: s.space.spec(point), point: point, order: order}
	c.Changes = changes(&s.given.Spec, &c.Spec)
	return c
}

// changes counts the parts in which two specs differ.
func changes(a, b *recommender.Spec) (n int) {
	differ := func(a, b any) {
		if !reflect.DeepEqual(a, b) {
			n++
		}
	}
	differ(a.MinReplicas, b.MinReplicas)
	for i := range a.Metrics {
		differ(a.Metrics[i].Target, b.Metrics[i].Target)
	}
	defaults := &recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.DefaultScaleDown()}
	one, other := cmp.Or(a.Behavior, defaults), cmp.Or(b.Behavior, defaults)
	for _, rules := range [][2]*recommender.ScalingRules{{&one.ScaleUp, &other.ScaleUp}, {&one.ScaleDown, &other.ScaleDown}} {
		differ(rules[0].StabilizationWindowSeconds, rules[1].StabilizationWindowSeconds)
		differ(rules[0].Tolerance, rules[1].Tolerance)
		differ([]any{rules[0].SelectPolicy, rules[0].Policies}, []any{rules[1].SelectPolicy, rules[1].Policies})
	}
	return n
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

// search runs candidates in the part that is searched.
func (s *search) search(ctx context.Context, candidates []Candidate) error {
	return s.each(ctx, len(candidates), func(ctx context.Context, i int) error {
		c := &candidates[i]
		score, last, err := s.play(ctx, s.first, c)
		c.Searched, c.Reached, c.last = score, within(score, s.limit), last
		return err
	})
}

// each calls a function for a number of things, as many at a time as there are workers.
func (s *search) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wait sync.WaitGroup
	for range min(s.options.Workers, n) {
		wait.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
	return context.Cause(ctx)
}

// score runs a candidate in a trial. It continues with the count at the end of the searched part:
// within a wide tolerance another one would stay.
func (s *search) score(ctx context.Context, t *trial, c *Candidate) (Score, error) {
	world, last := *t.scenario, c.last
	switch t.name {
	case MoreLoad:
		last = min(int32(math.Ceil(moreLoad*float64(last))), c.Spec.MaxReplicas, simulation.MaxPods)
	case NodeFailed:
		gone := simulation.Event{At: t.peak, Kind: simulation.KillPods, Pods: int(max(1, (c.most+9)/10))}
		i, _ := slices.BinarySearchFunc(world.Events, gone.At, func(e simulation.Event, at time.Duration) int { return cmp.Compare(e.At, at) })
		world.Events = slices.Insert(slices.Clone(world.Events), i, gone)
	}
	world.Workload.Replicas = &last
	score, _, err := s.play(ctx, &world, c)
	return score, err
}

// peakOf is when the load of a scenario is highest.
func peakOf(s *simulation.Scenario) (peak time.Duration) {
	end := s.Duration - time.Second
	most := s.Load.At(0)
	higher := func(at time.Duration) {
		if load := s.Load.At(at); load > most {
			peak, most = at, load
		}
	}
	for _, p := range s.Load.Points() {
		switch {
		case p.At <= 0 || p.At > end:
		case s.Load.At(p.At) < p.Value: // it falls at once
			higher(max(0, p.At-time.Second))
		default:
			higher(p.At)
		}
	}
	higher(end)
	return peak
}

// play runs a candidate, and returns the last count.
func (s *search) play(ctx context.Context, scenario *simulation.Scenario, c *Candidate) (score Score, last int32, err error) {
	a := *s.given
	a.Spec = c.Spec
	result, err := simulation.RunWithin(ctx, scenario, &a, simulation.Limits{}, func(step *simulation.Step) error {
		last = step.Decision.Desired
		return nil
	})
	var work int64
	score = Score{Short: 1, Lost: 1, Reversals: math.Inf(1), Cost: math.Inf(1)}
	switch {
	case errors.Is(err, simulation.ErrTooMuch):
		work = simulation.MaxWork
	case err != nil:
		return score, last, err
	default:
		work = result.Work
		f, hours := &result.Figures, scenario.Duration.Hours()
		score = Score{Short: f.ShortTime.Hours() / hours, Reversals: float64(f.Reversals) * 24 / hours, Cost: f.RunningHours / hours}
		if f.Offered > 0 {
			score.Lost = f.Lost / f.Offered
		}
		c.most = f.Most
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work += work
	if s.done++; s.options.Progress != nil {
		s.options.Progress(s.done, max(s.done, s.options.Candidates+afterwards))
	}
	return score, last, nil
}

// afterwards is about how many runs a choice takes.
const afterwards = 80

// allowed is the goal for a run of some length, of which the given spec's score is known.
func (g *Goal) allowed(given Score, length time.Duration) Score {
	days := length.Hours() / 24
	out := Score{Short: g.MaxShort, Lost: given.Lost + LostSlack, Reversals: given.Reversals + math.Ceil(days)/days, Cost: math.MaxFloat64}
	if g.MaxLost != nil {
		out.Lost = *g.MaxLost
	}
	if g.MaxReversals != nil {
		out.Reversals = *g.MaxReversals
	}
	return out
}

// exact is by how much figures differ that are the same.
const exact = 1e-9

// within reports whether a score is no worse than what is allowed.
func within(s, allowed Score) bool {
	return s.Cost <= allowed.Cost && s.Short <= allowed.Short+exact && s.Lost <= allowed.Lost+exact && s.Reversals <= allowed.Reversals+exact
}

// miss is by how much a score misses what is allowed, 0: it does not.
func miss(s, allowed Score) float64 {
	return max(0, s.Short-allowed.Short) + max(0, s.Lost-allowed.Lost) + max(0, s.Reversals-allowed.Reversals)/100
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
	if s.Loop.Offset >= at {
		return nil, nil, fmt.Errorf("loop.offset: is %s, must be below %s: nothing is decided before it, and a search takes decisions in that part of the time", s.Loop.Offset, at)
	}
	one, two := *s, *s
	one.Duration, two.Duration = at, s.Duration-at
	period := cmp.Or(s.Loop.SyncPeriod, simulation.DefaultPeriod)
	two.Loop.Offset = ((s.Loop.Offset-at)%period + period) % period // the evaluations go on
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
			if e.At+e.For <= at {
				continue
			}
			e.At, e.For = at, e.At+e.For-at // it goes on
		}
		e.At -= at
		two.Events = append(two.Events, e)
	}
	return &one, &two, nil
}
