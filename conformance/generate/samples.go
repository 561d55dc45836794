package generate

import (
	"fmt"
	"maps"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// measure adds pods and all readings to the step. It adds no readings of metrics
// outside the spec.
func (g *generator) measure(step *recording.Step) {
	c := &g.cluster
	levels := make([]level, len(g.spec.Metrics))
	for i := range g.spec.Metrics {
		levels[i] = g.levelOf(&g.spec.loads[i], g.base(&g.spec.Metrics[i]))
	}
	for _, p := range c.pods {
		object := g.object(p)
		step.Pods = append(step.Pods, object)
		if g.spec.readsResources() {
			g.sample(step, p, object, levels)
		}
	}
	g.disturbSamples(step)
	g.readCustom(step, levels)
	g.readExternal(step, levels)
	step.Pods = append(step.Pods, g.neighbours()...)
}

// base returns the divisor of a metric's demand: the pods that share it, or 1 for a
// total.
func (g *generator) base(m *autoscalingv2.MetricSpec) float64 {
	divided := m.External != nil && m.External.Target.AverageValue != nil ||
		m.Object != nil && m.Object.Target.Type == autoscalingv2.AverageValueMetricType
	if divided || g.cluster.replicas == 0 {
		return 1
	}
	if m.Object != nil || m.External != nil {
		return float64(g.readyPods())
	}
	return float64(len(g.cluster.pods))
}

// readyPods counts the pods that are ready by the course of their lives.
func (g *generator) readyPods() int {
	n := 0
	for _, p := range g.cluster.pods {
		if !g.clock.now.Before(p.ready) {
			n++
		}
	}
	return n
}

// readsResources reports whether a metric is read from the resource metrics API.
func (s *spec) readsResources() bool {
	for i := range s.Metrics {
		if s.Metrics[i].Resource != nil || s.Metrics[i].ContainerResource != nil {
			return true
		}
	}
	return false
}

// sample adds the resource usage of a pod.
func (g *generator) sample(step *recording.Step, p *pod, object *corev1.Pod, levels []level) {
	if g.clock.now.Before(p.start) && g.chance(0.9) {
		return
	}
	m := metricsv1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: maps.Clone(object.Labels)},
		Timestamp:  metav1.Time{Time: g.clock.now.Add(-g.seconds(0, 60)).Truncate(time.Second)},
		Window:     metav1.Duration{Duration: oneOf(g.random, 15*time.Second, 30*time.Second, 30*time.Second, time.Minute, 20500*time.Millisecond, 0, 17*time.Second)},
	}
	if g.chance(0.02) {
		m.Window.Duration = oneOf(g.random, -time.Minute, time.Nanosecond, 48*time.Hour, 30*time.Second+time.Nanosecond)
	}
	if g.chance(0.02) {
		m.Timestamp.Time = m.Timestamp.Add(oneOf(g.random, -9000*time.Hour, 9000*time.Hour))
	}
	usage := g.usage(p, levels)
	for _, name := range p.template.sampled {
		container := metricsv1beta1.ContainerMetrics{Name: name, Usage: corev1.ResourceList{}}
		for _, of := range requestable {
			if milli, used := usage[name][of]; used {
				container.Usage[of] = g.usageQuantity(of, milli)
			}
		}
		m.Containers = append(m.Containers, container)
	}
	if g.chance(0.01) && len(m.Containers) > 0 { // one twice
		m.Containers = append(m.Containers, *m.Containers[0].DeepCopy())
	}
	if p.quirk.sample != nil && !p.quirk.sample(g, object, &m) {
		return
	}
	step.PodMetrics = append(step.PodMetrics, m)
}

// usage returns milli-units by container and resource, such that the pod's share of
// each metric is at its level. Of metrics for the same resource the last one counts.
func (g *generator) usage(p *pod, levels []level) map[string]map[corev1.ResourceName]int64 {
	usage := map[string]map[corev1.ResourceName]int64{}
	for _, name := range p.template.sampled {
		usage[name] = map[corev1.ResourceName]int64{}
	}
	for i := range g.spec.Metrics {
		m := &g.spec.Metrics[i]
		switch {
		case m.Resource != nil:
			total := g.podLevel(p, m.Resource.Name, "", &m.Resource.Target, levels[i])
			for j, name := range p.template.sampled {
				part := total
				if j < len(p.template.sampled)-1 {
					part = int64(float64(total) * g.real(0.1, 0.9))
				}
				usage[name][m.Resource.Name] = part
				total -= part
			}
		case m.ContainerResource != nil:
			name := m.ContainerResource.Container
			if usage[name] != nil {
				usage[name][m.ContainerResource.Name] = g.podLevel(p, m.ContainerResource.Name, name, &m.ContainerResource.Target, levels[i])
			}
		}
	}
	g.idleUsage(usage)
	return usage
}

// idleUsage fills in usage that no metric reads, of other containers.
func (g *generator) idleUsage(usage map[string]map[corev1.ResourceName]int64) {
	for _, resources := range usage {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if _, set := resources[name]; !set {
				resources[name] = map[corev1.ResourceName]int64{corev1.ResourceCPU: 5, corev1.ResourceMemory: 20 * milliPerMi}[name]
			}
		}
	}
}

// podLevel returns the usage of a pod, or of one of its containers, in milli-units.
func (g *generator) podLevel(p *pod, name corev1.ResourceName, container string, target *autoscalingv2.MetricTarget, l level) int64 {
	if g.chance(0.002) {
		return -l.of(1000)
	}
	if g.extreme && g.chance(0.05) {
		return g.Int64()
	}
	if !l.exact {
		l.ratio *= p.share
	}
	if target.AverageUtilization == nil {
		return l.of(targetMilli(target))
	}
	request := p.template.request(name, container)
	if l.exact {
		// Whole percents are compared; the part of the request is rounded up, so that
		// the percentage is reached.
		percent := int64(*target.AverageUtilization) * l.thousands / 1000
		return (request*percent+99)/100 + l.delta
	}
	return l.of(request * int64(*target.AverageUtilization) / 100)
}

// disturbSamples adds samples of unlisted pods, some twice, and changes their order,
// which decides between two of one pod.
func (g *generator) disturbSamples(step *recording.Step) {
	if len(step.PodMetrics) == 0 || !g.chance(0.15) {
		return
	}
	again := *step.PodMetrics[g.IntN(len(step.PodMetrics))].DeepCopy()
	for i := range again.Containers {
		for name := range again.Containers[i].Usage {
			again.Containers[i].Usage[name] = *resource.NewMilliQuantity(int64(i+1)*70, resource.DecimalSI)
		}
	}
	switch g.IntN(6) {
	case 0: // a ghost
		again.Name = fmt.Sprintf("web-%d", 900+g.IntN(2))
	case 1: // a sample of another workload
		again.Labels = maps.Clone(g.cluster.selector.outside)
	case 2: // twice, the later one counts
		again.Namespace = g.scenario.HPA.Namespace
	case 3: // a pod of the same name elsewhere
		again.Namespace = "elsewhere"
	case 4: // nothing but ghosts
		for i := range step.PodMetrics {
			step.PodMetrics[i].Name += "-old"
		}
		return
	case 5:
		g.Shuffle(len(step.PodMetrics), func(i, j int) {
			step.PodMetrics[i], step.PodMetrics[j] = step.PodMetrics[j], step.PodMetrics[i]
		})
		return
	}
	step.PodMetrics = append(step.PodMetrics, again)
}
