package generate

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// person changes the spec and the workload between steps.
type person struct {
	// rate is the share of steps with a change before them.
	rate float64
	// gone counts the steps for which the autoscaler stays deleted; deleted reports
	// that it is.
	gone    int
	deleted bool
}

func (g *generator) newPerson() person {
	return person{rate: oneOf(g.random, 0, 0.03, 0.1, 0.3)}
}

// intervene makes changes before a step.
func (g *generator) intervene(step *recording.Step) {
	if g.person.deleted {
		g.remake(step)
		return
	}
	if g.cluster.follows == loosely && g.chance(0.2) {
		g.cluster.replicas = g.startingReplicas()
	}
	if g.cluster.replicas == 0 && !g.scenario.Config.ScaleToZero && g.chance(0.1) {
		// Otherwise disabled workloads would stay disabled.
		g.cluster.replicas = g.spec.MaxReplicas/2%50 + 1
	}
	if !g.chance(g.person.rate) {
		return
	}
	pick(g.random, []weighted[func(*recording.Step)]{
		{3, g.setReplicas},
		{2, g.moveBounds},
		{2, g.editMetric},
		{1.5, g.editTarget},
		{3, g.editBehavior},
		{0.5, g.editScaleTarget},
		{0.5, g.touch},
		{0.8, g.rollOut},
		{1, g.deleteAutoscaler},
	})(step)
}

// edited sets the step's spec to the current one.
func (g *generator) edited(step *recording.Step) {
	g.keepZeroValid()
	stored(&g.spec.HorizontalPodAutoscalerSpec)
	step.HPA = g.autoscaler()
}

// setReplicas scales the workload manually.
func (g *generator) setReplicas(*recording.Step) {
	least, most := int(g.spec.min()), int(min(g.spec.MaxReplicas, 100000))
	g.cluster.replicas = int32(pick(g.random, []weighted[int]{
		{5, g.between(least, most)},
		{1, max(0, least-g.between(1, 3))},
		{1, most + g.between(1, 5)},
		{1.5, 0},
	}))
	if g.extreme && g.chance(0.3) {
		g.cluster.replicas = int32(g.between(1<<29, 1<<31-1))
	}
}

func (g *generator) moveBounds(step *recording.Step) {
	least, most := g.bounds(true)
	if g.chance(0.5) {
		// Near the current count, where it matters.
		most = max(1, least, g.cluster.replicas+int32(g.between(-3, 3)))
	}
	g.spec.MinReplicas, g.spec.MaxReplicas = &least, most
	g.edited(step)
}

// editMetric adds, removes or switches one.
func (g *generator) editMetric(step *recording.Step) {
	i, n := g.IntN(len(g.spec.Metrics)), len(g.spec.Metrics)
	switch {
	case n < 5 && g.chance(0.4):
		g.addMetric()
	case n > 1 && g.chance(0.5):
		g.spec.Metrics, g.spec.loads = slices.Delete(g.spec.Metrics, i, i+1), slices.Delete(g.spec.loads, i, i+1)
	default:
		g.setMetric(i, g.metric())
	}
	g.edited(step)
}

// editTarget changes the target of an existing metric.
func (g *generator) editTarget(step *recording.Step) {
	switch m := &g.spec.Metrics[g.IntN(len(g.spec.Metrics))]; {
	case m.Resource != nil:
		m.Resource.Target = g.resourceTarget(m.Resource.Name)
	case m.ContainerResource != nil:
		m.ContainerResource.Target = g.resourceTarget(m.ContainerResource.Name)
	case m.Pods != nil:
		average := g.targetQuantity(m.Pods.Metric.Name, valueUnits)
		m.Pods.Target.AverageValue = &average
	case m.Object != nil:
		m.Object.Target = g.totalTarget(m.Object.Metric.Name)
	case m.External != nil:
		m.External.Target = g.totalTarget(m.External.Metric.Name)
	}
	g.edited(step)
}

// editBehavior changes the rules, or windows and periods, which may bring old entries
// of the history back into view.
func (g *generator) editBehavior(step *recording.Step) {
	b := g.spec.Behavior
	if b == nil || g.chance(0.4) {
		g.spec.Behavior = g.behavior()
		g.edited(step)
		return
	}
	b = b.DeepCopy()
	for _, rules := range directions(b) {
		if g.chance(0.5) {
			window := oneOf[int32](g.random, 0, 0, 15, 60, 300, 3600)
			rules.StabilizationWindowSeconds = &window
		}
		if len(rules.Policies) > 0 && g.chance(0.5) {
			rules.Policies[g.IntN(len(rules.Policies))].PeriodSeconds = oneOf[int32](g.random, 1, 15, 60, 300, 1800)
		}
	}
	g.spec.Behavior = b
	g.edited(step)
}

func (g *generator) editScaleTarget(step *recording.Step) {
	g.spec.ScaleTargetRef = g.scaleTarget()
	g.edited(step)
}

// touch writes the autoscaler unchanged.
func (g *generator) touch(step *recording.Step) { g.edited(step) }

// rollOut gives the workload another template and selector; the old pods stay until
// they are deleted.
func (g *generator) rollOut(*recording.Step) {
	g.cluster.template = g.template()
	for _, p := range g.cluster.pods {
		if g.chance(0.5) && !p.going() {
			p.deleted, p.grace = g.clock.now, g.seconds(0, 30)
		}
	}
}

// deleteAutoscaler deletes the autoscaler for some steps, after which it is created
// again.
func (g *generator) deleteAutoscaler(step *recording.Step) {
	g.person.deleted, g.person.gone = true, g.between(0, 2)
	g.stored = nil
	step.HPADeleted = true
}

func (g *generator) remake(step *recording.Step) {
	if g.person.gone > 0 {
		g.person.gone--
		step.HPADeleted = true
		return
	}
	g.person.deleted = false
	if g.chance(0.5) {
		g.spec.Behavior = g.behavior()
	}
	g.edited(step)
}

// spoil makes the stored spec invalid for the API server, for this step and those until the
// next edit.
func (g *generator) spoil(step *recording.Step) {
	if step.HPADeleted {
		return
	}
	step.HPA = g.autoscaler()
	pick(g.random, spoils)(g, &step.HPA.Spec)
	step.HPA.Generation = g.generation(&step.HPA.Spec)
}

// spoils make a stored spec one that the API server would not have stored. The controller decides it all
// the same.
var spoils = []weighted[func(*generator, *autoscalingv2.HorizontalPodAutoscalerSpec)]{
	{1, func(g *generator, s *autoscalingv2.HorizontalPodAutoscalerSpec) {
		s.ScaleTargetRef.APIVersion = oneOf(g.random, "apps/v1/beta", "", "apps/")
	}},
	{2, func(g *generator, s *autoscalingv2.HorizontalPodAutoscalerSpec) {
		s.Metrics = slices.Insert(s.Metrics, g.IntN(len(s.Metrics)+1), autoscalingv2.MetricSpec{Type: "Odd"})
	}},
	{4, func(g *generator, s *autoscalingv2.HorizontalPodAutoscalerSpec) { // no value of the target, or other ones
		zero, negative := parse("0"), parse("-3")
		percent := oneOf[int32](g.random, 0, -5, 60)
		target := oneOf(g.random,
			autoscalingv2.MetricTarget{}, autoscalingv2.MetricTarget{Type: "Odd", Value: &negative, AverageValue: &negative},
			autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: &zero, AverageUtilization: &percent},
			autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &zero, AverageUtilization: &percent},
			autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &negative, Value: &zero},
			autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		)
		switch m := &s.Metrics[g.IntN(len(s.Metrics))]; {
		case m.Resource != nil:
			m.Resource.Target = target
		case m.ContainerResource != nil:
			m.ContainerResource.Target = target
		case m.Object != nil:
			m.Object.Target = target
		case m.External != nil:
			m.External.Target = target
		case target.AverageValue != nil: // the controller needs one
			m.Pods.Target = target
		}
	}},
	{1, func(g *generator, s *autoscalingv2.HorizontalPodAutoscalerSpec) { // several sources
		for i := range s.Metrics {
			if other := g.metric(); other.Resource != nil && s.Metrics[i].Resource == nil {
				s.Metrics[i].Resource = other.Resource
			} else if other.External != nil && s.Metrics[i].External == nil {
				s.Metrics[i].External = other.External
			}
		}
	}},
	{1, func(g *generator, s *autoscalingv2.HorizontalPodAutoscalerSpec) {
		for i := range s.Metrics {
			if o := s.Metrics[i].Object; o != nil {
				o.DescribedObject.APIVersion = "a/b/c"
			}
		}
	}},
	{2, func(g *generator, s *autoscalingv2.HorizontalPodAutoscalerSpec) {
		more := s.MaxReplicas + 1
		s.MinReplicas = oneOf(g.random, nil, new(int32), &more)
	}},
	{0.5, func(_ *generator, s *autoscalingv2.HorizontalPodAutoscalerSpec) { s.MaxReplicas = 0 }},
	{2, func(g *generator, s *autoscalingv2.HorizontalPodAutoscalerSpec) {
		if s.Behavior == nil {
			s.Behavior = g.behavior()
			stored(s)
		}
		if s.Behavior == nil {
			return
		}
		rules := oneOf(g.random, directions(s.Behavior)...)
		tolerance, window, selection := parse("-0.1"), oneOf[int32](g.random, -1, 3601, 100_000), autoscalingv2.ScalingPolicySelect("Odd")
		switch g.IntN(4) {
		case 0:
			rules.Tolerance = &tolerance
		case 1:
			rules.StabilizationWindowSeconds = &window
		case 2:
			rules.SelectPolicy = &selection
		case 3:
			rules.Policies[0].Value, rules.Policies[0].PeriodSeconds = oneOf[int32](g.random, 0, -4), oneOf[int32](g.random, 0, -60, 90_000)
		}
	}},
}
