package staged

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/conformance/differential"
	"github.com/setpoint-dev/setpoint/conformance/generate"
)

// Finding is a step that comes out otherwise.
type Finding struct {
	Stage, Profile string
	Seed           uint64
	Step           int
	Around         string
	Differences    []recording.Difference
}

// Comparer compares scenarios with stages. It is not safe for concurrent use.
type Comparer struct {
	version differential.Version
	service *differential.Service
	// real is the version's controller, surge the one with kubernetes#141134; beside each is the one for
	// numbers out of range.
	real, surge [2]*differential.Oracle
}

// Counts are what was compared.
type Counts struct {
	Scenarios, Steps int
	// Adjusted are the steps with an adjustment, Scaled those that wrote the scale.
	Adjusted, Scaled int
	// Cut are the scenarios that ended before a step whose edit no metrics API has words for, and Refused
	// and Undetermined those without an outcome of one side.
	Cut, Refused, Undetermined int
	// Saturated are the scenarios that were compared with the saturating controller.
	Saturated int
	// Differences are the intended ones, by name.
	Differences map[string]int
}

func (c *Counts) add(o *Counts) {
	c.Scenarios += o.Scenarios
	c.Steps += o.Steps
	c.Adjusted += o.Adjusted
	c.Scaled += o.Scaled
	c.Cut += o.Cut
	c.Refused += o.Refused
	c.Undetermined += o.Undetermined
	c.Saturated += o.Saturated
	for name, n := range o.Differences {
		c.Differences[name] += n
	}
}

// drawn are the stages of a scenario, and its parameters.
func drawn(stage string, seed uint64, profile string) ([]string, generate.Parameters) {
	p := generate.DefaultParameters(profile)
	p.Extreme, p.Invalid = 0, 0
	stages := []string{stage}
	if stage == Mixed {
		r := rand.New(rand.NewPCG(seed, 36))
		all := make([]string, 0, len(Stages))
		for _, s := range Stages {
			if s.Name != Mixed && s.Name != Fleets {
				all = append(all, s.Name)
			}
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		stages = all[:2+r.IntN(5)]
		if slices.Contains(stages, generate.Surge) {
			stages = slices.DeleteFunc(stages, func(s string) bool { return slices.Contains(generate.Proposing, s) })
		}
	}
	if slices.ContainsFunc(stages, func(s string) bool { return slices.Contains(generate.Proposing, s) }) {
		p.Tolerance, p.Zero = new(float64), generate.ZeroNever
	}
	switch stage {
	case generate.Fallbacks, generate.Window, generate.Combine, generate.ZeroGuards:
		p.Failing = true
	case generate.Reversals:
		p.Restless = true
	case generate.Surge:
		half := 0.5
		p.Tolerance = &half
	}
	if slices.Contains(stages, generate.Overrides) {
		p.Zero = generate.ZeroNever
	}
	if slices.Contains(stages, generate.Idle) && p.Zero == generate.ZeroSometimes {
		p.Zero = generate.ZeroAlways
	}
	return stages, p
}

// play is a scenario that Setpoint plays. It implements generate.Decider.
type play struct {
	*differential.Play
	ctx       context.Context
	service   *differential.Service
	stages    []string
	seed      uint64
	version   string
	drawer    *generate.Drawer
	scenario  *recording.Scenario
	inputs    []input
	current   input
	turned    int // the direction of the last change
	overrides []generate.Override
}

// Start implements generate.Decider.
func (p *play) Start(scenario *recording.Scenario) error {
	p.scenario, p.current.hpa = scenario, scenario.HPA
	// The controller changes the first of a type only, and edits of inputs go by the type.
	known := make(map[string]bool)
	scenario.HPA.Status.Conditions = slices.DeleteFunc(scenario.HPA.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		was := known[string(c.Type)]
		known[string(c.Type)] = true
		return was
	})
	p.Asking = p.asking
	return p.Play.Start(scenario)
}

// Decide implements generate.Decider.
func (p *play) Decide(s *recording.Step) (generate.Decision, error) {
	in := &p.current
	in.step, in.Around, in.unreadable = *s, generate.Around{}, false
	switch {
	case s.HPADeleted:
		in.hpa, in.turns, p.turned = nil, nil, 0
	case s.HPA != nil && in.hpa == nil:
		in.hpa = s.HPA.DeepCopy()
	case s.HPA != nil:
		in.hpa = s.HPA
	}
	d, err := p.Play.Decide(s)
	if err != nil {
		return d, err
	}
	in.overrides = slices.Clone(p.overrides)
	p.inputs = append(p.inputs, *in)
	if d.Scaled && len(p.turns(s, d)) > 0 {
		in.turns = append(slices.Clone(in.turns), s.Time.Truncate(time.Millisecond)) // as records have them
	}
	return d, nil
}

// turns returns the instant of a change in the other direction; changes by overrides have none.
func (p *play) turns(s *recording.Step, d generate.Decision) []time.Time {
	last := p.Outcomes[len(p.Outcomes)-1]
	for _, event := range last.Events {
		if strings.Contains(event.GetMessage(), "; reason: Overridden (") {
			return nil
		}
	}
	direction := 1
	if d.Replicas < s.Scale.Spec.Replicas {
		direction = -1
	}
	was := p.turned
	if p.turned = direction; was == -direction {
		return []time.Time{s.Time}
	}
	return nil
}

// asking adds what is drawn to a request.
func (p *play) asking(request *setpointv1.RecommendRequest) error {
	in := &p.current
	if p.drawer == nil {
		p.drawer = generate.NewDrawer(p.seed, p.version, in.step.Time, p.stages...)
	}
	in.Around = p.drawer.Next(&in.hpa.Spec, &p.scenario.Config, &in.step)
	in.unreadable = request.GetScaleError() != nil
	request.Stages, request.Proposals = in.Stages, in.Proposals
	if in.step.Time.Sub(epoch) > 364*24*time.Hour {
		in.Overrides = nil // they may begin a year ahead of the service's clock at most
	}
	for _, o := range in.Overrides {
		parts := strings.Split(request.GetTarget(), "/")
		created, err := p.service.Overrides.CreateOverride(p.ctx, &setpointv1.CreateOverrideRequest{
			Parent: strings.Join(parts[:2*o.Level], "/"), Override: o.Override,
		})
		if err != nil {
			return fmt.Errorf("create an override: %w", err)
		}
		p.overrides = append(p.overrides, generate.Override{Level: o.Level, Override: created.GetOverride()})
	}
	return nil
}

// Random compares the scenario of a seed with a stage. It returns nil where all steps are equal.
func (c *Comparer) Random(ctx context.Context, stage string, seed uint64, counts *Counts) (*Finding, error) {
	if stage == Fleets {
		return c.fleet(ctx, seed, counts)
	}
	stages, parameters := drawn(stage, seed, c.version.Profile)
	p := &play{
		Play: c.service.NewPlay(ctx, c.version.Profile, false), ctx: ctx, service: c.service, stages: stages, seed: seed, version: c.version.Profile,
	}
	scenario, err := generate.Scenario(seed, parameters, p)
	if endErr := p.End(); err == nil {
		err = endErr
	}
	if errors.Is(err, differential.ErrRefused) {
		counts.Refused++
		return nil, fmt.Errorf("%s %d: %w", stage, seed, err)
	}
	if err != nil {
		return nil, err
	}
	oracles := c.real
	if slices.Contains(stages, generate.Surge) {
		oracles = c.surge
	}
	result := &comparison{Differences: map[string]int{}}
	finding, err := c.compare(scenario, p, stages, oracles[0], 1, result)
	// A text may depend on the order of a map, or a number on the processor.
	for _, runs := range []int{24, 240} {
		if finding == nil || err != nil {
			break
		}
		result = &comparison{Differences: map[string]int{}}
		finding, err = c.compare(scenario, p, stages, oracles[0], runs, result)
	}
	if finding != nil && err == nil {
		saturated := &comparison{Differences: map[string]int{}}
		other, err := c.compare(scenario, p, stages, oracles[1], 24, saturated)
		if err == nil && other == nil {
			finding, result = nil, saturated
			counts.Saturated++
		}
	}
	if errors.Is(err, differential.ErrUndetermined) {
		counts.Undetermined++
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s %d: %w", stage, seed, err)
	}
	counts.add((*Counts)(result))
	counts.Adjusted += p.Adjusted
	if finding != nil {
		finding.Stage, finding.Profile, finding.Seed = stage, c.version.Profile, seed
	}
	return finding, nil
}

type comparison Counts

// isWoken reports whether a raised minimum wakes what was scaled to zero although no count can be computed: the
// controller, whose minimum somebody edited, stays at zero.
func (s *step) isWoken(e *recording.Expect) bool {
	return s.hpa != nil && s.Scale != nil && s.Scale.Spec.Replicas == 0 && minOf(&s.HPA.Spec) > minOf(&s.hpa.Spec) && kept(e) && !s.unreadable && !s.disabled(e)
}

// compare compares the outcomes of a play with those of an oracle, which runs each scenario that many times.
func (c *Comparer) compare(scenario *recording.Scenario, p *play, stages []string, oracle *differential.Oracle, runs int, counts *comparison) (*Finding, error) {
	e := &editor{scenario: scenario, inputs: p.inputs}
	cut, err := e.edit()
	if err != nil {
		return nil, err
	}
	if cut != "" {
		counts.Cut++
	}
	if len(e.steps) == 0 {
		return nil, nil
	}
	ask := func(steps []step) ([]recording.Expect, error) {
		return oracle.AskText(struct {
			*recording.Scenario
			Steps []step `json:"steps"`
		}{scenario, steps}, len(steps), runs)
	}
	if slices.ContainsFunc(stages, func(s string) bool { return slices.Contains(generate.Proposing, s) }) {
		if err := e.probe(ask); err != nil {
			return nil, err
		}
		e.propose()
		e.remember()
	}
	for i := range e.steps {
		if e.steps[i].of >= 0 {
			e.steps[i].limit()
		}
	}
	expects, err := ask(e.steps)
	if err != nil {
		return nil, err
	}
	for i := range e.steps {
		if e.steps[i].isWoken(&expects[i]) {
			e.steps, expects = e.steps[:i], expects[:i]
			counts.Cut++
			break
		}
	}
	expects = e.expected(expects, func(difference string) { counts.Differences[difference]++ })
	counts.Scenarios++
	for i := range expects {
		outcome := p.Outcomes[i]
		if own := withoutConditions(&outcome); own {
			counts.Differences[Conditions]++
		}
		forgive(&expects[i], &outcome)
		if differences := expects[i].Differences(outcome, nil); len(differences) > 0 {
			return &Finding{Step: i + 1, Around: p.inputs[i].text(), Differences: differences}, nil
		}
		counts.Steps++
		if outcome.Scaled {
			counts.Scaled++
		}
	}
	return nil, nil
}

// text is what is around a step, for a finding.
func (in *input) text() string {
	return strings.Join(strings.Fields(fmt.Sprintf("stages {%v} proposals %v overrides %v", in.Stages, in.Proposals, in.overrides)), " ")
}

// stageConditions are the conditions that only Setpoint has.
var stageConditions = []string{"Overridden", "ExternalMetricFallbackActive", "MetricFallbackActive", "MetricSuspect"}

// withoutConditions leaves out the stages' conditions, and reports whether there were any.
func withoutConditions(o *recording.Outcome) bool {
	if o.Status == nil {
		return false
	}
	o.Status = proto.Clone(o.Status).(*setpointv1.HorizontalPodAutoscalerStatus)
	before := len(o.Status.Conditions)
	o.Status.Conditions = slices.DeleteFunc(o.Status.Conditions, func(c *setpointv1.HorizontalPodAutoscalerCondition) bool {
		return slices.Contains(stageConditions, c.GetType())
	})
	return len(o.Status.Conditions) < before
}

// forgive takes Setpoint's reason of a condition whose reason the failed update has overwritten.
func forgive(e *recording.Expect, o *recording.Outcome) {
	for i := range e.Conditions {
		if c := &e.Conditions[i]; c.Reason == anyReason && i < len(o.Status.GetConditions()) {
			got := o.Status.GetConditions()[i]
			switch got.GetReason() {
			case "ReadyForNewScale", "ScaleDownStabilized", "ScaleUpStabilized", "SucceededGetScale":
				c.Reason, c.Message = got.GetReason(), recording.Text{Value: got.GetMessage()}
			}
		}
	}
}
