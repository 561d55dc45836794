package nomad_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/nomad/api"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/clients/nomad/nomadtest"
)

// line summarizes a pod: the beginning of its name, its phase, its Ready condition with the
// second since when, and whether it is being deleted.
func line(p *setpointv1.Pod) string {
	out := p.GetName()[:4] + " " + p.GetPhase()
	if ready := p.GetReady(); ready != nil {
		out += " " + ready.GetStatus() + " " + ready.GetLastTransitionTime().AsTime().Format("04:05.000")
	}
	if p.GetDeleting() {
		out += " deleting"
	}
	return out
}

// lines summarizes the pods of a group after each recorded list.
func lines(t *testing.T, health *nomad.Health, group, theme, id string) string {
	t.Helper()
	var out []string
	for _, p := range health.Pods(group, true, nomadtest.RecordedBody[[]*nomad.Allocation](t, theme, id)) {
		out = append(out, line(p))
	}
	return strings.Join(out, "\n")
}

func TestAllocationsOverTheirLives(t *testing.T) {
	for _, tt := range []struct {
		name, group, theme string
		steps              [][2]string // the exchange, and the pods after it
	}{
		{"they start, behind a prestart task", "web", "allocations", [][2]string{
			{"allocations-0008", "ac32 Pending\nbdbd Pending"},
			{"allocations-0010", "ac32 Running\nbdbd Running"}, // only the prestart task is running
			{"allocations-0011", "ac32 Pending\nbdbd Pending"}, // between both tasks
			{"allocations-0012", "ac32 Running False 08:00.408\nbdbd Running False 08:00.262"},
			{"allocations-0013", "ac32 Running True 08:01.410\nbdbd Running True 08:01.277"},
		}},
		{"a scale takes everyone's health, and those that go on stay ready", "web", "allocations", [][2]string{
			{"allocations-0029", "ac32 Running True 08:01.410\nbdbd Running True 08:01.277"},
			{"allocations-0030", "ac32 Running True 08:01.410 deleting\nbdbd Running True 08:01.277"},
			{"allocations-0036", "ac32 Running True 08:01.410 deleting\nbdbd Running True 08:01.277"},
			{"allocations-0037", "bdbd Running True 08:01.277"}, // stopped ones stay listed after they ended
		}},
		{"an agent that starts while nobody's health is known", "web", "allocations", [][2]string{
			{"allocations-0034", "ac32 Running True 08:01.410 deleting\nbdbd Running False 08:00.262"},
			{"allocations-0036", "ac32 Running True 08:01.410 deleting\nbdbd Running True 08:04.865"},
		}},
		{"one that crashes", "web", "allocations", [][2]string{
			{"allocations-0044", "0475 Running False 08:08.248"},
			{"allocations-0046", "0475 Running False 08:08.248"}, // it waits for its restart
			{"allocations-0048", "0475 Running False 08:10.200"},
			{"allocations-0053", "0475 Running False 08:10.200"}, // it waits for its rescheduling
			{"allocations-0054", "f5b4 Pending"},
			{"allocations-0063", "f5b4 Running False 08:18.495"}, // for good
		}},
		{"a client is lost and comes back", "web", "nodes", [][2]string{
			{"nodes-0011", "1f5b Running True 06:59.065\n5045 Running True 06:59.093"},
			{"nodes-0013", ""},
			{"nodes-0031", "1f5b Running True 06:59.065 deleting\n5045 Running True 06:59.093 deleting\n93c2 Running False 07:35.830\n9c4e Running False 07:35.878\nc8d0 Running False 07:35.868"},
		}},
		{"a client is disconnected", "web", "nodes", [][2]string{
			{"nodes-0014", "c098 Running True 06:59.148"},
			{"nodes-0018", "c098 Unknown"},
		}},
		{"a client is drained", "web", "nodes", [][2]string{
			{"nodes-0040", "0ea0 Running True 07:43.285\n2cf4 Running True 07:43.499"},
			{"nodes-0043", "0ea0 Running True 07:43.285 deleting\n2cf4 Running True 07:43.499\ne7bd Pending"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var health nomad.Health
			for _, step := range tt.steps {
				if got := lines(t, &health, tt.group, tt.theme, step[0]); got != step[1] {
					t.Errorf("%s: got\n%s\nwant\n%s", step[0], got, step[1])
				}
			}
		})
	}
}

// A canary has the name of another allocation, and does not count before its promotion.
func TestCanariesAreLeftOut(t *testing.T) {
	canaries, promoted := 0, map[string]bool{}
	for _, e := range nomadtest.Recorded(t, "allocations") {
		var all []*nomad.Allocation
		if !strings.HasSuffix(e.Request.Path, "/canary/allocations") || json.Unmarshal(e.Response.Body, &all) != nil {
			continue
		}
		var health nomad.Health
		pods := health.Pods("web", true, all)
		for _, a := range all {
			listed := slices.ContainsFunc(pods, func(p *setpointv1.Pod) bool { return p.GetName() == a.ID })
			switch {
			case a.DeploymentStatus != nil && a.DeploymentStatus.Canary:
				canaries++
				promoted[a.ID] = false
				if listed {
					t.Errorf("%s: the canary %s is a pod", e.ID, a.ID)
				}
			case listed:
				if _, was := promoted[a.ID]; was {
					promoted[a.ID] = true
				}
			}
		}
	}
	if canaries == 0 {
		t.Fatal("no canary was recorded")
	}
	if !slices.Contains(slices.Collect(maps.Values(promoted)), true) {
		t.Error("no canary became a pod when it was promoted")
	}
}

// Batch jobs, and services with max_parallel = 0, have no deployments.
func TestWithoutDeploymentsWhatRunsIsReady(t *testing.T) {
	var health nomad.Health
	pods := health.Pods("web", false, nomadtest.RecordedBody[[]*nomad.Allocation](t, "allocations", "allocations-0012"))
	if got, want := line(pods[0]), "ac32 Running True 08:00.408"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRequestsAreWhatIsAllocated(t *testing.T) {
	var health nomad.Health
	pods := health.Pods("web", true, nomadtest.RecordedBody[[]*nomad.Allocation](t, "allocations", "allocations-0024"))
	if len(pods) != 2 {
		t.Fatalf("%d pods", len(pods))
	}
	got := fmt.Sprintf("%s %v, before it %s", pods[0].GetContainers()[0].GetName(), pods[0].GetContainers()[0].GetRequests(), pods[0].GetInitContainers()[0].GetName())
	if want := "app map[cpu:100 memory:64Mi], before it prepare"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Allocations that Nomad has no room for are what Pending pods are to HPA: they exist, a total is
// divided by them, too, and a scale up counts them as idle, so that those that run decide nothing
// alone.
func TestQueuedAllocationsArePendingPods(t *testing.T) {
	for name, tt := range map[string]struct {
		policy string
		load   int32
		count  int
		event  string
	}{
		"a total": {queue("web", ""), 21, 3, "5 → 3: queue 4.2 (target 10); All metrics below target; 2 of 5 run: Nomad has no room for 3"},
		"usage":   {"cpu: 60\nbehavior: {scaleUp: " + atOnce + ", scaleDown: " + atOnce + "}", 0, 5, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.server.Placement.Room = 2
			w.server.Placement.Usage = func(*api.AllocationListStub) (float64, uint64) { return 450, 64 << 20 } // 90 %
			w.register(job{name: "web", count: 5, policy: tt.policy})
			w.loads["web"] = tt.load
			time.Sleep(20 * time.Second) // Nomad measures CPU
			service := run(t, w, agent.Options{})
			reconciles(1)
			asked := service.Asked()[0].Request
			if got, pods := asked.GetScale().GetStatusReplicas(), asked.GetPods(); got != 5 || len(pods) != 5 || pods[4].GetPhase() != "Pending" || pods[4].GetContainers()[0].GetRequests()["cpu"] != "500" {
				t.Errorf("%s: %d replicas, pods %v", name, got, pods)
			}
			events := w.group("web").Events
			if n := w.Replicas("web"); int(n) != tt.count || (len(events) > 0) != (tt.event != "") || len(events) > 0 && events[0].Message != tt.event {
				t.Errorf("%s: %d replicas, want %d; events %+v", name, n, tt.count, events)
			}
		})
	}
}
