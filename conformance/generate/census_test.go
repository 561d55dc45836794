package generate_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/conformance/generate"
)

// wanted are the features that scenarios have to show. "InvalidMetricSourceType"
// is not among them: the API server takes no spec that leads to it.
var wanted = strings.Split(strings.TrimSpace(`
path Metrics
path MetricsFailed
path SelectorFailed
path ScaleUnavailable
path ScalingDisabled
path AboveMax
path BelowMin
metric Resource Utilization
metric Resource AverageValue
metric ContainerResource Utilization
metric ContainerResource AverageValue
metric Pods AverageValue
metric Object Value
metric Object AverageValuePerReplica
metric External Value
metric External AverageValuePerReplica
proposal Proportional
proposal Saturated
proposal WithinTolerance
proposal DampenedWithinTolerance
proposal DampenedReversed
proposal DampenedAgainstCurrent
ratio 1.1
ratio 0.9
ratio 1
pod has a sample
pod being deleted
pod phase Failed
pod phase Pending
pod no sample
pod no Ready condition
pod no start time
pod not ready within the cpu initialization period
pod sample taken before one window after it became ready, within the cpu initialization period
pod unready since before the initial readiness delay was over
sample of unlisted pod
stabilization ReadyForNewScale
stabilization ScaleUpStabilized
stabilization ScaleDownStabilized
bounds DesiredWithinRange
bounds ScaleUpLimit
bounds ScaleDownLimit
bounds TooManyReplicas
bounds TooFewReplicas
rate Up Max
rate Up Min
rate Up Disabled
rate Down Max
rate Down Min
rate Down Disabled
policy Up Pods
policy Up Percent
policy Down Pods
policy Down Percent
policy counts both directions
window edge -1ns
window edge 0s
window edge 1ns
period edge -1ns
period edge 0s
period edge 1ns
clock same instant
clock long gap
condition AbleToScale True SucceededGetScale
condition AbleToScale False FailedGetScale
condition AbleToScale True ReadyForNewScale
condition AbleToScale True ScaleUpStabilized
condition AbleToScale True ScaleDownStabilized
condition AbleToScale True SucceededRescale
condition AbleToScale False FailedUpdateScale
condition ScalingActive True ValidMetricFound
condition ScalingActive False ScalingDisabled
condition ScalingActive False InvalidSelector
condition ScalingActive False AmbiguousSelector
condition ScalingActive False FailedGetResourceMetric
condition ScalingActive False FailedGetContainerResourceMetric
condition ScalingActive False FailedGetPodsMetric
condition ScalingActive False FailedGetObjectMetric
condition ScalingActive False FailedGetExternalMetric
condition ScalingLimited False DesiredWithinRange
condition ScalingLimited True ScaleUpLimit
condition ScalingLimited True ScaleDownLimit
condition ScalingLimited True TooManyReplicas
condition ScalingLimited True TooFewReplicas
condition ScaledToZero True ScaledToZero
condition ScaledToZero False NotScaledToZero
event FailedGetScale
event SelectorRequired
event InvalidSelector
event AmbiguousSelector
event FailedGetResourceMetric
event FailedGetContainerResourceMetric
event FailedGetPodsMetric
event FailedGetObjectMetric
event FailedGetExternalMetric
event FailedComputeMetricsReplicas
event FailedRescale
event SuccessfulRescale
error missing request for
error not found in Pod
error missing pod-level request for
error no metrics returned matched known pods
error did not receive metrics for targeted pods
error no pods returned by selector while calculating
error unable to calculate ready pods
error unable to fetch metrics from resource metrics API
error unable to fetch metrics from custom metrics API
error unable to fetch metrics from external metrics API
error no metrics returned from resource metrics API
error no metrics returned from custom metrics API
error no metrics returned from external metrics API
error could not find the metric
error neither a value target nor an average value target
error for 'in', 'notin' operators, values set can't be empty
error unable to determine resource for scale target reference
error failed to query scale subresource
error failed to rescale
error couldn't convert selector
failure of some metrics, scaled up all the same
failure of some metrics, not scaled down
reason above target
reason All metrics below target
reason above Spec.MaxReplicas
reason below Spec.MinReplicas
reason none
scaled up while all metrics are below target
scaled to zero
scaled from zero
at zero, reading metrics
status before the first step
status observed otherwise
status observes none
step edits the spec
step deletes the autoscaler
step after deletion
step fails to read the scale
step fails to write the scale
step fails a single metric
step fails an API
written and put back
replicas above 100
warning beyond the range of the controller's arithmetic
warning fell below 0
warning the sum of the series is beyond 64 bits
warning stays at the largest, as
warning wrapped to
`), "\n")

// least are features that also come about by chance, and not as often.
var least = map[string]int{"written and put back": 100}

// rare are the warnings that only extreme scenarios may cause: their outcomes depend on
// the processor.
var rare = []string{"depends on the processor", "saturates", "division by 0", "100 times the usage is beyond", "lost its upper ones"}

// census counts features.
type census struct {
	t     *testing.T
	found map[string]int
	// scenario and the step before, as far as they are decided.
	scenario *recording.Scenario
	spec     *autoscalingv2.HorizontalPodAutoscalerSpec
	previous *decided
	passed   []time.Time
}

func TestCensusOfFeatures(t *testing.T) {
	t.Parallel()
	s := startService(t)
	c := &census{t: t, found: map[string]int{}}
	scenarios, steps := 0, 0
	for _, version := range []string{"v1.36", "v1.37"} {
		for seed := range uint64(600) {
			d := &visiting{census: c, decider: decider{
				service: s, context: t.Context(), cluster: fmt.Sprintf("%s-%d", version, seed), explain: true, visit: c.count,
			}}
			scenario, err := generate.Scenario(seed, generate.DefaultParameters(version), d)
			if err != nil {
				t.Log(err)
				continue
			}
			scenarios++
			steps += len(scenario.Steps)
		}
	}
	for _, feature := range wanted {
		if n, want := c.found[feature], max(1, least[feature]); n < want {
			t.Errorf("%d steps show %q, want %d", n, feature, want)
		}
	}
	t.Logf("%d scenarios, %d steps, %d features", scenarios, steps, len(wanted))
	if os.Getenv("CENSUS") != "" {
		for _, feature := range slices.Sorted(maps.Keys(c.found)) {
			mark := " "
			if slices.Contains(wanted, feature) {
				mark = "*"
			}
			t.Logf("%s %6d %s", mark, c.found[feature], feature)
		}
	}
}

// visiting adds the scenario to the census, too.
type visiting struct {
	decider
	census *census
}

func (v *visiting) Start(scenario *recording.Scenario) error {
	v.census.begin(scenario)
	return v.decider.Start(scenario)
}

func (c *census) begin(s *recording.Scenario) {
	c.scenario, c.spec, c.previous, c.passed = s, &s.HPA.Spec, nil, nil
	c.see(len(s.HPA.Status.Conditions) > 0, "status before the first step")
}

func (c *census) see(is bool, format string, args ...any) {
	if is {
		c.found[fmt.Sprintf(format, args...)]++
	}
}

func (c *census) count(d decided) {
	if d.step.HPA != nil {
		c.spec = &d.step.HPA.Spec
	}
	c.steps(d)
	c.edges(d.step)
	if d.answer != nil {
		c.outcome(d)
		c.explanation(d.answer.GetExplanation())
	}
	c.previous = &d
	c.passed = append(c.passed, d.step.Time)
}

// steps looks at what happens at and between steps.
func (c *census) steps(d decided) {
	step := d.step
	c.see(step.HPA != nil, "step edits the spec")
	c.see(step.HPADeleted, "step deletes the autoscaler")
	c.see(step.ScaleGetError != "", "step fails to read the scale")
	for key := range step.Errors {
		c.see(strings.Contains(key, ":"), "step fails a single metric")
		c.see(!strings.Contains(key, ":"), "step fails an API")
	}
	if step.Scale != nil {
		c.see(step.Scale.Status.Replicas != step.Scale.Spec.Replicas, "status observed otherwise")
		c.see(step.Scale.Status.Replicas == 0, "status observes none")
		c.see(step.Scale.Spec.Replicas > 100, "replicas above 100")
	}
	if c.previous == nil {
		return
	}
	gap := step.Time.Sub(c.previous.step.Time)
	c.see(gap == 0, "clock same instant")
	c.see(gap > time.Hour, "clock long gap")
	c.see(c.previous.step.HPADeleted && step.HPA != nil, "step after deletion")
	c.see(c.previous.report != nil && c.previous.step.ScaleUpdateError == "" && step.Scale != nil &&
		step.Scale.Spec.Replicas == c.previous.answer.GetCurrentReplicas(), "written and put back")
}

// edges looks for earlier steps that are as long ago as a window or period is
// long, give or take a nanosecond.
func (c *census) edges(step *recording.Step) {
	windows, periods := map[time.Duration]bool{}, map[time.Duration]bool{}
	if b := c.spec.Behavior; b == nil {
		windows[time.Duration(c.scenario.Config.DownscaleStabilizationSeconds*1e9)] = true
	} else {
		for _, rules := range []*autoscalingv2.HPAScalingRules{b.ScaleUp, b.ScaleDown} {
			if rules.StabilizationWindowSeconds != nil {
				windows[time.Duration(*rules.StabilizationWindowSeconds)*time.Second] = true
			}
			for _, p := range rules.Policies {
				periods[time.Duration(p.PeriodSeconds)*time.Second] = true
			}
		}
	}
	for _, passed := range c.passed {
		age := step.Time.Sub(passed)
		for _, beside := range []time.Duration{-1, 0, 1} {
			c.see(age > 1 && windows[age-beside], "window edge %v", beside)
			c.see(age > 1 && periods[age-beside], "period edge %v", beside)
		}
	}
}

// outcome looks at conditions, events, errors and counts.
func (c *census) outcome(d decided) {
	outcome := recording.OutcomeOf(d.answer, d.report, d.report != nil && d.step.ScaleUpdateError == "")
	conditions := map[string]string{}
	for _, condition := range outcome.Status.GetConditions() {
		c.see(true, "condition %s %s %s", condition.GetType(), condition.GetStatus(), condition.GetReason())
		conditions[condition.GetType()] = condition.GetStatus()
	}
	up := d.answer.GetDesiredReplicas() > d.answer.GetCurrentReplicas()
	for _, event := range outcome.Events {
		c.see(true, "event %s", event.GetReason())
		if event.GetReason() == "SuccessfulRescale" {
			c.reason(event.GetMessage(), up)
		}
	}
	texts := []string{outcome.Error}
	for _, m := range d.answer.GetExplanation().GetMetrics() {
		texts = append(texts, m.GetError())
	}
	for _, feature := range wanted {
		if text, ok := strings.CutPrefix(feature, "error "); ok {
			c.see(slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, text) }), "%s", feature)
		}
	}
	some := strings.Contains(outcome.Error, "invalid metrics (")
	c.see(some && up && outcome.Scaled, "failure of some metrics, scaled up all the same")
	c.see(some && conditions["ScalingActive"] == "False" && d.answer.GetExplanation().GetMetrics()[0].Proposal != nil, "failure of some metrics, not scaled down")
	c.see(outcome.Scaled && outcome.ScaledTo == 0, "scaled to zero")
	c.see(outcome.Scaled && d.answer.GetCurrentReplicas() == 0, "scaled from zero")
	c.see(d.report != nil && d.step.ScaleUpdateError != "", "step fails to write the scale")
	c.see(d.answer.GetCurrentReplicas() == 0 && d.answer.GetExplanation().GetPath() == "Metrics", "at zero, reading metrics")
}

func (c *census) reason(message string, up bool) {
	for _, reason := range []string{"above target", "All metrics below target", "above Spec.MaxReplicas", "below Spec.MinReplicas"} {
		c.see(strings.HasSuffix(message, reason), "reason %s", reason)
	}
	c.see(strings.HasSuffix(message, "reason: "), "reason none")
	c.see(up && strings.HasSuffix(message, "All metrics below target"), "scaled up while all metrics are below target")
}

// explanation looks at how the service came to its answer.
func (c *census) explanation(e *setpointv1.Explanation) {
	c.see(true, "path %s", e.GetPath())
	for _, m := range e.GetMetrics() {
		c.see(m.GetError() == "", "metric %s %s", m.GetType(), m.GetCalculation())
		c.see(m.GetRule() != "", "proposal %s", m.GetRule())
		for _, edge := range []float64{1.1, 0.9, 1} {
			c.see(m.GetUsageRatio() == edge, "ratio %v", edge)
		}
		for _, p := range m.GetPods() {
			c.see(true, "pod %s", p.GetReason())
		}
		c.see(m.GetUnlistedSamples() > 0, "sample of unlisted pod")
	}
	c.see(e.GetStabilization() != nil, "stabilization %s", e.GetStabilization().GetReason())
	c.see(e.GetBounds() != nil, "bounds %s", e.GetBounds().GetReason())
	r := e.GetRateLimit()
	c.see(r.GetSelectPolicy() != "", "rate %s %s", r.GetDirection(), r.GetSelectPolicy())
	for _, p := range r.GetPolicies() {
		c.see(p.GetSelected(), "policy %s %s", r.GetDirection(), p.GetType())
		c.see(p.GetScaledUp() > 0 && p.GetScaledDown() > 0, "policy counts both directions")
	}
	extreme := slices.Contains(c.scenario.Tags, generate.TagExtreme)
	for _, warning := range e.GetWarnings() {
		for _, feature := range wanted {
			if text, ok := strings.CutPrefix(feature, "warning "); ok && !extreme {
				c.see(strings.Contains(warning, text), "%s", feature)
			}
		}
		for _, text := range rare {
			if strings.Contains(warning, text) && !extreme {
				c.t.Errorf("%s, at %s: %s", c.scenario.Name, e.GetEvaluationTime().AsTime(), warning)
			}
		}
	}
}
