package generate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// template is the template of a workload's pods. Pods share templates, which never
// change.
type template struct {
	containers, inits  []corev1.Container
	overhead, podLevel corev1.ResourceList
	// sampled are the containers in the resource metrics API, in order.
	sampled []string
}

// requestable are the resources of metrics.
var requestable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, "example.com/gpu", hugepages}

const hugepages = "hugepages-2Mi"

// template returns the template of a scenario's pods: one container, sometimes more,
// sidecars, init containers, overhead and pod-level requests.
func (g *generator) template() template {
	t := template{containers: []corev1.Container{g.container("app")}}
	if g.chance(0.3) {
		t.containers = append(t.containers, g.container("log"))
	}
	if g.chance(g.version.podLevel) {
		t.podLevel = corev1.ResourceList{}
		for _, name := range some(g.random, []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, hugepages}) {
			t.podLevel[name] = g.request(name)
		}
		if g.chance(0.1) { // of none that counts at this level
			t.podLevel = oneOf(g.random, corev1.ResourceList{}, corev1.ResourceList{"example.com/gpu": parse("4")})
		}
	}
	// With requests of the pod, the most that the containers need at one time may count.
	crowded := t.podLevel != nil && g.chance(0.5)
	if crowded || g.chance(g.version.sidecars) {
		for _, name := range []string{"proxy", "mesh"}[:g.between(1, 2)] {
			sidecar := g.container(name)
			always := corev1.ContainerRestartPolicyAlways
			sidecar.RestartPolicy = &always
			t.inits = append(t.inits, sidecar)
		}
	} else if g.chance(0.1) {
		t.containers = append(t.containers, g.container("proxy"))
	}
	if crowded || g.chance(0.2) {
		setup := g.container("setup")
		if g.chance(0.2) { // as if it were absent
			setup.RestartPolicy = new(oneOf(g.random, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure))
		}
		t.inits = append(t.inits, setup)
	}
	g.Shuffle(len(t.inits), func(i, j int) { t.inits[i], t.inits[j] = t.inits[j], t.inits[i] })
	if g.chance(0.15) {
		t.overhead = corev1.ResourceList{
			corev1.ResourceCPU: parse(oneOf(g.random, "10m", "250m", "1n")), corev1.ResourceMemory: parse("120Mi"),
		}
		delete(t.overhead, oneOf(g.random, requestable...))
	}
	for _, c := range t.containers {
		t.sampled = append(t.sampled, c.Name)
	}
	for _, c := range t.inits {
		if c.Name != "setup" && g.chance(0.9) || g.chance(0.03) {
			t.sampled = append(t.sampled, c.Name)
		}
	}
	if g.chance(0.05) { // of a container that the spec doesn't have
		t.sampled = append(t.sampled, "injected")
	}
	return t
}

func (g *generator) container(container string) corev1.Container {
	requests := corev1.ResourceList{}
	for _, name := range requestable {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || g.chance(0.3) {
			requests[name] = g.request(name)
		}
	}
	if g.chance(0.02) {
		delete(requests, oneOf(g.random, requestable...))
	}
	if g.chance(0.02) {
		requests[oneOf(g.random, corev1.ResourceCPU, corev1.ResourceMemory)] = parse("0")
	}
	c := corev1.Container{Name: container}
	c.Resources.Requests = requests
	if g.chance(0.1) {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: parse("7"), hugepages: parse("8Mi")}
	}
	return c
}

// request returns a plausible request of a resource, rarely so small that it is rounded
// up.
func (g *generator) request(name corev1.ResourceName) resource.Quantity {
	switch name {
	case corev1.ResourceCPU:
		return parse(oneOf(g.random, "100m", "250m", "500m", "1", "1.5", "2000m", "0.1001", "100100u", "33m", "1m", "1n", "1e3", "0.000333"))
	case corev1.ResourceMemory:
		return parse(oneOf(g.random, "128Mi", "256Mi", "1Gi", "0.5Gi", "100M", "1e8", "200000000001m", "1", "1.5Ki", "2Ti"))
	case corev1.ResourceEphemeralStorage:
		return parse("2Gi")
	}
	return parse(oneOf(g.random, "1", "1", "2"))
}

// fill copies the template into a pod's spec.
func (t *template) fill(spec *corev1.PodSpec) {
	for i := range t.containers {
		spec.Containers = append(spec.Containers, *t.containers[i].DeepCopy())
	}
	for i := range t.inits {
		spec.InitContainers = append(spec.InitContainers, *t.inits[i].DeepCopy())
	}
	spec.Overhead = t.overhead.DeepCopy()
	if t.podLevel != nil {
		spec.Resources = &corev1.ResourceRequirements{Requests: t.podLevel.DeepCopy(), Limits: corev1.ResourceList{corev1.ResourceMemory: parse("64Gi")}}
	}
}

// request returns approximately the controller's request of a pod, or of one of its
// containers, in milli-units: close enough for readings near their targets.
func (t *template) request(name corev1.ResourceName, container string) int64 {
	if q, ok := t.podLevel[name]; ok && container == "" {
		overhead := t.overhead[name]
		return q.MilliValue() + overhead.MilliValue()
	}
	var sum int64
	for _, list := range [][]corev1.Container{t.containers, t.inits} {
		for i := range list {
			c := &list[i]
			if container != "" && c.Name != container || c.Name == "setup" {
				continue
			}
			q := c.Resources.Requests[name]
			sum += q.MilliValue()
		}
	}
	return sum
}
