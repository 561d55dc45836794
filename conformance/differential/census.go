package differential

import (
	"maps"
	"slices"
	"sync"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// Census counts comparisons. It is safe for concurrent use.
type Census struct {
	mu sync.Mutex
	// Scenarios and Steps that were compared.
	Scenarios, Steps int
	// Scaled counts the steps that wrote the scale, Failed those whose reconcile
	// returned an error.
	Scaled, Failed int
	// Metrics counts the readings by source and target; Unread those that failed.
	Metrics, Unread map[string]int
	// Conditions and Events count by type, status and reason.
	Conditions, Events map[string]int
	// Platform counts the scenarios in which the controller's outcome depends on the
	// processor, PlatformSteps the steps from there on: these were compared with the
	// saturating controller, the others with the real one.
	Platform, PlatformSteps int
	// Texts counts compared texts, UndeterminedTexts those compared only for presence,
	// and Reworded those compared without a part: what is wrong with a malformed
	// selector, in versions with other words for it.
	Texts, UndeterminedTexts, Reworded int
	// Refused are the scenarios whose spec the service refused, Undetermined those for
	// which the controller has no outcome, by reason.
	Refused      int
	Undetermined map[string]int
	// Examples of both.
	Examples []string
}

// NewCensus returns an empty census.
func NewCensus() *Census {
	return &Census{
		Metrics: map[string]int{}, Unread: map[string]int{},
		Conditions: map[string]int{}, Events: map[string]int{}, Undetermined: map[string]int{},
	}
}

// maxExamples limits Census.Examples.
const maxExamples = 10

func (c *Census) example(text string) {
	if len(c.Examples) < maxExamples {
		c.Examples = append(c.Examples, text)
	}
}

func (c *Census) refused(_ uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Refused++
	c.example(err.Error())
}

func (c *Census) undetermined(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Undetermined[err.Error()]++
	c.example(name + ": " + err.Error())
}

// add counts the steps of a scenario with equal outcomes.
func (c *Census) add(scenario *recording.Scenario, result *comparison, version Version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Scenarios++
	same := len(result.expects)
	if result.differences != nil {
		same = result.at
	}
	if result.saturated < same {
		c.Platform++
		c.PlatformSteps += same - result.saturated
	}
	spec := &scenario.HPA.Spec
	for i := range same {
		step := &scenario.Steps[i]
		if step.HPA != nil {
			spec = &step.HPA.Spec
		}
		c.step(spec, &result.expects[i])
		c.texts(&result.expects[i], version)
	}
}

// texts counts how the texts of an outcome were compared.
func (c *Census) texts(expect *recording.Expect, version Version) {
	count := func(t recording.Text) {
		switch {
		case t.Undetermined:
			c.UndeterminedTexts++
		case version.rewords() && malformedSelector.MatchString(t.Value):
			c.Reworded++
		case t.Value != "":
			c.Texts++
		}
	}
	for i := range expect.Conditions {
		count(expect.Conditions[i].Message)
	}
	for i := range expect.Events {
		count(expect.Events[i].Message)
	}
	count(expect.Error)
}

func (c *Census) step(spec *autoscalingv2.HorizontalPodAutoscalerSpec, expect *recording.Expect) {
	c.Steps++
	if expect.Scaled {
		c.Scaled++
	}
	if expect.Error != (recording.Text{}) {
		c.Failed++
	}
	for _, condition := range expect.Conditions {
		c.Conditions[condition.Type+" "+condition.Status+" "+condition.Reason]++
	}
	for _, event := range expect.Events {
		c.Events[event.Type+" "+event.Reason]++
	}
	if len(expect.CurrentMetrics) != len(spec.Metrics) {
		return // no metric was read in this step, or the spec was another one
	}
	for i := range spec.Metrics {
		kind := kindOf(&spec.Metrics[i])
		if expect.CurrentMetrics[i].Type == "" {
			c.Unread[kind]++
		} else {
			c.Metrics[kind]++
		}
	}
}

// kindOf is the source of a metric and its target.
func kindOf(m *autoscalingv2.MetricSpec) string {
	var target autoscalingv2.MetricTarget
	kind := string(m.Type)
	switch {
	case m.Resource != nil:
		target = m.Resource.Target
	case m.ContainerResource != nil:
		target = m.ContainerResource.Target
	case m.Pods != nil:
		target = m.Pods.Target
	case m.Object != nil:
		target = m.Object.Target
	case m.External != nil:
		target = m.External.Target
	}
	switch {
	case target.AverageUtilization != nil:
		return kind + " Utilization"
	case target.AverageValue != nil:
		return kind + " AverageValue"
	case target.Value != nil:
		return kind + " Value"
	}
	return kind
}

// Merge adds another census.
func (c *Census) Merge(o *Census) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Scenarios += o.Scenarios
	c.Steps += o.Steps
	c.Scaled += o.Scaled
	c.Failed += o.Failed
	c.Platform += o.Platform
	c.PlatformSteps += o.PlatformSteps
	c.Texts += o.Texts
	c.UndeterminedTexts += o.UndeterminedTexts
	c.Reworded += o.Reworded
	c.Refused += o.Refused
	for _, pair := range []struct{ into, from map[string]int }{
		{c.Metrics, o.Metrics}, {c.Unread, o.Unread}, {c.Conditions, o.Conditions}, {c.Events, o.Events}, {c.Undetermined, o.Undetermined},
	} {
		for k, n := range pair.from {
			pair.into[k] += n
		}
	}
	for _, e := range o.Examples {
		c.example(e)
	}
}

// sorted returns the keys of counts in order.
func sorted(counts map[string]int) []string { return slices.Sorted(maps.Keys(counts)) }
