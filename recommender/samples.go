package recommender

// resourceSamples joins the usage of a resource to the pods: of the container
// named, or of all containers where container is empty. A pod one of whose
// containers lacks the resource has no sample. Upstream: GetResourceMetric.
func (s *sampleSet) resourceSamples(in *Input, container, resource string) (problem string) {
	if len(in.PodMetrics) == 0 {
		return "no metrics returned from resource metrics API"
	}
	for i := range in.PodMetrics {
		m := &in.PodMetrics[i]
		if value, ok := podUsage(m, container, resource); ok {
			s.put(in.Pods, m.Pod, value, i)
		}
	}
	return ""
}

func podUsage(m *PodMetrics, container, resource string) (sum int64, ok bool) {
	for i := range m.Containers {
		c := &m.Containers[i]
		if container != "" && c.Name != container {
			continue
		}
		usage, found := usageOf(c.Usage, resource)
		if !found {
			return 0, false
		}
		sum, ok = sum+usage, true
		if container != "" {
			return sum, true
		}
	}
	return sum, ok
}

func usageOf(usage []ResourceUsage, resource string) (int64, bool) {
	for i := range usage {
		if usage[i].Resource == resource {
			return usage[i].Milli, true
		}
	}
	return 0, false
}

// customSamples joins the values of a Pods metric to the pods. Upstream:
// GetRawMetric.
func (s *sampleSet) customSamples(in *Input, values []Value) (problem string) {
	if len(values) == 0 {
		return "no metrics returned from custom metrics API"
	}
	for i := range values {
		s.put(in.Pods, values[i].Pod, values[i].Milli, i)
	}
	return ""
}
