package recommender

import (
	"strings"

	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// podRequest returns a pod's request of a resource in milli-units: that of the named
// container, or of the whole pod if container is empty. problem is empty if there is
// one. Upstream: calculatePodRequests.
func podRequest(pod *Pod, container, resource string) (milli int64, problem string) {
	if container == "" && hasPodLevelRequests(pod) {
		return podLevelRequest(pod, resource)
	}
	return containersRequest(pod, container, resource)
}

// containersRequest sums the containers and sidecars, each rounded separately; every
// one of them must request the resource.
func containersRequest(pod *Pod, container, resource string) (sum int64, problem string) {
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if container != "" && c.Name != container {
			continue
		}
		q, ok := find(c.Requests, resource)
		if !ok {
			return 0, missingRequest(pod, c, resource)
		}
		if sum += q.Milli(); container != "" {
			return sum, ""
		}
	}
	for i := range pod.InitContainers {
		c := &pod.InitContainers[i]
		if !c.Restartable || container != "" && c.Name != container {
			continue
		}
		q, ok := find(c.Requests, resource)
		if !ok {
			return 0, missingRequest(pod, &c.Container, resource)
		}
		if sum += q.Milli(); container != "" {
			return sum, ""
		}
	}
	if container != "" {
		return 0, "container " + container + " not found in Pod " + pod.Name
	}
	return sum, ""
}

// plainContainersRequest is containersRequest in versions without sidecars and requests
// at the pod's level: a missing container requests nothing.
func plainContainersRequest(pod *Pod, container, resource string, texts *texts) (sum int64, problem string) {
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if container != "" && c.Name != container {
			continue
		}
		q, ok := find(c.Requests, resource)
		switch {
		case ok:
			sum += q.Milli()
		case texts.shortRequests:
			return 0, "missing request for " + resource
		default:
			return 0, missingRequest(pod, c, resource)
		}
	}
	return sum, ""
}

func missingRequest(pod *Pod, c *Container, resource string) string {
	return "missing request for " + resource + " in container " + c.Name + " of Pod " + pod.Name
}

// hasPodLevelRequests reports whether a request at the pod's level is of a resource
// that may be set there.
func hasPodLevelRequests(pod *Pod) bool {
	for i := range pod.PodLevelRequests {
		if mayBePodLevel(pod.PodLevelRequests[i].Resource) {
			return true
		}
	}
	return false
}

func mayBePodLevel(resource string) bool {
	return resource == "cpu" || resource == "memory" || strings.HasPrefix(resource, "hugepages-")
}

// podLevelRequest is the request of a pod with pod-level requests: that of the pod's
// level, else the most that its containers need at one time, plus the overhead; rounded
// once. So a pod-level request of memory alone changes how cpu is counted. Upstream:
// component-helpers' PodRequests.
func podLevelRequest(pod *Pod, resource string) (milli int64, problem string) {
	total, found := find(pod.PodLevelRequests, resource)
	if !found || !mayBePodLevel(resource) {
		total, found = containersPeak(pod, resource)
	}
	if q, ok := find(pod.Overhead, resource); ok {
		total, found = total.Add(q), true
	}
	if !found {
		return 0, "missing pod-level request for " + resource + " in Pod " + pod.Name
	}
	return total.Milli(), ""
}

// containersPeak is the most that a pod's containers need at one time: all
// containers and sidecars together, or one init container with the sidecars
// started before it. A container without the resource adds nothing.
func containersPeak(pod *Pod, resource string) (peak quantity.Quantity, found bool) {
	var running quantity.Quantity
	for i := range pod.Containers {
		if q, ok := find(pod.Containers[i].Requests, resource); ok {
			running, found = running.Add(q), true
		}
	}
	var sidecars quantity.Quantity
	for i := range pod.InitContainers {
		c := &pod.InitContainers[i]
		q, ok := find(c.Requests, resource)
		if !ok {
			continue
		}
		found = true
		starting := sidecars.Add(q)
		if c.Restartable {
			running = running.Add(q)
			sidecars = starting
		}
		if starting.Cmp(peak) > 0 {
			peak = starting
		}
	}
	if running.Cmp(peak) > 0 {
		peak = running
	}
	return peak, found
}

func find(requests []ResourceRequest, resource string) (quantity.Quantity, bool) {
	for i := range requests {
		if same(requests[i].Resource, resource) {
			return requests[i].Quantity, true
		}
	}
	return quantity.Quantity{}, false
}
