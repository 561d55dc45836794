package wire

// Tags of PodMetrics and ContainerMetrics.
const (
	metricsPod        = 1<<3 | isBytes
	metricsTimestamp  = 2<<3 | isBytes
	metricsWindow     = 3<<3 | isFixed64
	metricsContainers = 4<<3 | isBytes
	usageName         = 1<<3 | isBytes
	usageUsage        = 2<<3 | isBytes
)

// podMetric reads the resource samples of the pod whose field begins there.
func (r *reader) podMetric(begin, from, to int) bool {
	m := growField(r, &r.podMetrics, requestPodMetrics, begin)
	if r.spent {
		return false
	}
	first := len(r.samples)
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case metricsPod:
			m.Pod, ok = r.podAgain(&r.sampled, at, end, maxName)
			ok = ok && seen.first(1)
		case metricsTimestamp:
			m.Timestamp, ok = r.instant(at, end)
			ok = ok && seen.first(2)
		case metricsWindow:
			m.Window, ok = r.window(at)
			ok = ok && seen.first(3)
		case metricsContainers:
			ok = r.sample(len(r.samples)-first, at, end)
		}
		if !ok {
			return false
		}
		i = end
	}
	m.Containers = part(r.samples, first)
	r.lastSamples = m.Containers
	return len(m.Containers) <= maxContainers
}

// podAgain reads the name of a pod, usually the next one in the list of pods.
func (r *reader) podAgain(walked *int, from, to, longest int) (string, bool) {
	if len(r.pods) == 0 {
		return r.string(from, to, longest)
	}
	if *walked == len(r.pods) {
		*walked = 0
	}
	likely := r.pods[*walked].Name
	if string(r.b[from:to]) != likely {
		return r.string(from, to, longest)
	}
	*walked++
	return likely, true
}

// sample reads the usage of a pod's container with that index. Usually its name is that
// of the previous pod's.
func (r *reader) sample(index, from, to int) bool {
	likely := ""
	if index < len(r.lastSamples) {
		likely = r.lastSamples[index].Name
	}
	c := growPart(r, &r.samples, from)
	if r.spent {
		return false
	}
	first := len(r.usages)
	var seen fields
	for i := from; i < to; {
		tag, at, end := next(r.b, i, to)
		if end == 0 {
			return false
		}
		ok := false
		switch tag {
		case usageName:
			c.Name, ok = r.reuse(likely, at, end, maxName)
			ok = ok && seen.first(1)
		case usageUsage:
			ok = r.usage(first, at, end)
		}
		if !ok {
			return false
		}
		i = end
	}
	c.Usage = part(r.usages, first)
	return true
}

// usage reads an entry of a map of usages, which begin at first.
func (r *reader) usage(first, from, to int) bool {
	keyFrom, keyTo, value, ok := entry(r.b, from, to)
	if !ok {
		return false
	}
	resource, ok := r.resource(keyFrom, keyTo)
	if !ok || len(r.usages)-first == maxResources {
		return false
	}
	for i := first; i < len(r.usages); i++ {
		if r.usages[i].Resource == resource {
			return false
		}
	}
	out := growPart(r, &r.usages, from)
	out.Resource = resource
	out.Milli, ok = r.milli(value, to)
	return ok && !r.spent
}
