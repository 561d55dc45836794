package staged

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/conformance/differential"
	"github.com/setpoint-dev/setpoint/conformance/generate"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// Fleets are scenarios whose pods, replicas and series belong to 2 to 8 clusters: the fleet decides from their
// digests, the real controller from all of them.
const Fleets = "fleets"

// errNoUnion ends a scenario: no fleet has that step.
var errNoUnion = errors.New("no fleet has that")

// allClusters is a scenario that a fleet plays. It implements generate.Decider.
type allClusters struct {
	*rand.Rand
	profile string
	player  *recording.Player
	spec    *fleet.Spec
	record  fleet.Record
	// bySight is the history before the last decision's change was told to be applied, to desired replicas:
	// the fleet may see it. Nil: the change failed, or there was none.
	bySight *recommender.History
	desired int32
	scale   *autoscalingv1.Scale
	// owners are the members of pods by name, and global the metrics by index that all members read alike.
	owners   map[string]int
	global   [64]bool
	decided  uint64
	steps    []recording.Step
	outcomes []recording.Outcome
}

func newAllClusters(seed uint64, profile string) *allClusters {
	a := &allClusters{Rand: rand.New(rand.NewPCG(seed, 32)), profile: profile, owners: map[string]int{}}
	a.spec = &fleet.Spec{StaleAfter: time.Minute, LostAfter: time.Hour}
	for i := range 2 + a.IntN(7) {
		a.spec.Members = append(a.spec.Members, fleet.Member{Name: fmt.Sprintf("cluster-%d", i), Weight: int32(1 + a.IntN(fleet.MaxWeight)), Max: -1})
	}
	for i := range a.global {
		a.global[i] = a.IntN(3) == 0
	}
	return a
}

// Start implements generate.Decider. A fleet has no status from before, and no other autoscalers.
func (a *allClusters) Start(scenario *recording.Scenario) error {
	scenario.Config.Profile = a.profile
	if a.profile == differential.Versions()[0].Profile {
		scenario.Config.Profile = ""
	}
	scenario.HPA.Status, scenario.OtherHPAs = autoscalingv2.HorizontalPodAutoscalerStatus{}, nil
	a.player = recording.NewPlayer(scenario)
	return nil
}

// Decide implements generate.Decider.
func (a *allClusters) Decide(given *recording.Step) (generate.Decision, error) {
	step := *given
	if step.HPA != nil {
		step.HPA = step.HPA.DeepCopy()
		step.HPA.Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
	}
	// A member that can't see its replicas or pods is stale; these are fresh.
	if selector := step.Scale.DeepCopy(); step.ScaleGetError != "" || unusual(selector) {
		if a.scale == nil {
			return generate.Decision{}, errNoUnion
		}
		if selector == nil {
			selector = a.scale.DeepCopy()
		}
		selector.Status.Selector = a.scale.Status.Selector
		step.Scale, step.ScaleGetError = selector, ""
	}
	a.scale = step.Scale
	request, err := a.player.Request(&step, "all")
	if err != nil {
		return generate.Decision{}, err
	}
	if request == nil {
		a.record, a.bySight = fleet.Record{}, nil
		a.steps, a.outcomes = append(a.steps, step), append(a.outcomes, recording.Outcome{})
		return generate.Decision{}, nil
	}
	in, violations := conversion.Input(request, recommender.DefaultOptions())
	if len(violations) > 0 {
		return generate.Decision{}, fmt.Errorf("%w: %v", differential.ErrRefused, violations)
	}
	decision, err := a.decide(&step, in)
	if err != nil {
		return generate.Decision{}, err
	}
	answer := conversion.Response(decision)
	var report *setpointv1.ReportScaleResponse
	applied := step.ScaleUpdateError == ""
	if a.bySight = nil; decision.Changes() {
		if report, err = a.settle(decision, step.ScaleUpdateError); err != nil {
			return generate.Decision{}, err
		}
	}
	out := recording.OutcomeOf(answer, report, applied)
	forgetOwners(&out)
	a.steps, a.outcomes = append(a.steps, step), append(a.outcomes, out)
	return generate.Decision{Scaled: out.Scaled, Replicas: out.ScaledTo}, nil
}

// unusual reports whether pods can't be selected by the scale.
func unusual(scale *autoscalingv1.Scale) bool {
	return scale == nil || !strings.Contains(scale.Status.Selector, "=") && !strings.Contains(scale.Status.Selector, " in (") ||
		strings.HasSuffix(scale.Status.Selector, ",=") || strings.HasSuffix(scale.Status.Selector, "(web")
}

// settle tells that the change was applied, or why not.
func (a *allClusters) settle(d *recommender.Decision, failed string) (*setpointv1.ReportScaleResponse, error) {
	outcome := recommender.Applied
	if failed != "" {
		outcome = recommender.Failed
	} else {
		a.bySight, a.desired = a.record.History, d.Desired
	}
	settlement, next, err := recommender.Settle(*a.record.History, a.spec.Namespace, d.ID, outcome, failed)
	if err != nil {
		return nil, err
	}
	a.record.History = &next
	return conversion.Settlement(d.ID.String(), &settlement), nil
}

// decide has all members call at the step's time. The last call makes the decision; then each learns its
// share.
func (a *allClusters) decide(step *recording.Step, in *recommender.Input) (*recommender.Decision, error) {
	if a.bySight != nil && in.Scale.SpecReplicas == a.desired && a.IntN(2) == 0 {
		a.record.History = a.bySight // nobody told that it was applied: it is seen
	}
	s := a.spec
	a.decided++
	s.Version, s.Engine, s.Options, s.Namespace = a.decided, in.Spec, in.Options, in.Namespace
	s.Generation, s.HasGeneration = in.Generation, in.HasGeneration
	s.Scopes = make([]fleet.Scope, len(in.Spec.Metrics))
	for i := range s.Scopes {
		if a.global[i%len(a.global)] {
			s.Scopes[i] = fleet.Global
		}
	}
	inputs, err := a.members(in)
	if err != nil {
		return nil, err
	}
	for i := range a.record.Members { // one that has not what it was told was given that by members: it is neither stuck, which would raise the minimum, nor late
		m, has := &a.record.Members[i], inputs[i].Scale.SpecReplicas
		m.MissedSince, m.Share, m.Answered = 0, has, has
	}
	calls := make([]fleet.Call, len(inputs))
	for i := range calls {
		calls[i] = fleet.Call{Member: s.Members[i].Name, Explain: in.Explain}
		if calls[i].Digest, err = fleet.NewDigest(step.Time, inputs[i], s.Members[i].Name, s.Version); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoUnion, err)
		}
	}
	binary.BigEndian.PutUint64(calls[len(calls)-1].ID[:], a.decided)
	var decision *recommender.Decision
	for round := range 2 {
		for i := range calls {
			if s.Period = math.MaxInt64; round == 0 && i == len(calls)-1 {
				s.Period = 0
			}
			next, answer, err := fleet.Step(step.Time, s, &a.record, &calls[i])
			if err != nil {
				return nil, err
			}
			if next, err = fleet.DecodeRecord(fleet.AppendRecord(nil, &next)); err != nil {
				return nil, err
			}
			a.record = next
			switch {
			case answer.Decision == nil:
			case decision != nil:
				return nil, errors.New("two decisions")
			default:
				if decision = answer.Decision; answer.Members.Fresh != len(calls) {
					return nil, fmt.Errorf("not all members are fresh: %+v", answer.Members)
				}
			}
		}
	}
	if decision == nil {
		return nil, errors.New("no decision")
	}
	return decision, nil
}

// members shares out an input to the members, whose sum it is.
func (a *allClusters) members(in *recommender.Input) ([]*recommender.Input, error) {
	members := make([]*recommender.Input, len(a.spec.Members))
	asked, ok := a.asked(in.Scale.SpecReplicas)
	observed, fits := a.divide(in.Scale.StatusReplicas, in.Spec.MaxReplicas)
	if !ok || !fits {
		return nil, fmt.Errorf("%w: %v replicas of at most %d", errNoUnion, in.Scale, in.Spec.MaxReplicas)
	}
	for i := range members {
		own := *in
		own.Scale = recommender.Scale{SpecReplicas: asked[i], StatusReplicas: observed[i]}
		own.Pods, own.PodMetrics = nil, nil
		own.Readings = make([]recommender.Readings, len(in.Readings))
		members[i] = &own
	}
	for _, pod := range in.Pods {
		own := members[a.owner(pod.Name)]
		own.Pods = append(own.Pods, pod)
	}
	for _, sample := range in.PodMetrics {
		own := members[a.owner(sample.Pod)]
		own.PodMetrics = append(own.PodMetrics, sample)
	}
	for k := range in.Readings {
		for i, readings := range a.readings(&in.Spec.Metrics[k], k, &in.Readings[k]) {
			members[i].Readings[k] = readings
		}
	}
	return members, nil
}

func (a *allClusters) owner(pod string) int {
	owner, known := a.owners[pod]
	if !known {
		owner = a.IntN(len(a.spec.Members))
		a.owners[pod] = owner
	}
	return owner
}

// asked are the members' replicas: mostly their shares, if these are all.
func (a *allClusters) asked(replicas int32) ([]int32, bool) {
	shares, sum := make([]int32, len(a.spec.Members)), int32(0)
	for i := range a.record.Members {
		shares[i] = a.record.Members[i].Share
		sum += shares[i]
	}
	if sum == replicas && len(a.record.Members) > 0 && a.IntN(10) > 0 && slices.Max(shares) <= a.spec.Engine.MaxReplicas {
		return shares, true
	}
	return a.divide(replicas, a.spec.Engine.MaxReplicas)
}

// divide divides a number, with at most that much for each.
func (a *allClusters) divide(n, most int32) ([]int32, bool) {
	parts := make([]int32, len(a.spec.Members))
	if n < 0 || int64(n) > int64(most)*int64(len(parts)) {
		return nil, false
	}
	for k, i := range a.Perm(len(parts)) {
		left := int64(most) * int64(len(parts)-k-1)
		low, high := max(0, int64(n)-left), min(int64(n), int64(most))
		parts[i] = int32(low + a.Int64N(high-low+1))
		n -= parts[i]
	}
	return parts, true
}

// readings shares out the readings of a metric.
func (a *allClusters) readings(metric *recommender.MetricSpec, index int, all *recommender.Readings) []recommender.Readings {
	parts := make([]recommender.Readings, len(a.spec.Members))
	total := metric.Type == recommender.ObjectMetric || metric.Type == recommender.ExternalMetric
	for i := range parts {
		if parts[i] = *all; !total {
			parts[i].Values = nil
		}
	}
	switch {
	case !total:
		for _, v := range all.Values {
			owner := a.owner(v.Pod)
			parts[owner].Values = append(parts[owner].Values, v)
		}
		return parts
	case a.spec.Scopes[index] == fleet.Global, len(all.Values) == 0, metric.Type == recommender.ObjectMetric && len(all.Values) != 1:
		return parts
	}
	// The sum of negative series depends on their order, so the members have them in that order.
	add := func(i int, milli int64) {
		if own := &parts[i].Values; metric.Type == recommender.ObjectMetric && len(*own) > 0 {
			(*own)[0].Milli += milli
		} else {
			*own = append(*own, recommender.Value{Milli: milli})
		}
	}
	for i := range parts {
		parts[i].Values, parts[i].Series = nil, 0
	}
	first := 0
	for _, v := range all.Values {
		rest := v.Milli
		if first += a.IntN(len(parts) - first); rest > 0 && a.IntN(2) == 0 {
			part := a.Int64N(rest)
			add(first, part)
			rest -= part
			first += a.IntN(len(parts) - first)
		}
		add(first, rest)
	}
	for i := range parts {
		if len(parts[i].Values) == 0 {
			add(i, 0)
		}
	}
	return parts
}

// forgetOwners names pods without their clusters, as the controller does.
func forgetOwners(o *recording.Outcome) {
	names := func(text string) string {
		for {
			before, after, found := strings.Cut(text, "cluster-")
			if !found || len(after) < 2 || after[1] != '/' {
				return text
			}
			text = before + after[2:]
		}
	}
	o.Error = names(o.Error)
	for _, event := range o.Events {
		event.Message = names(event.Message)
	}
	for _, condition := range o.Status.GetConditions() {
		condition.Message = names(condition.Message)
	}
}

// uncut replaces the controller's texts of which a digest has only the beginning, and reports whether it had any.
func uncut(e *recording.Expect, o *recording.Outcome) (any bool) {
	replace := func(want *recording.Text, got string) {
		begin, end, cut := strings.Cut(got, "…")
		begin = begin[:strings.LastIndexByte(begin, ' ')+1] // the last word may be the beginning of a cluster's name
		if cut && strings.HasPrefix(want.Value, begin) && strings.HasSuffix(want.Value, end) {
			want.Value, any = got, true
		}
	}
	replace(&e.Error, o.Error)
	for i := range min(len(e.Events), len(o.Events)) {
		replace(&e.Events[i].Message, o.Events[i].GetMessage())
	}
	for i := range min(len(e.Conditions), len(o.Status.GetConditions())) {
		replace(&e.Conditions[i].Message, o.Status.GetConditions()[i].GetMessage())
	}
	return any
}

// fleet compares the scenario of a seed with the controller on the union of the clusters.
func (c *Comparer) fleet(ctx context.Context, seed uint64, counts *Counts) (*Finding, error) {
	parameters := generate.DefaultParameters(c.version.Profile)
	parameters.Extreme, parameters.Invalid = 0, 0
	a := newAllClusters(seed, c.version.Profile)
	scenario, err := generate.Scenario(seed, parameters, a)
	switch {
	case errors.Is(err, errNoUnion):
		counts.Cut++
	case errors.Is(err, differential.ErrRefused):
		counts.Refused++
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s %d: %w", Fleets, seed, err)
	}
	if len(a.steps) == 0 {
		return nil, ctx.Err()
	}
	var finding *Finding
	compared, cut := 0, 0
	for _, ask := range []struct {
		oracle *differential.Oracle
		runs   int
	}{{c.real[0], 1}, {c.real[0], 24}, {c.real[0], 240}, {c.real[1], 24}} {
		expects, err := ask.oracle.AskText(struct {
			*recording.Scenario
			Steps []recording.Step `json:"steps"`
		}{scenario, a.steps}, len(a.steps), ask.runs)
		if errors.Is(err, differential.ErrUndetermined) {
			counts.Undetermined++
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		finding, compared, cut = nil, 0, 0
		for i := range expects {
			if uncut(&expects[i], &a.outcomes[i]) {
				cut++
			}
			if differences := expects[i].Differences(a.outcomes[i], nil); len(differences) > 0 {
				finding = &Finding{Stage: Fleets, Profile: c.version.Profile, Seed: seed, Step: i + 1, Around: fmt.Sprintf("%d clusters", len(a.spec.Members)), Differences: differences}
				break
			}
			compared++
		}
		if finding == nil {
			if ask.oracle == c.real[1] {
				counts.Saturated++
			}
			break
		}
	}
	counts.Scenarios++
	counts.Steps += compared
	counts.Differences[Cut] += cut
	for i := range a.outcomes[:compared] {
		if a.outcomes[i].Scaled {
			counts.Scaled++
		}
	}
	return finding, nil
}
