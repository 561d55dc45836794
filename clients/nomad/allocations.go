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

// Allocation is one of GET /v1/allocations?resources=true, with what api's type leaves out.
type Allocation struct {
	api.AllocationListStub
	AllocatedResources *AllocatedResources
}

// AllocatedResources are those of an allocation's tasks, by their names.
type AllocatedResources struct {
	Tasks map[string]*api.AllocatedTaskResources
	// TaskLifecycles is nil for a task that has none, a main one.
	TaskLifecycles map[string]*api.TaskLifecycle
}

// What statuses are called.
const (
	desiredRun = "run"

	clientPending  = "pending"
	clientRunning  = "running"
	clientComplete = "complete"
	clientFailed   = "failed"
	clientLost     = "lost"

	taskRunning = "running"
)

// ended reports whether no client runs it any longer.
func (a *Allocation) ended() bool {
	return a.ClientStatus == clientComplete || a.ClientStatus == clientFailed || a.ClientStatus == clientLost
}

// counts says that the allocation is one of those that Nomad counts towards the group's count,
// or that it lingers. A stopped allocation that has ended stays listed until it is collected. A
// canary does not count before its promotion, although it has the name of one that counts.
func (a *Allocation) counts() bool {
	return (a.DesiredStatus == desiredRun || !a.ended()) && (a.DeploymentStatus == nil || !a.DeploymentStatus.Canary)
}

// lifecycle returns that of a task, nil: it is a main task.
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

// started returns when the first and when the last of the tasks that stay was started. Both are
// zero if one was not: a prestart task alone makes an allocation running.
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

// Health remembers since when allocations are ready. Each scale makes a deployment in which all
// allocations, also those that just go on, have no health until min_healthy_time has passed; so
// one that was ready stays it until its health is known again or a task of it starts anew. The
// zero value remembers nothing: after a start in the midst of a deployment such allocations
// count as not ready until it is through. It is not safe for concurrent use; each group has its
// own.
type Health struct {
	ready map[string]readiness // by id of the allocation
}

type readiness struct {
	started time.Time // of the task that was started last
	since   time.Time
}

// Pods returns the pods of a task group, by their names, which are the ids of allocations.
// Allocations of other groups are left out, and so are canaries and those that were stopped
// and have ended. Without deployments, as in batch jobs and where max_parallel is 0, Nomad
// does not judge the health of allocations: they are ready when they run.
func (h *Health) Pods(group string, deployments bool, allocations []*Allocation) []*setpointv1.Pod {
	var (
		pods []*setpointv1.Pod
		now  = map[string]readiness{}
	)
	for _, a := range allocations {
		if a.TaskGroup != group || !a.counts() {
			continue
		}
		pod := &setpointv1.Pod{Name: a.ID, Phase: a.phase(), Deleting: a.DesiredStatus != desiredRun}
		if first, last := a.started(); !first.IsZero() {
			pod.StartTime = timestamppb.New(first)
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

// phase is that of a pod. One whose client is disconnected is neither known to run nor to have
// failed.
func (a *Allocation) phase() string {
	switch a.ClientStatus {
	case clientPending:
		return "Pending"
	case clientRunning:
		return "Running"
	case clientComplete:
		return "Succeeded"
	case clientFailed, clientLost:
		return "Failed"
	}
	return "Unknown"
}

// readyOf is the Ready condition of one that runs. While a task is restarted the allocation is
// pending, though its health stays.
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

// requests fills in what was allocated: to tasks that stay as containers, to others as init
// containers, which a utilization is not of.
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
