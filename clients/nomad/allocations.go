package nomad

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/nomad/api"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Allocation is an entry of GET /v1/allocations?resources=true, with the fields that api's type
// lacks.
type Allocation struct {
	api.AllocationListStub
	AllocatedResources *AllocatedResources
}

// AllocatedResources are those of an allocation's tasks, by name.
type AllocatedResources struct {
	Tasks map[string]*api.AllocatedTaskResources
	// TaskLifecycles is nil for a main task.
	TaskLifecycles map[string]*api.TaskLifecycle
}

// The statuses.
const (
	desiredRun = "run"

	clientPending  = "pending"
	clientRunning  = "running"
	clientComplete = "complete"
	clientFailed   = "failed"
	clientLost     = "lost"
	clientUnknown  = "unknown"

	taskRunning = "running"
)

// failed reports whether it failed, and is to run all the same: Nomad reschedules it after a while, of up to an hour, or
// has given that up, and counts it until then.
func (a *Allocation) failed() bool {
	return a.DesiredStatus == desiredRun && a.ClientStatus == clientFailed
}

// ended reports whether no client runs it any more, nor is to.
func (a *Allocation) ended() bool {
	return a.ClientStatus == clientComplete || a.ClientStatus == clientFailed && !a.failed() || a.ClientStatus == clientLost
}

// counts reports whether Nomad counts the allocation towards the group's count, or it lingers.
// A stopped allocation that has ended stays listed until it is garbage collected. A canary does
// not count before its promotion, although it has the name of one that does.
func (a *Allocation) counts() bool {
	return (a.DesiredStatus == desiredRun || !a.ended()) && (a.DeploymentStatus == nil || !a.DeploymentStatus.Canary)
}

// replaced reports whether its client is disconnected, and one of those that are to run has its place meanwhile. One that
// came back still names the other, which is stopped then.
func (a *Allocation) replaced(toRun map[string]bool) bool {
	return a.ClientStatus == clientUnknown && toRun[a.NextAllocation]
}

// toRun are the IDs of the allocations that should run and have not ended.
func toRun(allocations []*Allocation) map[string]bool {
	ids := make(map[string]bool, len(allocations))
	for _, a := range allocations {
		if a.DesiredStatus == desiredRun && !a.ended() {
			ids[a.ID] = true
		}
	}
	return ids
}

// lifecycle returns a task's lifecycle, nil for a main task.
func (a *Allocation) lifecycle(task string) *api.TaskLifecycle {
	if a.AllocatedResources == nil {
		return nil
	}
	return a.AllocatedResources.TaskLifecycles[task]
}

// stays reports whether a task runs as long as the allocation: a main task or a sidecar.
func (a *Allocation) stays(task string) bool {
	l := a.lifecycle(task)
	return l == nil || l.Sidecar
}

// started returns when the first and the last of the lasting tasks started. Both are zero if
// one has not started: a prestart task alone makes an allocation running.
func (a *Allocation) started() (first, last time.Time) {
	for name, task := range a.TaskStates {
		if !a.stays(name) {
			continue
		}
		if task.StartedAt.IsZero() {
			return time.Time{}, time.Time{}
		}
		if first.IsZero() || task.StartedAt.Before(first) {
			first = task.StartedAt
		}
		if task.StartedAt.After(last) {
			last = task.StartedAt
		}
	}
	return first, last
}

// older reports whether all lasting tasks have run for longer than that.
func (a *Allocation) older(than time.Duration) bool {
	_, last := a.started()
	return !last.IsZero() && time.Since(last) > than
}

// Health remembers since when allocations are ready. Each scaling starts a deployment in which
// no allocation has health until min_healthy_time has passed, not even those that keep running;
// so an allocation that was ready stays ready until its health is known again or one of its
// tasks restarts. The zero value remembers nothing: if the agent starts amid a deployment, such
// allocations count as not ready until it ends. It is not safe for concurrent use; each group
// has its own.
type Health struct {
	ready map[string]readiness // by id of the allocation
}

type readiness struct {
	started time.Time // start of the most recently started task
	since   time.Time
}

// Pods returns the pods of a task group, named by the ids of the allocations. It omits
// allocations of other groups, canaries, and stopped ones that have ended. Without deployments,
// as in batch jobs and with max_parallel 0, Nomad does not judge the health of allocations:
// they are ready when they run.
func (h *Health) Pods(group string, deployments bool, allocations []*Allocation) []*setpointv1.Pod {
	var (
		pods  []*setpointv1.Pod
		now   = map[string]readiness{}
		there = toRun(allocations)
	)
	for _, a := range allocations {
		if a.TaskGroup != group || !a.counts() || a.replaced(there) {
			continue
		}
		first, last := a.started()
		pod := &setpointv1.Pod{Name: a.ID, Phase: a.phase(!first.IsZero()), Deleting: a.DesiredStatus != desiredRun}
		if !first.IsZero() {
			pod.StartTime = timestamppb.New(first)
		}
		if pod.Phase == "Running" && !first.IsZero() {
			pod.Ready = condition("False", last)
			if a.ClientStatus == clientRunning {
				pod.Ready = h.readyOf(a, last, deployments, now)
			}
		}
		a.requests(pod)
		pods = append(pods, pod)
	}
	h.ready = now
	slices.SortFunc(pods, func(a, b *setpointv1.Pod) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return pods
}

// phase is the phase of a pod. One that has started stays Running in a crash loop, while an allocation
// is pending until it is restarted, and then failed. An allocation whose client is disconnected is in
// phase Unknown.
func (a *Allocation) phase(started bool) string {
	switch {
	case a.ClientStatus == clientRunning, started && (a.ClientStatus == clientPending || a.failed()):
		return "Running"
	case a.ClientStatus == clientPending, a.failed():
		return "Pending"
	case a.ClientStatus == clientComplete:
		return "Succeeded"
	case a.ClientStatus == clientFailed, a.ClientStatus == clientLost:
		return "Failed"
	}
	return "Unknown"
}

// readyOf is the Ready condition of a running allocation. While a task restarts the allocation
// is pending, though its health stays.
func (h *Health) readyOf(a *Allocation, started time.Time, deployments bool, now map[string]readiness) *setpointv1.PodReadyCondition {
	ready := readiness{started: started, since: started}
	before, known := h.ready[a.ID]
	known = known && before.started.Equal(started)
	switch status := a.DeploymentStatus; {
	case !deployments:
	case known && (status == nil || status.Healthy == nil || *status.Healthy):
		ready = before
	case status == nil || status.Healthy == nil:
		return condition("False", started)
	case !*status.Healthy:
		return condition("False", status.Timestamp)
	case status.Timestamp.After(started):
		ready.since = status.Timestamp
	}
	now[a.ID] = ready
	return condition("True", ready.since)
}

func condition(status string, since time.Time) *setpointv1.PodReadyCondition {
	return &setpointv1.PodReadyCondition{Status: status, LastTransitionTime: timestamppb.New(since)}
}

// requests fills in the allocated resources: for lasting tasks as containers, for others as
// init containers, which don't count for utilization.
func (a *Allocation) requests(pod *setpointv1.Pod) {
	if a.AllocatedResources == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.AllocatedResources.Tasks)) {
		task := a.AllocatedResources.Tasks[name]
		requests := map[string]string{
			"cpu":    strconv.FormatInt(task.Cpu.CpuShares, 10),
			"memory": strconv.FormatInt(task.Memory.MemoryMB, 10) + "Mi",
		}
		if a.stays(name) {
			pod.Containers = append(pod.Containers, &setpointv1.Container{Name: name, Requests: requests})
		} else {
			pod.InitContainers = append(pod.InitContainers, &setpointv1.InitContainer{Name: name, Requests: requests})
		}
	}
}
