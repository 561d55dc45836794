//go:build !js

package conversion

import (
	"fmt"
	"math"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

var podPhases = map[string]recommender.PodPhase{
	"Pending": recommender.PhasePending,
	"Running": recommender.PhaseRunning,
	"Failed":  recommender.PhaseFailed,
}

var readyStatuses = map[string]recommender.ReadyStatus{
	"True":  recommender.ReadyTrue,
	"False": recommender.ReadyFalse,
}

// pods reads pods into a few allocations for all of them.
func (r *requestReader) pods(pods []*setpointv1.Pod) []recommender.Pod {
	if len(pods) == 0 {
		return nil
	}
	r.refuseDuplicates(pods)
	var containers, inits, requests int
	for _, p := range pods {
		containers += len(p.GetContainers())
		inits += len(p.GetInitContainers())
		requests += len(p.GetResources().GetRequests()) + len(p.GetOverhead())
		for _, c := range p.GetContainers() {
			requests += len(c.GetRequests())
		}
		for _, c := range p.GetInitContainers() {
			requests += len(c.GetRequests())
		}
	}
	out := make([]recommender.Pod, len(pods))
	slabs := podSlabs{
		containers: make([]recommender.Container, 0, containers),
		inits:      make([]recommender.InitContainer, 0, inits),
		requests:   make([]recommender.ResourceRequest, 0, requests),
	}
	for i, p := range pods {
		r.pod(&out[i], p, i, &slabs)
	}
	return out
}

// podSlabs are the allocations for all pods of a request.
type podSlabs struct {
	containers []recommender.Container
	inits      []recommender.InitContainer
	requests   []recommender.ResourceRequest
}

func (r *requestReader) refuseDuplicates(pods []*setpointv1.Pod) {
	seen := make(map[string]struct{}, len(pods))
	for i, p := range pods {
		if _, twice := seen[p.GetName()]; twice {
			r.refuse(fmt.Sprintf("pods[%d].name", i), fmt.Sprintf("Duplicate value: %q", p.GetName()))
			continue
		}
		seen[p.GetName()] = struct{}{}
	}
}

func (r *requestReader) pod(out *recommender.Pod, p *setpointv1.Pod, i int, slabs *podSlabs) {
	out.Name, out.Deleting = p.GetName(), p.GetDeleting()
	out.Phase = podPhases[p.GetPhase()]
	out.StartTime = r.time(p.GetStartTime(), func() string { return fmt.Sprintf("pods[%d].startTime", i) })
	if ready := p.GetReady(); ready != nil {
		out.Ready = recommender.ReadyUnknown
		if status, ok := readyStatuses[ready.GetStatus()]; ok {
			out.Ready = status
		}
		out.ReadyTransition = r.time(ready.GetLastTransitionTime(), func() string {
			return fmt.Sprintf("pods[%d].ready.lastTransitionTime", i)
		})
	}
	out.PodLevelRequests = r.requests(slabs, p.GetResources().GetRequests(), func() string { return fmt.Sprintf("pods[%d].resources.requests", i) })
	out.Overhead = r.requests(slabs, p.GetOverhead(), func() string { return fmt.Sprintf("pods[%d].overhead", i) })
	first := len(slabs.containers)
	for j, c := range p.GetContainers() {
		slabs.containers = append(slabs.containers, recommender.Container{
			Name: c.GetName(),
			Requests: r.requests(slabs, c.GetRequests(), func() string {
				return fmt.Sprintf("pods[%d].containers[%d].requests", i, j)
			}),
		})
	}
	out.Containers = slabs.containers[first:len(slabs.containers):len(slabs.containers)]
	first = len(slabs.inits)
	for j, c := range p.GetInitContainers() {
		init := recommender.InitContainer{Restartable: c.GetRestartable()}
		init.Name = c.GetName()
		init.Requests = r.requests(slabs, c.GetRequests(), func() string {
			return fmt.Sprintf("pods[%d].initContainers[%d].requests", i, j)
		})
		slabs.inits = append(slabs.inits, init)
	}
	out.InitContainers = slabs.inits[first:len(slabs.inits):len(slabs.inits)]
}

// requests reads quantities by resource.
func (r *requestReader) requests(slabs *podSlabs, requests map[string]string, place func() string) []recommender.ResourceRequest {
	first := len(slabs.requests)
	for resource, s := range requests {
		slabs.requests = append(slabs.requests, recommender.ResourceRequest{
			Resource: resource,
			Quantity: r.quantity(s, func() string { return fmt.Sprintf("%s[%q]", place(), resource) }),
		})
	}
	return slabs.requests[first:len(slabs.requests):len(slabs.requests)]
}

// podMetrics reads resource samples into a few allocations for all of them.
func (r *requestReader) podMetrics(metrics []*setpointv1.PodMetrics) []recommender.PodMetrics {
	if len(metrics) == 0 {
		return nil
	}
	var containers, usages int
	for _, m := range metrics {
		containers += len(m.GetContainers())
		for _, c := range m.GetContainers() {
			usages += len(c.GetUsage())
		}
	}
	out := make([]recommender.PodMetrics, len(metrics))
	containerSlab := make([]recommender.ContainerMetrics, 0, containers)
	usageSlab := make([]recommender.ResourceUsage, 0, usages)
	for i, m := range metrics {
		out[i] = recommender.PodMetrics{
			Pod:       m.GetPod(),
			Timestamp: r.time(m.GetTimestamp(), func() string { return fmt.Sprintf("podMetrics[%d].timestamp", i) }),
			Window:    Window(m.GetWindowSeconds()),
		}
		firstContainer := len(containerSlab)
		for j, c := range m.GetContainers() {
			firstUsage := len(usageSlab)
			for resource, s := range c.GetUsage() {
				usageSlab = append(usageSlab, recommender.ResourceUsage{
					Resource: resource,
					Milli: r.milli(s, func() string {
						return fmt.Sprintf("podMetrics[%d].containers[%d].usage[%q]", i, j, resource)
					}),
				})
			}
			containerSlab = append(containerSlab, recommender.ContainerMetrics{
				Name: c.GetName(), Usage: usageSlab[firstUsage:len(usageSlab):len(usageSlab)],
			})
		}
		out[i].Containers = containerSlab[firstContainer:len(containerSlab):len(containerSlab)]
	}
	return out
}

// Window converts seconds to a duration, to the nanosecond. Values out of range
// saturate.
func Window(seconds float64) time.Duration {
	nanos := math.Round(seconds * float64(time.Second))
	switch {
	case nanos >= math.MaxInt64: // 2^63 as a floating-point number
		return math.MaxInt64
	case nanos < math.MinInt64:
		return math.MinInt64
	}
	return time.Duration(nanos)
}
