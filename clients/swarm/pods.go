package swarm

import (
	"cmp"
	"fmt"
	"reflect"
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
	var out []*setpointv1.Pod
	for _, slot := range bySlot(tasks) {
		for i, t := range slot {
			if stageOf(t.Status.State) <= running || i == 0 && hasFailed(t.Status.State) {
				one := pod(t, skew(t.NodeID))
				if one.Phase == "Pending" && i+1 < len(slot) && slot[i+1].Status.State == swarm.TaskStateFailed {
					one.Phase = "Running" // in a crash loop, as a pod in one stays
				}
				out = append(out, one)
			}
		}
	}
	slices.SortFunc(out, func(a, b *setpointv1.Pod) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// bySlot are the tasks of each slot, the newest first.
func bySlot(tasks []swarm.Task) map[int][]*swarm.Task {
	slots := map[int][]*swarm.Task{}
	for i := range tasks {
		slots[tasks[i].Slot] = append(slots[tasks[i].Slot], &tasks[i])
	}
	for _, slot := range slots {
		slices.SortFunc(slot, func(a, b *swarm.Task) int { return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID)) })
	}
	return slots
}

func hasFailed(s swarm.TaskState) bool {
	return s == swarm.TaskStateFailed || s == swarm.TaskStateRejected || s == swarm.TaskStateOrphaned
}

// pod converts a task. A task whose health check has not passed yet is starting; one whose
// check fails later is stopped and replaced. So a running task has been ready since it started, and that
// is its start, too: of one that waited long for a node, creation says nothing of how young its usage is.
func pod(t *swarm.Task, skew time.Duration) *setpointv1.Pod {
	at := timestamppb.New(since(t, skew))
	out := &setpointv1.Pod{
		Name: t.ID, Phase: "Pending", StartTime: at,
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
	out.Ready = &setpointv1.PodReadyCondition{Status: ready, LastTransitionTime: at}
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

// notice says that tasks of a service don't run, and why; empty: all run, or may be about to. Only slots
// in which no task runs tell why: what failed in the others is over.
func notice(s *swarm.Service, tasks []swarm.Task, replicas int32) string {
	var last *swarm.Task
	var runs, failed int32
	for _, slot := range bySlot(tasks) {
		if slices.ContainsFunc(slot, func(t *swarm.Task) bool {
			// One that is to end may count as running on a node that is down.
			return t.Status.State == swarm.TaskStateRunning && stageOf(t.DesiredState) <= running
		}) {
			runs++
			continue
		}
		why := cause(s, slot)
		for _, t := range why {
			if hasFailed(t.Status.State) {
				failed++
			}
		}
		if len(why) > 0 && (last == nil || why[0].Status.Timestamp.After(last.Status.Timestamp)) {
			last = why[0]
		}
	}
	if last == nil || runs >= replicas {
		return ""
	}
	said := agent.Shorten(last.Status.Err)
	if last.Status.State == swarm.TaskStateComplete {
		said = "they end by themselves with code 0, so that replicas can't stay running"
	}
	text := fmt.Sprintf("%d of %d tasks run: %s", runs, replicas, said)
	if failed > 0 {
		text += fmt.Sprintf(" (%d failed)", failed)
	}
	return text
}

// cause are the tasks that say why a slot does not run, of those with the spec that is in force: its newest
// one, or while that starts, those before it that ended by themselves, and not because the swarm stopped them.
func cause(s *swarm.Service, slot []*swarm.Task) (why []*swarm.Task) {
	for _, t := range slot {
		ended := hasFailed(t.Status.State) || t.Status.State == swarm.TaskStateComplete
		if !inForce(s, t) || t.DesiredState == swarm.TaskStateRemove || !ended && stageOf(t.DesiredState) > running {
			break
		}
		if ended || t.Status.Err != "" {
			why = append(why, t)
		}
	}
	return why
}

// inForce reports whether a task has the service's spec of now: an update leaves it to tasks of the one
// before until it replaces them. Only of services the engine says what they run in.
func inForce(s *swarm.Service, t *swarm.Task) bool {
	now, spec := s.Spec.TaskTemplate, t.Spec
	now.Runtime, spec.Runtime = "", ""
	return reflect.DeepEqual(now, spec)
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
