package generate

import (
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// TagExtreme marks scenarios in which numbers may overflow their type, so that outcomes
// depend on the controller's processor.
const TagExtreme = "extreme"

// Parameters configure scenarios. Start from [DefaultParameters].
type Parameters struct {
	// Version of Kubernetes, one of [Versions].
	Version string
	// Extreme is the share of scenarios with TagExtreme, 0 to 1.
	Extreme float64
	// Invalid is the share of scenarios with a spec that the API server would refuse at
	// some step, 0 to 1.
	Invalid float64
	// MaxSteps limits the steps of a scenario, 1 to 1000.
	MaxSteps int
	// MaxPods limits the workload's listed pods of a step. With more replicas, as many
	// are listed.
	MaxPods int
	// Tolerance is the controller's, and then specs have none; nil: as usual.
	Tolerance *float64
	// Restless makes counts follow loads without delay.
	Restless bool
	// Failing makes failures in the cluster frequent in each scenario.
	Failing bool
	// Zero is whether workloads may scale to zero: [ZeroSometimes], as the version does, [ZeroNever] or
	// [ZeroAlways].
	Zero Zero
}

// Zero is whether workloads of scenarios may scale to zero.
type Zero int

// The choices.
const (
	ZeroSometimes Zero = iota
	ZeroNever
	ZeroAlways
)

// DefaultParameters returns parameters for a differential test of a version.
func DefaultParameters(version string) Parameters {
	return Parameters{Version: version, Extreme: 0.01, Invalid: 0.02, MaxSteps: 40, MaxPods: 40}
}

// check returns what is wrong with the parameters.
func (p *Parameters) check() error {
	switch {
	case p.MaxSteps < 1 || p.MaxSteps > 1000:
		return fmt.Errorf("%d steps: must be 1 to 1000", p.MaxSteps)
	case p.MaxPods < 1 || p.MaxPods > 1000:
		return fmt.Errorf("%d pods: must be 1 to 1000", p.MaxPods)
	}
	return nil
}

// Decider returns the outcomes of the steps of one scenario.
type Decider interface {
	// Start gets the scenario, complete except for its steps, before the first step.
	Start(scenario *recording.Scenario) error
	// Decide returns the outcome of the next step. It is called once for every step, in
	// their order, and must not change it.
	Decide(step *recording.Step) (Decision, error)
}

// Decision is the outcome of a step.
type Decision struct {
	// Scaled reports whether the scale was written, Replicas is the written count.
	Scaled   bool
	Replicas int32
}

// Scenario generates the scenario of a seed. The error is the decider's, and comes with
// the scenario up to the failed step, or that of invalid parameters.
func Scenario(seed uint64, p Parameters, decider Decider) (*recording.Scenario, error) {
	v, err := versionByName(p.Version)
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	g := newGenerator(seed, p, v)
	if err := decider.Start(g.scenario); err != nil {
		return g.scenario, fmt.Errorf("%s: %w", g.scenario.Name, err)
	}
	for i := range g.stepCount() {
		g.scenario.Steps = append(g.scenario.Steps, g.step(i))
		decision, err := decider.Decide(&g.scenario.Steps[i])
		if err != nil {
			return g.scenario, fmt.Errorf("%s, step %d: %w", g.scenario.Name, i+1, err)
		}
		g.follow(&g.scenario.Steps[i], decision)
	}
	return g.scenario, nil
}

// generator generates one scenario.
type generator struct {
	random
	parameters Parameters
	version    *version
	scenario   *recording.Scenario
	// extreme allows numbers that overflow.
	extreme bool
	// invalidAt is the step with a spec that the API server refuses, -1: none.
	invalidAt int
	// spec is the current one, with derived values.
	spec spec
	// stored is the last stored spec, nil while there is no autoscaler, and generations
	// its generation.
	stored      *autoscalingv2.HorizontalPodAutoscalerSpec
	generations int64
	// clock, cluster and failures persist from step to step.
	clock    clock
	cluster  cluster
	failures failures
	person   person
}

func newGenerator(seed uint64, p Parameters, v *version) *generator {
	g := &generator{random: newRandom(seed, v.name), parameters: p, version: v, invalidAt: -1}
	g.extreme = g.chance(p.Extreme)
	if g.chance(p.Invalid) {
		g.invalidAt = g.IntN(3)
	}
	g.scenario = &recording.Scenario{
		Name: fmt.Sprintf("random/%s/%d", p.Version, seed), Source: "random", Config: g.config(v),
	}
	if p.Tolerance != nil {
		g.scenario.Config.Tolerance = *p.Tolerance
	}
	if p.Restless {
		g.scenario.Config.DownscaleStabilizationSeconds = 0
	}
	if p.Zero != ZeroSometimes {
		g.scenario.Config.ScaleToZero = p.Zero == ZeroAlways
	}
	if g.extreme {
		g.scenario.Tags = []string{TagExtreme}
	}
	g.clock = g.newClock()
	g.spec = g.newSpec()
	g.person = g.newPerson()
	g.failures = g.newFailures()
	g.cluster = g.newCluster()
	g.scenario.HPA = g.autoscaler()
	if g.chance(0.25) || g.cluster.replicas == 0 && g.chance(0.6) {
		g.scenario.HPA.Status = g.startingStatus()
	}
	g.scenario.OtherHPAs = g.otherHPAs()
	return g
}

// stepCount returns the number of steps: usually a dozen, because histories need some
// to fill, sometimes one, sometimes many.
func (g *generator) stepCount() int {
	n := pick(g.random, []weighted[int]{
		{1, 1},
		{3, g.between(2, 6)},
		{6, g.between(6, 18)},
		{2.2, g.between(18, 40)},
	})
	return min(n, g.parameters.MaxSteps)
}

// step generates the step with index i.
func (g *generator) step(i int) recording.Step {
	step := recording.Step{Time: g.nextTime(i)}
	if i > 0 {
		g.intervene(&step)
	}
	if i == g.invalidAt {
		g.spoil(&step)
	}
	g.live()
	step.Scale = g.scale()
	g.measure(&step)
	g.fail(&step)
	return step
}

// follow applies the decision to the cluster, or not.
func (g *generator) follow(step *recording.Step, d Decision) {
	g.clock.passed = append(g.clock.passed, step.Time)
	if !d.Scaled {
		return
	}
	g.clock.scaled = append(g.clock.scaled, step.Time)
	g.cluster.decided(d.Replicas)
}

// since returns the time since the scenario's start.
func (g *generator) since() time.Duration { return g.clock.now.Sub(g.clock.start) }
