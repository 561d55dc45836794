package generate

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// spec is the spec of the autoscaler, as stored, with the loads of its metrics.
type spec struct {
	autoscalingv2.HorizontalPodAutoscalerSpec
	// loads has one entry per metric.
	loads []load
	// units are the milli-units of which targets of a metric or resource are a small
	// multiple, by name, so that metrics with the same name read the same numbers.
	units map[string]int64
	// edges is the share of readings at an edge of the arithmetic.
	edges float64
}

// min returns the lower bound.
func (s *spec) min() int32 {
	if s.MinReplicas == nil {
		return 1
	}
	return *s.MinReplicas
}

// newSpec returns the first spec of a scenario.
func (g *generator) newSpec() spec {
	s := spec{units: map[string]int64{}, edges: oneOf(g.random, 0, 0.1, 0.2, 0.5)}
	s.ScaleTargetRef = g.scaleTarget()
	least, most := g.bounds(true)
	s.MinReplicas, s.MaxReplicas = &least, most
	if least == 1 && g.chance(0.3) {
		s.MinReplicas = nil
	}
	s.Behavior = g.behavior()
	g.spec = s // metrics and loads use the bounds
	for range pick(g.random, []weighted[int]{{5, 1}, {3, 2}, {1.5, 3}, {0.7, 4}, {0.5, 5}, {0.1, 12}}) {
		g.addMetric()
	}
	g.keepZeroValid()
	if g.chance(0.03) {
		g.spec.Metrics, g.spec.loads = nil, []load{g.newLoad()} // the API server adds a default
		if g.spec.min() == 0 {
			*g.spec.MinReplicas = 1
		}
	}
	stored(&g.spec.HorizontalPodAutoscalerSpec)
	return g.spec
}

// scaleTarget refers to a workload of a kind that can be scaled, rarely to an unknown
// kind.
func (g *generator) scaleTarget() autoscalingv2.CrossVersionObjectReference {
	ref := pick(g.random, []weighted[autoscalingv2.CrossVersionObjectReference]{
		{12, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment"}},
		{3, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet"}},
		{1, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "ReplicaSet"}},
		{1, autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "ReplicationController"}},
		{0.15, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "DaemonSet"}},
		{0.5, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1beta2", Kind: "Deployment"}},
		{0.15, autoscalingv2.CrossVersionObjectReference{APIVersion: "example.com/v1alpha1", Kind: "Deployment"}},
	})
	ref.Name = oneOf(g.random, "web", "web", "web-frontend", "db.primary")
	return ref
}

// bounds returns bounds of an autoscaler. may0 allows a lower bound of 0 where the
// feature is on.
func (g *generator) bounds(may0 bool) (least, most int32) {
	least = oneOf[int32](g.random, 1, 1, 1, 2, 2, 3, 5, 10)
	if may0 && g.scenario.Config.ScaleToZero && g.chance(0.7) {
		least = 0
	}
	most = max(least, 1) + int32(pick(g.random, []weighted[int]{
		{1, 0},
		{8, g.between(1, 12)},
		{5, g.between(8, 40)},
		{1, g.between(40, 200)},
		{0.4, g.between(200, 100000)},
	}))
	if g.extreme && g.chance(0.5) || g.chance(0.02) {
		most = 2147483647
	}
	return least, most
}

// keepZeroValid makes the spec valid for the API server: a lower bound of 0 needs the
// feature and a metric that can be read without pods.
func (g *generator) keepZeroValid() {
	if g.spec.min() != 0 || g.spec.readsTotals() && g.scenario.Config.ScaleToZero {
		return
	}
	if !g.scenario.Config.ScaleToZero || g.chance(0.2) {
		*g.spec.MinReplicas = 1
		return
	}
	g.setMetric(g.IntN(len(g.spec.Metrics)), g.totalMetric())
}

// readsTotals reports whether a metric is of a type that can be read without pods.
func (s *spec) readsTotals() bool {
	return slices.ContainsFunc(s.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	})
}

// dividesByStatus reports whether a metric's total is divided by the observed
// replicas.
func (s *spec) dividesByStatus() bool {
	return slices.ContainsFunc(s.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Object != nil && m.Object.Target.AverageValue != nil || m.External != nil && m.External.Target.AverageValue != nil
	})
}

// addMetric appends a metric of any type.
func (g *generator) addMetric() {
	g.spec.Metrics = append(g.spec.Metrics, g.metric())
	g.spec.loads = append(g.spec.loads, g.newLoad())
}

// setMetric replaces a metric.
func (g *generator) setMetric(i int, m autoscalingv2.MetricSpec) {
	g.spec.Metrics[i] = m
	g.spec.loads[i] = g.newLoad()
}

// generation is the API server's generation of a stored spec: it grows with each change
// of the spec, and restarts with the object.
func (g *generator) generation(spec *autoscalingv2.HorizontalPodAutoscalerSpec) int64 {
	if g.stored == nil {
		g.generations = 1
	} else if !equality.Semantic.DeepEqual(g.stored, spec) {
		g.generations++
	}
	g.stored = spec.DeepCopy()
	return g.generations
}

// autoscaler returns the object with the current spec.
func (g *generator) autoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
	if g.scenario.HPA != nil {
		hpa.ObjectMeta = *g.scenario.HPA.ObjectMeta.DeepCopy()
	} else if g.chance(0.2) {
		hpa.Name, hpa.Namespace = oneOf(g.random, "web-hpa", "db.primary", "a"), oneOf(g.random, "default", "kube-system", "n1")
	}
	hpa.Spec = *g.spec.DeepCopy()
	hpa.Generation = g.generation(&hpa.Spec)
	return hpa
}
