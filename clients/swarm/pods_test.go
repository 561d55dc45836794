package swarm

import (
	"fmt"
	"testing"
	"time"

	"github.com/moby/moby/api/types/swarm"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// task is a task that was created so many seconds after noon and reached its state ten later.
func task(id string, slot int, made int, state, desired swarm.TaskState) swarm.Task {
	at := noon.Add(time.Duration(made) * time.Second)
	return swarm.Task{
		ID: id, Slot: slot, DesiredState: desired, Meta: swarm.Meta{CreatedAt: at},
		Status: swarm.TaskStatus{State: state, Timestamp: at.Add(10 * time.Second)},
	}
}

func noSkew(string) time.Duration { return 0 }

// The node's own clock dates a task's state.
func TestTheClockOfANodeIsNotTheManagers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                    string
		says, skew, noted, want time.Duration // after the task was made; noted 0: never
	}{
		{"the same clock", 10, 0, 11, 10},
		{"an hour ahead, of which nothing is known", 3610, 0, 11, 11},
		{"an hour behind, of which nothing is known", -3590, 0, 11, 0},
		{"an hour ahead", 3610, -3600, 11, 10},
		{"an hour behind", -3590, 3600, 11, 10},
		{"ahead, of an engine that does not say when it was noted", 3610, 0, 0, 3610},
	} {
		one := task("a", 1, 0, swarm.TaskStateRunning, swarm.TaskStateRunning)
		one.Status.Timestamp = noon.Add(tt.says * time.Second)
		if tt.noted > 0 {
			one.UpdatedAt = noon.Add(tt.noted * time.Second)
		}
		got := pods([]swarm.Task{one}, func(string) time.Duration { return tt.skew * time.Second })
		if since := got[0].GetReady().GetLastTransitionTime().AsTime().Sub(noon); since != tt.want*time.Second {
			t.Errorf("%s: ready %s after it was made, want %d s", tt.name, since, tt.want)
		}
	}
}

// Of two tasks of a slot with the same creation time, always the same one counts.
func TestTasksOfOneInstant(t *testing.T) {
	t.Parallel()
	one, other := task("1", 1, 0, swarm.TaskStateFailed, swarm.TaskStateShutdown), task("2", 1, 0, swarm.TaskStateFailed, swarm.TaskStateRunning)
	for _, tasks := range [][]swarm.Task{{one, other}, {other, one}} {
		if got := pods(tasks, noSkew); len(got) != 1 || got[0].GetName() != "2" {
			t.Errorf("got %v", got)
		}
	}
}

func TestTasksArePodsByTheirStates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		state, desired swarm.TaskState
		want           string // phase, ready, deleting; empty: it is no pod
	}{
		{swarm.TaskStateNew, swarm.TaskStateRunning, "Pending False false"},
		{swarm.TaskStateAllocated, swarm.TaskStateRunning, "Pending False false"},
		{swarm.TaskStatePending, swarm.TaskStateRunning, "Pending False false"},
		{swarm.TaskStateAssigned, swarm.TaskStateRunning, "Pending False false"},
		{swarm.TaskStateAccepted, swarm.TaskStateRunning, "Pending False false"},
		{swarm.TaskStatePreparing, swarm.TaskStateRunning, "Pending False false"},
		{swarm.TaskStateReady, swarm.TaskStateReady, "Pending False false"}, // waits for its restart delay
		{swarm.TaskStateStarting, swarm.TaskStateRunning, "Pending False false"},
		{swarm.TaskStateRunning, swarm.TaskStateRunning, "Running True false"},
		{swarm.TaskStateRunning, swarm.TaskStateShutdown, "Running True true"},
		{swarm.TaskStateRunning, swarm.TaskStateRemove, "Running True true"},
		{swarm.TaskStatePreparing, swarm.TaskStateShutdown, "Pending False true"},
		{swarm.TaskStateFailed, swarm.TaskStateRunning, "Failed False false"},
		{swarm.TaskStateRejected, swarm.TaskStateShutdown, "Failed False true"},
		{swarm.TaskStateOrphaned, swarm.TaskStateShutdown, "Failed False true"},
		{swarm.TaskStateComplete, swarm.TaskStateShutdown, ""},
		{swarm.TaskStateShutdown, swarm.TaskStateShutdown, ""},
		{swarm.TaskStateRemove, swarm.TaskStateRemove, ""},
		{"of tomorrow", swarm.TaskStateRunning, "Pending False false"},
	} {
		t.Run(fmt.Sprintf("%s, desired %s", tt.state, tt.desired), func(t *testing.T) {
			t.Parallel()
			got := pods([]swarm.Task{task("a", 1, 0, tt.state, tt.desired)}, noSkew)
			if tt.want == "" {
				if len(got) > 0 {
					t.Errorf("got %v, want no pod", got)
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("%d pods", len(got))
			}
			if text := fmt.Sprint(got[0].GetPhase(), " ", got[0].GetReady().GetStatus(), " ", got[0].GetDeleting()); text != tt.want {
				t.Errorf("got %s, want %s", text, tt.want)
			}
		})
	}
}

// A task may wait for a node for longer than the five minutes in which the age of usage is looked at: they begin when
// it runs.
func TestATaskThatRunsIsReadyAndStartedSinceThen(t *testing.T) {
	t.Parallel()
	running, ran := task("a", 1, 0, swarm.TaskStateRunning, swarm.TaskStateRunning), noon.Add(20*time.Minute)
	running.Status.Timestamp = ran
	running.Spec.Resources = &swarm.ResourceRequirements{Reservations: &swarm.Resources{NanoCPUs: 5e8}}
	want := &setpointv1.Pod{
		Name: "a", Phase: "Running", StartTime: timestamppb.New(ran),
		Ready:      &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: timestamppb.New(ran)},
		Containers: []*setpointv1.Container{{Name: "task", Requests: map[string]string{"cpu": "500000000n"}}},
	}
	if got := pods([]swarm.Task{running}, noSkew); len(got) != 1 || !proto.Equal(got[0], want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestThePastOfASlotDoesNotCount(t *testing.T) {
	t.Parallel()
	got := pods([]swarm.Task{
		task("3", 1, 20, swarm.TaskStateRunning, swarm.TaskStateRunning),
		task("1", 1, 0, swarm.TaskStateFailed, swarm.TaskStateShutdown),
		task("2", 1, 10, swarm.TaskStateFailed, swarm.TaskStateShutdown),
		task("4", 2, 0, swarm.TaskStateFailed, swarm.TaskStateShutdown),
		task("5", 2, 10, swarm.TaskStateFailed, swarm.TaskStateRunning),
		task("6", 3, 0, swarm.TaskStateRunning, swarm.TaskStateShutdown), // a rolling update: both are there
		task("7", 3, 10, swarm.TaskStateStarting, swarm.TaskStateRunning),
	}, noSkew)
	var names []string
	for _, p := range got {
		names = append(names, p.GetName())
	}
	if fmt.Sprint(names) != "[3 5 6 7]" {
		t.Errorf("got %v", names)
	}
	if n := present(got); n != 2 {
		t.Errorf("%d are present, want 3 and 7", n)
	}
}

// A pod in a crash loop is Running, so that it counts as missing where the count would fall; Swarm makes a task anew.
func TestATaskInACrashLoopIsNoPendingPod(t *testing.T) {
	t.Parallel()
	for before, want := range map[swarm.TaskState]string{
		swarm.TaskStateFailed: "Running False", swarm.TaskStateRejected: "Pending False", swarm.TaskStateShutdown: "Pending False",
	} {
		got := pods([]swarm.Task{task("1", 1, 0, before, swarm.TaskStateShutdown), task("2", 1, 10, swarm.TaskStateReady, swarm.TaskStateReady)}, noSkew)
		if len(got) != 1 || got[0].GetPhase()+" "+got[0].GetReady().GetStatus() != want {
			t.Errorf("after one that is %s: %v, want %s", before, got, want)
		}
	}
}

func TestTasksThatDoNotRunAreTold(t *testing.T) {
	t.Parallel()
	with := func(t swarm.Task, err string) swarm.Task {
		t.Status.Err = err
		return t
	}
	other := func(t swarm.Task) swarm.Task {
		t.Spec.ForceUpdate++
		return t
	}
	const run, shut, done = swarm.TaskStateRunning, swarm.TaskStateShutdown, swarm.TaskStateComplete
	const endsItself = "they end by themselves with code 0, so that replicas can't stay running"
	service := swarm.Service{Spec: swarm.ServiceSpec{TaskTemplate: swarm.TaskSpec{Runtime: swarm.RuntimeContainer}}} // which tasks don't have
	for _, tt := range []struct {
		name  string
		tasks []swarm.Task
		count int32
		want  string
	}{
		{"all run, after a failure", []swarm.Task{task("1", 1, 10, run, run), with(task("0", 1, 0, swarm.TaskStateFailed, shut), "gone")}, 1, ""},
		{"a start", []swarm.Task{task("1", 1, 0, swarm.TaskStatePreparing, run)}, 1, ""},
		{"no room", []swarm.Task{
			task("1", 1, 0, run, run), with(task("2", 2, 0, swarm.TaskStatePending, run), "no suitable node (insufficient resources on 1 node)"),
		}, 2, "1 of 2 tasks run: no suitable node (insufficient resources on 1 node)"},
		{"a crash loop", []swarm.Task{
			with(task("1", 1, 0, swarm.TaskStateFailed, shut), "task: non-zero exit (2)"), with(task("2", 1, 9, swarm.TaskStateFailed, shut), "task: non-zero exit (3)"),
			task("3", 1, 18, swarm.TaskStateReady, swarm.TaskStateReady),
		}, 1, "0 of 1 tasks run: task: non-zero exit (3) (2 failed)"},
		{"a node that went down, and no room for what it ran", []swarm.Task{
			task("1", 1, 0, run, shut), with(task("2", 1, 9, swarm.TaskStatePending, run), "no suitable node (1 node not available for new tasks)"),
		}, 1, "0 of 1 tasks run: no suitable node (1 node not available for new tasks)"},
		{"a failure in a slot that runs again, while another starts", []swarm.Task{
			task("1", 1, 10, run, run), with(task("0", 1, 0, swarm.TaskStateFailed, shut), "gone"), task("2", 2, 10, swarm.TaskStatePreparing, run),
		}, 2, ""},
		{"a failure before the swarm stopped what followed", []swarm.Task{
			with(task("0", 1, 0, swarm.TaskStateFailed, shut), "gone"), task("1", 1, 10, shut, shut), task("2", 1, 20, swarm.TaskStatePreparing, run),
		}, 1, ""},
		{"failures of the spec before", []swarm.Task{other(with(task("0", 1, 0, swarm.TaskStateFailed, shut), "gone")), task("1", 1, 10, swarm.TaskStatePreparing, run)}, 1, ""},
		{"an update that did not get to a slot that fails", []swarm.Task{task("1", 1, 10, run, run), other(with(task("2", 2, 0, swarm.TaskStateRejected, shut), "No such image"))}, 2, ""},
		{"an update that starts the new one first", []swarm.Task{other(task("0", 1, 0, run, run)), with(task("1", 1, 10, swarm.TaskStatePending, run), "no suitable node")}, 1, ""},
		{"a slot that is given up", []swarm.Task{with(task("1", 1, 0, swarm.TaskStateFailed, swarm.TaskStateRemove), "gone")}, 1, ""},
		{"they are done", []swarm.Task{task("1", 1, 0, done, shut), task("2", 2, 0, done, shut)}, 2, "0 of 2 tasks run: " + endsItself},
		{"they are started again and again", []swarm.Task{
			task("1", 1, 0, done, shut), task("2", 1, 9, done, shut), task("3", 1, 18, swarm.TaskStateReady, swarm.TaskStateReady),
		}, 1, "0 of 1 tasks run: " + endsItself},
		{"tasks that are to end", []swarm.Task{with(task("1", 1, 0, swarm.TaskStatePending, shut), "no suitable node")}, 1, ""},
	} {
		if got := notice(&service, tt.tasks, tt.count); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestRequestsAreReservationsElseLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		r    *swarm.ResourceRequirements
		want string
	}{
		{"nothing is known", nil, "map[]"},
		{"reservations win", &swarm.ResourceRequirements{Reservations: &swarm.Resources{NanoCPUs: 1, MemoryBytes: 2}, Limits: &swarm.Limit{NanoCPUs: 3, MemoryBytes: 4}}, "map[cpu:1n memory:2]"},
		{"limits stand in, one by one", &swarm.ResourceRequirements{Reservations: &swarm.Resources{MemoryBytes: 2}, Limits: &swarm.Limit{NanoCPUs: 3, MemoryBytes: 4}}, "map[cpu:3n memory:2]"},
		{"limits alone", &swarm.ResourceRequirements{Limits: &swarm.Limit{NanoCPUs: 3}}, "map[cpu:3n]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := fmt.Sprint(requests(tt.r)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
