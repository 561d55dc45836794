package shrink

import (
	"maps"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// specs returns all specs of a scenario: the first one and those of edits.
func specs(s *recording.Scenario) []*autoscalingv2.HorizontalPodAutoscalerSpec {
	out := []*autoscalingv2.HorizontalPodAutoscalerSpec{&s.HPA.Spec}
	for i := range s.Steps {
		if hpa := s.Steps[i].HPA; hpa != nil {
			out = append(out, &hpa.Spec)
		}
	}
	return out
}

// ofSpecs joins what a rule finds in each spec.
func ofSpecs(places func(*autoscalingv2.HorizontalPodAutoscalerSpec) []func()) rule {
	return func(s *recording.Scenario) []func() {
		var out []func()
		for _, spec := range specs(s) {
			out = append(out, places(spec)...)
		}
		return out
	}
}

// ofDirections joins what a rule finds in the rules of each direction.
func ofDirections(places func(rules *autoscalingv2.HPAScalingRules, up bool) []func()) rule {
	return ofSpecs(func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) []func() {
		var out []func()
		if b := spec.Behavior; b != nil && b.ScaleUp != nil {
			out = append(out, places(b.ScaleUp, true)...)
		}
		if b := spec.Behavior; b != nil && b.ScaleDown != nil {
			out = append(out, places(b.ScaleDown, false)...)
		}
		return out
	})
}

// dropMetricEverywhere drops the metric at one index from all specs that have more than
// one.
func dropMetricEverywhere(s *recording.Scenario) []func() {
	most := 0
	for _, spec := range specs(s) {
		most = max(most, len(spec.Metrics))
	}
	var out []func()
	for i := range most {
		if most < 2 {
			break
		}
		out = append(out, func() {
			for _, spec := range specs(s) {
				dropMetric(spec, i)
			}
		})
	}
	return out
}

// dropMetric drops a metric, unless it is the only one: without metrics there is a
// default one.
func dropMetric(spec *autoscalingv2.HorizontalPodAutoscalerSpec, i int) {
	if i < len(spec.Metrics) && len(spec.Metrics) > 1 {
		spec.Metrics = slices.Delete(spec.Metrics, i, i+1)
	}
}

var dropMetrics = ofSpecs(func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) []func() {
	var out []func()
	for i := range spec.Metrics {
		if len(spec.Metrics) > 1 {
			out = append(out, func() { dropMetric(spec, i) })
		}
	}
	return out
})

var dropBehavior = ofSpecs(func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) []func() {
	return if1(spec.Behavior != nil, func() { spec.Behavior = nil })
})

// dropPolicies drops all but one.
var dropPolicies = ofDirections(func(rules *autoscalingv2.HPAScalingRules, _ bool) []func() {
	var out []func()
	for i := range rules.Policies {
		if len(rules.Policies) > 1 {
			out = append(out, func() {
				if len(rules.Policies) > 1 {
					rules.Policies = slices.Delete(rules.Policies, i, i+1)
				}
			})
		}
	}
	return out
})

var dropTolerances = ofDirections(func(rules *autoscalingv2.HPAScalingRules, _ bool) []func() {
	return if1(rules.Tolerance != nil, func() { rules.Tolerance = nil })
})

// dropWindows resets the window to the default: none up, the controller's down.
var dropWindows = ofDirections(func(rules *autoscalingv2.HPAScalingRules, up bool) []func() {
	window := rules.StabilizationWindowSeconds
	largest := autoscalingv2.MaxChangePolicySelect
	return slices.Concat(
		if1(!up && window != nil, func() { rules.StabilizationWindowSeconds = nil }),
		if1(rules.SelectPolicy != nil && *rules.SelectPolicy != largest, func() { rules.SelectPolicy = &largest }),
	)
})

// dropStatus drops the status from before the first step.
func dropStatus(s *recording.Scenario) []func() {
	return if1(!statusIsEmpty(&s.HPA.Status), func() { s.HPA.Status = autoscalingv2.HorizontalPodAutoscalerStatus{} })
}

func statusIsEmpty(s *autoscalingv2.HorizontalPodAutoscalerStatus) bool {
	return s.ObservedGeneration == nil && s.LastScaleTime == nil && s.CurrentReplicas == 0 && s.DesiredReplicas == 0 &&
		len(s.CurrentMetrics) == 0 && len(s.Conditions) == 0
}

func dropConditions(s *recording.Scenario) []func() { return each(&s.HPA.Status.Conditions) }

func dropCurrentMetrics(s *recording.Scenario) []func() { return each(&s.HPA.Status.CurrentMetrics) }

func dropStatusFields(s *recording.Scenario) []func() {
	status := &s.HPA.Status
	out := slices.Concat(
		if1(status.LastScaleTime != nil, func() { status.LastScaleTime = nil }),
		if1(status.ObservedGeneration != nil, func() { status.ObservedGeneration = nil }),
	)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		out = append(out, if1(c.Message != "", func() { c.Message = "" })...)
		out = append(out, if1(!c.LastTransitionTime.IsZero(), func() { c.LastTransitionTime = metav1.Time{} })...)
	}
	return out
}

// defaultSettings resets the controller's settings to its defaults.
func defaultSettings(s *recording.Scenario) []func() {
	c := &s.Config
	set := func(field *float64, value float64) []func() {
		return if1(*field != value, func() { *field = value })
	}
	return slices.Concat(
		set(&c.Tolerance, 0.1),
		set(&c.CPUInitializationPeriodSeconds, 300),
		set(&c.InitialReadinessDelaySeconds, 30),
		set(&c.DownscaleStabilizationSeconds, 300),
		if1(c.ScaleToZero, func() { c.ScaleToZero = false }),
	)
}

// commonTarget sets the workload to the most common one.
var commonTarget = ofSpecs(func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) []func() {
	web := autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	return if1(spec.ScaleTargetRef != web, func() { spec.ScaleTargetRef = web })
})

// identifiers returns the names and selectors of a spec's metrics.
func identifiers(spec *autoscalingv2.HorizontalPodAutoscalerSpec) []*autoscalingv2.MetricIdentifier {
	var out []*autoscalingv2.MetricIdentifier
	for i := range spec.Metrics {
		switch m := &spec.Metrics[i]; {
		case m.Pods != nil:
			out = append(out, &m.Pods.Metric)
		case m.Object != nil:
			out = append(out, &m.Object.Metric)
		case m.External != nil:
			out = append(out, &m.External.Metric)
		}
	}
	return out
}

// dropMetricSelectors drops the selectors of all metrics of one name, with those of
// their values.
func dropMetricSelectors(s *recording.Scenario) []func() {
	with := map[string]bool{}
	selectors := func(visit func(name string, selector **metav1.LabelSelector)) {
		for _, spec := range specs(s) {
			for _, id := range identifiers(spec) {
				visit(id.Name, &id.Selector)
			}
		}
		for i := range s.Steps {
			for j := range s.Steps[i].CustomMetrics {
				id := &s.Steps[i].CustomMetrics[j].Metric
				visit(id.Name, &id.Selector)
			}
		}
	}
	selectors(func(name string, selector **metav1.LabelSelector) { with[name] = with[name] || *selector != nil })
	var out []func()
	for _, name := range slices.Sorted(maps.Keys(with)) {
		out = append(out, if1(with[name], func() {
			selectors(func(of string, selector **metav1.LabelSelector) {
				if of == name {
					*selector = nil
				}
			})
		})...)
	}
	return out
}

// dropSelectorParts drops labels and expressions of selectors.
var dropSelectorParts = ofSpecs(func(spec *autoscalingv2.HorizontalPodAutoscalerSpec) []func() {
	var out []func()
	for _, id := range identifiers(spec) {
		if id.Selector == nil {
			continue
		}
		out = append(out, eachLabel(&id.Selector.MatchLabels)...)
		out = append(out, each(&id.Selector.MatchExpressions)...)
	}
	return out
})

// eachLabel returns the changes that take out single labels.
func eachLabel(labels *map[string]string) []func() {
	var out []func()
	for _, key := range slices.Sorted(maps.Keys(*labels)) {
		out = append(out, func() {
			delete(*labels, key)
			if len(*labels) == 0 {
				*labels = nil
			}
		})
	}
	return out
}

// target returns that of a metric, nil when it has no source.
func target(m *autoscalingv2.MetricSpec) *autoscalingv2.MetricTarget {
	switch {
	case m.Resource != nil:
		return &m.Resource.Target
	case m.ContainerResource != nil:
		return &m.ContainerResource.Target
	case m.Pods != nil:
		return &m.Pods.Target
	case m.Object != nil:
		return &m.Object.Target
	case m.External != nil:
		return &m.External.Target
	}
	return nil
}

// allRules returns the rules of all directions of all specs.
func allRules(s *recording.Scenario) []*autoscalingv2.HPAScalingRules {
	var out []*autoscalingv2.HPAScalingRules
	for _, spec := range specs(s) {
		if b := spec.Behavior; b != nil {
			for _, rules := range []*autoscalingv2.HPAScalingRules{b.ScaleUp, b.ScaleDown} {
				if rules != nil {
					out = append(out, rules)
				}
			}
		}
	}
	return out
}
