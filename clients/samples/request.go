package samples

import (
	"context"
	"fmt"
	"maps"
	"slices"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Reader reads metrics for a platform, as a Set does; the zero Set has no sources.
type Reader interface {
	// Check returns the problems of queries, and sends none.
	Check(metrics []Metric) error
	// Read reads the metrics of a workload with these names of pods.
	Read(ctx context.Context, metrics []Metric, pods []string) Readings
}

// AddTo reads metrics of the workload whose pods a request has, and adds them to the request. The
// error says what of the request and of the readings contradicts each other.
func AddTo(ctx context.Context, from Reader, metrics []Metric, request *setpointv1.RecommendRequest) (err error) {
	if len(metrics) == 0 {
		return nil
	}
	if name, twice := twiceRead(request, metrics); twice {
		return fmt.Errorf("has values of %s, but the target also has a query for it: remove one", typed.Shorten(name, maxMessageBytes))
	}
	pods := make([]string, len(request.GetPods()))
	for i, pod := range request.GetPods() {
		pods[i] = pod.GetName()
	}
	read := from.Read(ctx, metrics, pods)
	request.CustomMetrics = append(request.CustomMetrics, read.CustomMetrics...)
	request.ExternalMetrics = append(request.ExternalMetrics, read.ExternalMetrics...)
	request.MetricErrors = append(request.MetricErrors, read.MetricErrors...)
	request.PodMetrics, err = together(request.GetPodMetrics(), read.PodMetrics)
	return err
}

// twiceRead returns the metric that a request has and a source answers, too: both would be
// summed.
func twiceRead(req *setpointv1.RecommendRequest, metrics []Metric) (name string, twice bool) {
	for _, m := range metrics {
		switch t, _ := targetOf(m.Spec); {
		case t.ofUsage():
			twice = slices.ContainsFunc(req.GetPodMetrics(), func(v *setpointv1.PodMetrics) bool { return hasUsage(v, t.name) })
		case t.kind == externalType:
			twice = slices.ContainsFunc(req.GetExternalMetrics(), func(v *setpointv1.ExternalMetric) bool { return v.GetMetric().GetName() == t.name })
		default:
			twice = slices.ContainsFunc(req.GetCustomMetrics(), func(v *setpointv1.CustomMetric) bool { return v.GetMetric().GetName() == t.name })
		}
		if twice {
			return Subject(m.Spec), true
		}
	}
	return "", false
}

// hasUsage reports whether there is usage of a resource.
func hasUsage(m *setpointv1.PodMetrics, resource string) bool {
	return slices.ContainsFunc(m.GetContainers(), func(c *setpointv1.ContainerMetrics) bool {
		_, ok := c.GetUsage()[resource]
		return ok
	})
}

// together returns usage that was observed with that of other resources that sources answered:
// of a pod the service takes one list of containers, and a container without one of the
// resources would count as one without a sample. The error names a pod whose containers differ.
func together(observed, read []*setpointv1.PodMetrics) ([]*setpointv1.PodMetrics, error) {
	if len(observed) == 0 || len(read) == 0 {
		return append(observed, read...), nil
	}
	pods := make(map[string]*setpointv1.PodMetrics, len(observed))
	for _, pod := range observed {
		pods[pod.GetPod()] = pod
	}
	for _, from := range read {
		to := pods[from.GetPod()]
		if to == nil {
			observed = append(observed, from)
			continue
		}
		if !slices.Equal(containersOf(to), containersOf(from)) {
			return nil, fmt.Errorf("podMetrics: pod %q has usage of the containers %q, but the queries return usage of %q: both must name the same containers, or none",
				typed.Shorten(to.GetPod(), maxMessageBytes), containersOf(to), containersOf(from))
		}
		usage := make(map[string]map[string]string, len(to.GetContainers()))
		for _, c := range to.GetContainers() {
			if c.Usage == nil {
				c.Usage = map[string]string{}
			}
			usage[c.GetName()] = c.Usage
		}
		for _, c := range from.GetContainers() {
			maps.Copy(usage[c.GetName()], c.GetUsage())
		}
		if hasUsage(from, cpu) {
			to.Timestamp, to.WindowSeconds = from.GetTimestamp(), from.GetWindowSeconds()
		}
	}
	return observed, nil
}

// containersOf returns the names of containers, in order.
func containersOf(m *setpointv1.PodMetrics) []string {
	names := make([]string, len(m.GetContainers()))
	for i, c := range m.GetContainers() {
		names[i] = c.GetName()
	}
	slices.Sort(names)
	return names
}
