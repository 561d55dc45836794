package generate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// quirk is an unusual property of a pod or its sample.
type quirk struct {
	// pod changes the pod, nil: nothing.
	pod func(*generator, *pod, *corev1.Pod)
	// sample changes its resource sample, nil: nothing. It returns false for none.
	sample func(*generator, *corev1.Pod, *metricsv1beta1.PodMetrics) bool
	// unread pods also have no value of a Pods metric.
	unread bool
}

func (g *generator) quirk() quirk { return pick(g.random, quirks) }

// quirks test the rules that group pods, and those that sum their requests and samples.
var quirks = []weighted[quirk]{
	{3, quirk{sample: noSample, unread: true}},
	{1, quirk{sample: noSample}},
	{2, quirk{pod: phase(corev1.PodPending)}},
	{2, quirk{pod: phase(corev1.PodFailed)}},
	{2, quirk{pod: phase(corev1.PodSucceeded), sample: noSample, unread: true}},
	{1, quirk{pod: phase(corev1.PodSucceeded)}},
	{1, quirk{pod: phase(corev1.PodUnknown)}},
	{1, quirk{pod: phase("")}},
	{1, quirk{pod: phase("Odd")}},
	{2, quirk{pod: terminating}},
	{2, quirk{pod: neverReady}},
	{2, quirk{pod: becameUnready}},
	{1, quirk{pod: readiness(corev1.ConditionUnknown)}},
	{1, quirk{pod: readiness(corev1.ConditionFalse)}},
	{1, quirk{pod: readiness("Odd")}},
	{1, quirk{pod: noConditions}},
	{1, quirk{pod: twoConditions}},
	{1, quirk{pod: zeroTransition}},
	{1.5, quirk{pod: noStart}},
	{3, quirk{pod: startsOnEdge}},
	{3, quirk{pod: youngAndReady, sample: sampleOnEdge}},
	{1, quirk{pod: youngAndReady, sample: timelessSample}},
	{1, quirk{sample: containerWithoutUsage}},
	{1, quirk{sample: noContainers}},
	{1, quirk{sample: oneContainer}},
	{0.5, quirk{sample: readsAsNothing}},
	{0.3, quirk{pod: containerWithoutRequest}},
	{0.3, quirk{pod: noRequests}},
	{0.5, quirk{pod: zeroRequests}},
	{0.8, quirk{pod: containersMissing}},
}

func phase(phase corev1.PodPhase) func(*generator, *pod, *corev1.Pod) {
	return func(_ *generator, _ *pod, out *corev1.Pod) { out.Status.Phase = phase }
}

func terminating(g *generator, _ *pod, out *corev1.Pod) {
	out.DeletionTimestamp = &metav1.Time{Time: g.clock.now.Truncate(time.Second)}
}

// readiness gives an old pod an odd Ready condition.
func readiness(status corev1.ConditionStatus) func(*generator, *pod, *corev1.Pod) {
	return func(_ *generator, p *pod, out *corev1.Pod) {
		out.Status.Phase = corev1.PodRunning
		out.Status.StartTime = &metav1.Time{Time: p.start}
		setReady(&out.Status, status, p.ready)
	}
}

// neverReady is a pod that became unready about one initial readiness delay after its
// start, past the initialization period.
func neverReady(g *generator, p *pod, out *corev1.Pod) {
	start := p.start
	if old := g.clock.now.Truncate(time.Second).Add(-whole(g.scenario.Config.CPUInitializationPeriodSeconds)); start.After(old) {
		start = old
	}
	out.Status.Phase = corev1.PodRunning
	out.Status.StartTime = &metav1.Time{Time: start}
	delay := whole(g.scenario.Config.InitialReadinessDelaySeconds)
	setReady(&out.Status, corev1.ConditionFalse, start.Add(delay).Add(oneOf(g.random, 0, -time.Second, time.Second, -delay)))
}

// becameUnready is a pod that was ready once.
func becameUnready(g *generator, p *pod, out *corev1.Pod) {
	out.Status.Phase = corev1.PodRunning
	out.Status.StartTime = &metav1.Time{Time: p.start}
	setReady(&out.Status, corev1.ConditionFalse, g.clock.now.Truncate(time.Second).Add(-g.seconds(0, 600)))
}

func noConditions(_ *generator, _ *pod, out *corev1.Pod) { out.Status.Conditions = nil }

// twoConditions adds other conditions; of two of the same type the first counts.
func twoConditions(g *generator, p *pod, out *corev1.Pod) {
	others := []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: p.created}},
	}
	out.Status.Conditions = append(others, out.Status.Conditions...)
	if g.chance(0.5) {
		out.Status.Conditions = append(out.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse})
	}
}

func zeroTransition(_ *generator, _ *pod, out *corev1.Pod) {
	for i := range out.Status.Conditions {
		out.Status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
}

func noStart(_ *generator, _ *pod, out *corev1.Pod) { out.Status.StartTime = nil }

// startsOnEdge is a pod whose initialization period ends about now, or that starts
// about now.
func startsOnEdge(g *generator, _ *pod, out *corev1.Pod) {
	start := g.clock.now.Truncate(time.Second)
	if g.chance(0.8) {
		start = start.Add(-whole(g.scenario.Config.CPUInitializationPeriodSeconds))
	}
	start = start.Add(oneOf(g.random, 0, -time.Second, time.Second))
	out.Status.Phase = corev1.PodRunning
	out.Status.StartTime = &metav1.Time{Time: start}
	ready := start.Add(oneOf(g.random, 0, 10*time.Second, -time.Second))
	setReady(&out.Status, oneOf(g.random, corev1.ConditionTrue, corev1.ConditionFalse), ready)
}

// youngAndReady is a pod within its initialization period that is ready.
func youngAndReady(g *generator, _ *pod, out *corev1.Pod) {
	period := whole(g.scenario.Config.CPUInitializationPeriodSeconds)
	start := g.clock.now.Truncate(time.Second).Add(-period / 2).Truncate(time.Second)
	out.Status.Phase = corev1.PodRunning
	out.Status.StartTime = &metav1.Time{Time: start}
	setReady(&out.Status, corev1.ConditionTrue, start.Add(period/4).Truncate(time.Second))
}

// sampleOnEdge is a sample taken about one window after the pod became ready.
func sampleOnEdge(g *generator, out *corev1.Pod, m *metricsv1beta1.PodMetrics) bool {
	if len(out.Status.Conditions) == 0 {
		return true
	}
	at := out.Status.Conditions[0].LastTransitionTime.Add(m.Window.Duration)
	m.Timestamp = metav1.Time{Time: at.Add(oneOf(g.random, 0, -time.Second, time.Second)).Truncate(time.Second)}
	return true
}

func timelessSample(_ *generator, _ *corev1.Pod, m *metricsv1beta1.PodMetrics) bool {
	m.Timestamp = metav1.Time{}
	return true
}

func noSample(*generator, *corev1.Pod, *metricsv1beta1.PodMetrics) bool { return false }

func containerWithoutUsage(g *generator, _ *corev1.Pod, m *metricsv1beta1.PodMetrics) bool {
	if len(m.Containers) == 0 {
		return true
	}
	usage := m.Containers[g.IntN(len(m.Containers))].Usage
	delete(usage, oneOf(g.random, corev1.ResourceCPU, corev1.ResourceMemory))
	return true
}

func noContainers(_ *generator, _ *corev1.Pod, m *metricsv1beta1.PodMetrics) bool {
	m.Containers = nil
	return true
}

func oneContainer(_ *generator, _ *corev1.Pod, m *metricsv1beta1.PodMetrics) bool {
	m.Containers = m.Containers[:min(1, len(m.Containers))]
	return true
}

// readsAsNothing is a usage so large that the controller reads it as 0.
func readsAsNothing(g *generator, _ *corev1.Pod, m *metricsv1beta1.PodMetrics) bool {
	for i := range m.Containers {
		m.Containers[i].Usage[oneOf(g.random, corev1.ResourceCPU, corev1.ResourceMemory)] = parse(oneOf(g.random, readsAsZero...))
	}
	return true
}

func containerWithoutRequest(g *generator, _ *pod, out *corev1.Pod) {
	requests := out.Spec.Containers[g.IntN(len(out.Spec.Containers))].Resources.Requests
	delete(requests, oneOf(g.random, corev1.ResourceCPU, corev1.ResourceMemory))
}

func noRequests(_ *generator, _ *pod, out *corev1.Pod) {
	for i := range out.Spec.Containers {
		out.Spec.Containers[i].Resources = corev1.ResourceRequirements{}
	}
	out.Spec.Resources = nil
}

func zeroRequests(_ *generator, _ *pod, out *corev1.Pod) {
	for i := range out.Spec.Containers {
		for name := range out.Spec.Containers[i].Resources.Requests {
			out.Spec.Containers[i].Resources.Requests[name] = parse("0")
		}
	}
}

func containersMissing(_ *generator, _ *pod, out *corev1.Pod) {
	out.Spec.Containers = out.Spec.Containers[:1]
	out.Spec.Containers[0].Name = "main"
	out.Spec.InitContainers = nil
}

// whole returns whole seconds, as the API's times have them.
func whole(s float64) time.Duration { return seconds(s).Truncate(time.Second) }
