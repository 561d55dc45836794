package differential

import (
	"sync"

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
	// Platform counts the scenarios in which the controller's outcome depends on the
	// processor, PlatformSteps the steps from there on: these were compared with the
	// saturating controller, the others with the real one.
	Platform, PlatformSteps int
	// Texts counts compared texts, UndeterminedTexts those compared only for presence,
	// and Reworded those compared without a part: what is wrong with a malformed
	// selector, in versions with other words for it.
	Texts, UndeterminedTexts, Reworded int
	// Refused are the scenarios whose spec the service refused, so that the engine decided alone;
	// Undetermined are those for which the controller has no outcome, by reason.
	Refused      int
	Undetermined map[string]int
	// Examples of the latter.
	Examples []string
}

// NewCensus returns an empty census.
func NewCensus() *Census {
	return &Census{Undetermined: map[string]int{}}
}

// maxExamples limits Census.Examples.
const maxExamples = 10

func (c *Census) example(text string) {
	if len(c.Examples) < maxExamples {
		c.Examples = append(c.Examples, text)
	}
}

func (c *Census) refused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Refused++
}

func (c *Census) undetermined(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Undetermined[err.Error()]++
	c.example(name + ": " + err.Error())
}

// add counts the steps of a scenario with equal outcomes.
func (c *Census) add(result *comparison, version Version) {
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
	for i := range result.expects[:same] {
		expect := &result.expects[i]
		c.Steps++
		if expect.Scaled {
			c.Scaled++
		}
		if expect.Error != (recording.Text{}) {
			c.Failed++
		}
		c.texts(expect, version)
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
	for reason, n := range o.Undetermined {
		c.Undetermined[reason] += n
	}
	for _, e := range o.Examples {
		c.example(e)
	}
}
