package generate

import (
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// TagExtreme marks scenarios in which numbers may leave the range of their type, so
// that what comes of them depends on the processor of the controller.
const TagExtreme = "extreme"

// Parameters say what scenarios are like. Start from [DefaultParameters].
type Parameters struct {
	// Version of Kubernetes, one of [Versions].
	Version string
	// Extreme is the share of scenarios that carry TagExtreme, 0 to 1.
	Extreme float64
	// Invalid is the share of scenarios at some step of which the API server would
	// not take the spec, 0 to 1.
	Invalid float64
	// MaxSteps bounds the steps of a scenario, 1 to 1000.
	MaxSteps int
	// MaxPods bounds the pods of a step that belong to the workload. One with more
	// replicas shows as many.
	MaxPods int
}

// DefaultParameters returns what suits a differential test of a version.
func DefaultParameters(version string) Parameters {
	return Parameters{Version: version, Extreme: 0.01, Invalid: 0.0003, MaxSteps: 40, MaxPods: 40}
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

// Decider says what comes of the steps of one scenario.
type Decider interface {
	// Start is told of the scenario before its first step: everything but the
	// steps is there.
	Start(scenario *recording.Scenario) error
	// Decide says what comes of the next step. It is asked about every step once,
	// in their order, and only reads it.
	Decide(step *recording.Step) (Decision, error)
}

// Decision is what came of a step.
type Decision struct {
	// Scaled reports whether the scale was written, Replicas with which count.
	Scaled   bool
	Replicas int32
}

// Scenario makes the scenario of a seed. An error is that of the decider, and then
// comes with the scenario up to the step that it failed at, or one of parameters
// that make no sense.
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

// generator makes one scenario.
type generator struct {
	random
	parameters Parameters
	version    *version
	scenario   *recording.Scenario
	// extreme allows numbers out of range.
	extreme bool
	// invalidAt is the step whose spec is one that the API server refuses, -1: none.
	invalidAt int
	// spec as it stands, and what else it is about.
	spec spec
	// stored is the spec that was stored last, nil while there is no autoscaler, and
	// generations that one's generation.
	stored      *autoscalingv2.HorizontalPodAutoscalerSpec
	generations int64
	// clock, cluster and failures go on from step to step.
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

// stepCount returns how many steps there are: mostly a dozen, for histories need
// some to fill, at times one, at times many.
func (g *generator) stepCount() int {
	n := pick(g.random, []weighted[int]{
		{1, 1},
		{3, g.between(2, 6)},
		{6, g.between(6, 18)},
		{2.2, g.between(18, 40)},
	})
	return min(n, g.parameters.MaxSteps)
}

// step makes the step with index i.
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

// follow lets the cluster do what was decided, or not.
func (g *generator) follow(step *recording.Step, d Decision) {
	g.clock.passed = append(g.clock.passed, step.Time)
	if !d.Scaled {
		return
	}
	g.clock.scaled = append(g.clock.scaled, step.Time)
	g.cluster.decided(d.Replicas)
}

// since returns the time from the scenario's start to its present instant.
func (g *generator) since() time.Duration { return g.clock.now.Sub(g.clock.start) }
