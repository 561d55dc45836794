package swarm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/swarm"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/settings"
)

// stages are the states of tasks in order: those before running lead up to it, those after it
// have ended.
var stages = []swarm.TaskState{
	swarm.TaskStateNew, swarm.TaskStateAllocated, swarm.TaskStatePending, swarm.TaskStateAssigned, swarm.TaskStateAccepted,
	swarm.TaskStatePreparing, swarm.TaskStateReady, swarm.TaskStateStarting, swarm.TaskStateRunning,
	swarm.TaskStateComplete, swarm.TaskStateShutdown, swarm.TaskStateFailed, swarm.TaskStateRejected, swarm.TaskStateRemove, swarm.TaskStateOrphaned,
}

// running is the stage of running tasks.
var running = slices.Index(stages, swarm.TaskStateRunning)

// stageOf returns the stage of a state. An unknown state counts as before running: it is not
// known to run, nor to have ended.
func stageOf(s swarm.TaskState) int { return slices.Index(stages, s) }

// pods converts the tasks of a service to pods, by name: tasks that are starting, running or
// shutting down, and for each slot whose newest task has failed that one. Older tasks of a slot
// are no pods. skew says how far this clock is ahead of a node's.
func pods(tasks []swarm.Task, skew func(node string) time.Duration) []*setpointv1.Pod {
	newest := map[int]*swarm.Task{}
	for i := range tasks {
		t := &tasks[i]
		if last := newest[t.Slot]; last == nil || cmp.Or(t.CreatedAt.Compare(last.CreatedAt), cmp.Compare(t.ID, last.ID)) > 0 {
			newest[t.Slot] = t
		}
	}
	var out []*setpointv1.Pod
	for i := range tasks {
		t := &tasks[i]
		if stageOf(t.Status.State) <= running || newest[t.Slot] == t && hasFailed(t.Status.State) {
			out = append(out, pod(t, skew(t.NodeID)))
		}
	}
	slices.SortFunc(out, func(a, b *setpointv1.Pod) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

func hasFailed(s swarm.TaskState) bool {
	return s == swarm.TaskStateFailed || s == swarm.TaskStateRejected || s == swarm.TaskStateOrphaned
}

// pod converts a task. A task whose health check has not passed yet is starting; one whose
// check fails later is stopped and replaced. So a running task has been ready since it started.
func pod(t *swarm.Task, skew time.Duration) *setpointv1.Pod {
	out := &setpointv1.Pod{
		Name: t.ID, Phase: "Pending", StartTime: timestamppb.New(t.CreatedAt),
		Deleting:   stageOf(t.DesiredState) > running,
		Containers: []*setpointv1.Container{{Name: container, Requests: requests(t.Spec.Resources)}},
	}
	ready := "False"
	switch {
	case hasFailed(t.Status.State):
		out.Phase = "Failed"
	case t.Status.State == swarm.TaskStateRunning:
		out.Phase, ready = "Running", "True"
	}
	out.Ready = &setpointv1.PodReadyCondition{Status: ready, LastTransitionTime: timestamppb.New(since(t, skew))}
	return out
}

// since is when a task reached its state, by the manager's clock. The node reports that time by
// its own clock, which may be off; the manager recorded it after it created the task, and
// before its next record of it.
func since(t *swarm.Task, skew time.Duration) time.Time {
	at := t.Status.Timestamp.Add(skew)
	if !t.UpdatedAt.IsZero() && at.After(t.UpdatedAt) {
		at = t.UpdatedAt
	}
	if at.Before(t.CreatedAt) {
		at = t.CreatedAt
	}
	return at
}

// container is the name of a task's only container.
const container = "task"

// requests are the reservations of a task, by resource, or else its limits.
func requests(r *swarm.ResourceRequirements) map[string]string {
	if r == nil {
		return nil
	}
	var nanoCPUs, memory int64
	if r.Reservations != nil {
		nanoCPUs, memory = r.Reservations.NanoCPUs, r.Reservations.MemoryBytes
	}
	if r.Limits != nil {
		nanoCPUs, memory = cmp.Or(nanoCPUs, r.Limits.NanoCPUs), cmp.Or(memory, r.Limits.MemoryBytes)
	}
	out := map[string]string{}
	if nanoCPUs > 0 {
		out["cpu"] = strconv.FormatInt(nanoCPUs, 10) + "n"
	}
	if memory > 0 {
		out["memory"] = strconv.FormatInt(memory, 10)
	}
	return out
}

// present counts the tasks that serve or are about to: the replicas in a status of Kubernetes.
func present(pods []*setpointv1.Pod) int32 {
	var n int32
	for _, p := range pods {
		if !p.GetDeleting() && p.GetPhase() != "Failed" {
			n++
		}
	}
	return n
}

// notice says that tasks of a service don't run, and why; empty: all run, or may be about to.
func notice(tasks []swarm.Task, replicas int32) string {
	var last *swarm.Task
	var runs, failed int32
	for i := range tasks {
		t := &tasks[i]
		switch {
		case hasFailed(t.Status.State):
			failed++
		case stageOf(t.DesiredState) > running:
			continue // it is to end, also one that counts as running on a node that is down
		case t.Status.State == swarm.TaskStateRunning:
			runs++
			continue
		}
		if t.Status.Err != "" && (last == nil || t.Status.Timestamp.After(last.Status.Timestamp)) {
			last = t
		}
	}
	if last == nil || runs >= replicas {
		return ""
	}
	text := fmt.Sprintf("%d of %d tasks run: %s", runs, replicas, agent.Shorten(last.Status.Err))
	if failed > 0 {
		text += fmt.Sprintf(" (%d failed)", failed)
	}
	return text
}

// WithoutRequest returns the resources whose utilization a service is scaled by, but of which its
// tasks have neither a reservation nor a limit.
func WithoutRequest(s *swarm.Service, wants *settings.Settings) (missing []string) {
	have := requests(s.Spec.TaskTemplate.Resources)
	for _, m := range wants.Spec.GetMetrics() {
		if name := m.GetResource().GetName(); name != "" && m.GetResource().GetTarget().GetType() == "Utilization" && have[name] == "" {
			missing = append(missing, name)
		}
	}
	return missing
}
