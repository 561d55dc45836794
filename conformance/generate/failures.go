package generate

import (
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// failures are the failures in the cluster other than those of pods.
type failures struct {
	// rate is the share of steps at which a failure begins.
	rate float64
	// keys of failing metrics APIs, and for how many more steps.
	keys  []string
	steps int
	// text begins their error.
	text string
}

// failureTexts are what errors say. Some controllers take them for formats.
var failureTexts = []string{
	"the server is currently unable to handle the request", "Operation cannot be fulfilled: admission webhook denied the request",
	"disk is 100% full: %s %d %!", "50%\n\"quoted\" \\ \u00fc \U0001f6a8", "  a text\twith space around it  ", "%",
}

// newFailures returns none for most scenarios, unless they are wanted.
func (g *generator) newFailures() failures {
	if g.parameters.Failing {
		return failures{rate: oneOf(g.random, 0.15, 0.4)}
	}
	return failures{rate: oneOf(g.random, 0, 0, 0, 0.05, 0.15, 0.4)}
}

// fail makes calls of a step fail: APIs and metrics for several steps, the scale and
// its selector for one.
func (g *generator) fail(step *recording.Step) {
	f := &g.failures
	if f.steps--; f.steps < 0 {
		f.keys = nil
	}
	if g.chance(f.rate) {
		g.pickFailure(step)
	}
	for _, key := range f.keys {
		if step.Errors == nil {
			step.Errors = map[string]string{}
		}
		step.Errors[key] = f.text + " (get " + key + ")"
	}
}

func (g *generator) pickFailure(step *recording.Step) {
	text := oneOf(g.random, failureTexts...)
	g.failures.text = text
	switch g.IntN(11) {
	case 0, 1:
		g.failures.keys, g.failures.steps = []string{oneOf(g.random, "resource", "custom", "external")}, g.between(0, 4)
	case 2, 3:
		g.failures.keys, g.failures.steps = some(g.random, g.metricKeys()), g.between(0, 4)
	case 4:
		step.ScaleGetError = text
		if g.chance(0.5) {
			step.Scale = nil
		}
	case 5, 6, 7:
		step.ScaleUpdateError = text
	case 8:
		step.Scale.Status.Selector = oneOf(g.random, "", "app in (web", "app=web,=", "!", "app=100%", "app in (%d)", "app", "app>3", "tier notin ()", ",")
	case 9, 10:
		g.losePart(step)
	}
}

// metricKeys returns the keys by which single metrics of the spec fail.
func (g *generator) metricKeys() []string {
	keys := []string{"external:absent"}
	for i := range g.spec.Metrics {
		switch m := &g.spec.Metrics[i]; {
		case m.Pods != nil:
			keys = append(keys, "custom:"+m.Pods.Metric.Name)
		case m.Object != nil:
			keys = append(keys, "custom:"+m.Object.Metric.Name)
		case m.External != nil:
			keys = append(keys, "external:"+m.External.Metric.Name)
		default:
			keys = append(keys, "resource")
		}
	}
	return keys
}

// losePart removes pods or readings.
func (g *generator) losePart(step *recording.Step) {
	switch g.IntN(4) {
	case 0:
		step.Pods = nil
	case 1:
		step.PodMetrics = nil
	case 2:
		step.CustomMetrics = nil
	case 3:
		step.ExternalMetrics = nil
	}
}
