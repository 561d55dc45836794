package differential

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/conformance/generate"
)

// How often the oracle runs a scenario: usually; if a text differs, to find out whether
// it is determined; and before that is reported as a finding. A map of three keys starts
// with the same one in three of four runs, so 24 runs all agree by chance once in a
// thousand times.
const (
	usualRuns     = 2
	doubtedRuns   = 24
	confirmedRuns = 240
)

// Comparer compares a version's controller with Setpoint. It is not safe for
// concurrent use; several may share a service.
type Comparer struct {
	version Version
	service *Service
	oracle  *Oracle
	// saturating is the same controller with conversions that saturate.
	saturating *Oracle
	census     *Census
}

// NewComparer returns a comparer that counts in the census. saturating is the oracle
// for outcomes that depend on the processor.
func NewComparer(version Version, service *Service, oracle, saturating *Oracle, census *Census) *Comparer {
	return &Comparer{version, service, oracle, saturating, census}
}

// Finding is a step with an outcome that differs from the real controller's.
type Finding struct {
	// Scenario ends with the step, and has the controller's outcomes.
	Scenario *recording.Scenario
	// Differences of the step.
	Differences []recording.Difference
}

// Random creates the scenario of a seed and compares it. Nil: all steps are equal.
func (c *Comparer) Random(ctx context.Context, seed uint64) (*Finding, error) {
	// Explanations use another path through the service; so half of the runs are
	// without.
	play := c.service.NewPlay(ctx, c.version.Profile, seed%2 == 0)
	scenario, err := generate.Scenario(seed, generate.DefaultParameters(c.version.Profile), play)
	if endErr := play.End(); err == nil {
		err = endErr
	}
	if errors.Is(err, ErrRefused) {
		c.census.refused()
		play = newEnginePlay(ctx, c.version.Profile)
		scenario, err = generate.Scenario(seed, generate.DefaultParameters(c.version.Profile), play)
	}
	if err != nil {
		return nil, err
	}
	return c.compare(ctx, scenario, play)
}

// Known compares an existing scenario.
func (c *Comparer) Known(ctx context.Context, scenario *recording.Scenario) (*Finding, error) {
	scenario = bare(scenario)
	play, err := c.play(ctx, scenario)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", scenario.Name, err)
	}
	return c.compare(ctx, scenario, play)
}

// play plays a scenario with explanations: by the service, or by the engine if that refuses it.
func (c *Comparer) play(ctx context.Context, scenario *recording.Scenario) (*Play, error) {
	play := c.service.NewPlay(ctx, c.version.Profile, true)
	err := play.Run(scenario)
	if errors.Is(err, ErrRefused) {
		play = newEnginePlay(ctx, c.version.Profile)
		err = play.Run(scenario)
	}
	return play, err
}

// bare returns the scenario without outcomes.
func bare(scenario *recording.Scenario) *recording.Scenario {
	s := *scenario
	s.Steps = slices.Clone(s.Steps)
	for i := range s.Steps {
		s.Steps[i].Expect, s.Steps[i].PlatformDependent = nil, nil
	}
	return &s
}

// comparison is the result of a scenario.
type comparison struct {
	// expects are the controller's outcomes: from step saturated on those of the
	// saturating one; saturated is the number of steps if the real one sufficed.
	expects   []recording.Expect
	saturated int
	// at is the first step that differs, differences are its differences; nil: none.
	at          int
	differences []recording.Difference
}

// compare compares the outcomes of a play.
func (c *Comparer) compare(ctx context.Context, scenario *recording.Scenario, play *Play) (*Finding, error) {
	result, err := c.differ(ctx, scenario, play, doubtedRuns)
	if err == nil && result.differences != nil {
		result, err = c.differ(ctx, scenario, play, confirmedRuns)
	}
	switch {
	case errors.Is(err, ErrUndetermined):
		c.census.undetermined(scenario.Name, err)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", scenario.Name, err)
	}
	c.census.add(result, c.version)
	if result.differences == nil {
		return nil, nil
	}
	for i := range result.expects {
		scenario.Steps[i].Expect = &result.expects[i]
	}
	scenario.Steps = scenario.Steps[:result.at+1]
	return &Finding{scenario, result.differences}, nil
}

// differ compares every step with the real controller. If an outcome differs, or an
// explanation says that it depends on the processor, it also compares every step with
// the saturating one, which must agree completely.
//
// runs is how often a difference is checked.
func (c *Comparer) differ(ctx context.Context, scenario *recording.Scenario, play *Play, runs int) (*comparison, error) {
	expects, err := c.oracle.Ask(scenario, usualRuns)
	if err != nil {
		return nil, err
	}
	at, differences := c.firstDifference(expects, play.Outcomes)
	if differences != nil {
		// A difference. It may be a text that depends on the order of a map.
		if expects, err = c.oracle.Ask(scenario, runs); err != nil {
			return nil, err
		}
		at, differences = c.firstDifference(expects, play.Outcomes)
	}
	if differences == nil && play.Platform < 0 {
		return &comparison{expects: expects, saturated: len(expects), at: at}, nil
	}
	return c.differSaturating(ctx, scenario, play, expects, runs)
}

// differSaturating compares with the saturating controller, which runs that many times.
func (c *Comparer) differSaturating(ctx context.Context, scenario *recording.Scenario, play *Play, actual []recording.Expect, runs int) (*comparison, error) {
	expects, err := c.saturating.Ask(scenario, runs)
	if err != nil {
		return nil, err
	}
	result := &comparison{expects: expects, saturated: len(expects)}
	if result.at, result.differences = c.firstDifference(expects, play.Outcomes); result.differences != nil {
		return result, nil
	}
	apart, _ := c.firstDifference(actual, play.Outcomes)
	if apart == len(expects) {
		return result, nil
	}
	result.saturated = apart
	// The two controllers diverge here: an explanation must have said so, here or
	// before.
	if !play.explain {
		if play, err = c.play(ctx, scenario); err != nil {
			return nil, err
		}
	}
	if play.Platform < 0 || play.Platform > apart {
		result.at = apart
		result.differences = []recording.Difference{{
			Field: "explanation.warnings", Want: "one that the outcome depends on the processor", Got: "none",
		}}
	}
	return result, nil
}

func (c *Comparer) firstDifference(expects []recording.Expect, outcomes []recording.Outcome) (int, []recording.Difference) {
	expects, outcomes = c.version.sameWords(expects, outcomes)
	for i := range expects {
		if differences := expects[i].Differences(outcomes[i], nil); len(differences) > 0 {
			return i, differences
		}
	}
	return len(expects), nil
}

// How often, and how long, smaller scenarios are tried.
const (
	shrinkCalls = 2000
	shrinkTime  = time.Minute
)

// Shrink minimizes a finding: it returns the smallest scenario found whose last step
// differs in one of the same fields.
func (c *Comparer) Shrink(ctx context.Context, f *Finding) (*Finding, error) {
	fields := map[string]bool{}
	for _, d := range f.Differences {
		fields[d.Field] = true
	}
	best, calls, began := f, 0, time.Now()
	silent := *c
	silent.census = NewCensus()
	smaller(bare(f.Scenario), func(candidate *recording.Scenario) bool {
		if calls++; calls > shrinkCalls || time.Since(began) > shrinkTime {
			return false
		}
		found, err := silent.Known(ctx, candidate)
		if err != nil || found == nil || !slices.ContainsFunc(found.Differences, func(d recording.Difference) bool { return fields[d.Field] }) {
			return false
		}
		best = found
		return true
	})
	if len(best.Scenario.Steps) == 0 {
		return nil, errors.New("nothing is left of the scenario")
	}
	return best, nil
}
