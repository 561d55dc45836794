package nomad

import (
	"testing"

	"github.com/hashicorp/nomad/api"
)

// What Nomad counts exists, and status says why it does not run.
func TestAllocationsThatDoNotRunAreTold(t *testing.T) {
	t.Parallel()
	one := func(desired, client, next string) *Allocation {
		return &Allocation{AllocationListStub: api.AllocationListStub{ID: desired + client + next, TaskGroup: "web", DesiredStatus: desired, ClientStatus: client, NextAllocation: next}}
	}
	run := one(desiredRun, clientRunning, "")
	for _, tt := range []struct {
		name        string
		allocations []*Allocation
		queued      int32
		pods        int
		placed      int32
		want        string
	}{
		{"all run", []*Allocation{run, run, one("stop", clientRunning, "")}, 0, 3, 2, ""},
		{"no room", []*Allocation{run}, 1, 1, 1, "1 of 2 run: Nomad has no room for 1"},
		{"it starts", []*Allocation{run, one(desiredRun, clientPending, "")}, 0, 2, 2, ""},
		{"it failed, and nothing runs in its place", []*Allocation{run, one(desiredRun, clientFailed, "")}, 0, 2, 2, "1 of 2 run: 1 have failed"},
		{"it failed, and was rescheduled", []*Allocation{run, run, one("stop", clientFailed, "other")}, 0, 2, 2, ""},
		{"its client is disconnected", []*Allocation{run, one(desiredRun, clientUnknown, "")}, 0, 2, 2, ""},
		{"its client is disconnected, and another one runs in its place", []*Allocation{run, run, one(desiredRun, clientUnknown, run.ID)}, 0, 2, 2, ""},
		{"its client is disconnected again, and the one in its place was stopped", []*Allocation{run, one(desiredRun, clientUnknown, "other")}, 0, 2, 2, ""},
	} {
		var health Health
		pods := health.Pods("web", false, tt.allocations)
		if got := notice(tt.allocations, 2, tt.queued); got != tt.want || placed(tt.allocations) != tt.placed || len(pods) != tt.pods {
			t.Errorf("%s: %q, %d placed, %d pods", tt.name, got, placed(tt.allocations), len(pods))
		}
	}
}
