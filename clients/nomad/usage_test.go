package nomad_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/clients/nomad/nomadtest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// running is an allocation whose tasks started at that time.
func running(started time.Time, tasks ...string) *nomad.Allocation {
	a := &nomad.Allocation{}
	a.ID, a.ClientStatus, a.DesiredStatus = "9fa5", "running", "run"
	a.TaskStates = map[string]*api.TaskState{}
	for _, task := range tasks {
		a.TaskStates[task] = &api.TaskState{State: "running", StartedAt: started}
	}
	return a
}

// readings are the recorded ones whose note has that prefix.
func readings(t *testing.T, note string) []*api.AllocResourceUsage {
	t.Helper()
	var out []*api.AllocResourceUsage
	for _, e := range nomadtest.Recorded(t, "stats") {
		if !strings.HasPrefix(e.Note, note) {
			continue
		}
		read := &api.AllocResourceUsage{}
		if err := json.Unmarshal(e.Response.Body, read); err != nil {
			t.Fatalf("%s: %v", e.ID, err)
		}
		out = append(out, read)
	}
	if len(out) == 0 {
		t.Fatalf("no reading of %q was recorded", note)
	}
	return out
}

func TestTheCPUOfAYoungTaskIsMissing(t *testing.T) {
	all := readings(t, "steady 20 % of a core, reading")
	started := time.Unix(0, all[1].Timestamp).Add(-time.Second)
	if m := nomad.Usage(running(started, "app"), all[0]); m != nil {
		t.Errorf("before the first sample: got %v", m)
	}
	measured := 0
	for i, read := range all[1:] {
		m := nomad.Usage(running(started, "app"), read)
		if m == nil {
			t.Fatalf("reading %d: no sample", i+1)
		}
		usage := m.GetContainers()[0].GetUsage()
		if usage["memory"] == "" {
			t.Errorf("reading %d: no memory", i+1)
		}
		cpu, ok := usage["cpu"]
		switch truth := read.Tasks["app"].ResourceUsage.CpuStats.TotalTicks; {
		case ok != (truth > 0):
			t.Errorf("reading %d: %f MHz are %q", i+1, truth, cpu)
		case ok:
			measured++
		}
	}
	if measured < 5 {
		t.Errorf("%d readings with CPU", measured)
	}
	if got, want := nomad.Usage(running(started, "app"), all[11]).GetContainers()[0].GetUsage()["cpu"], "387909m"; len(all) > 11 && got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestATaskThatIsIdleForLongIsIdle(t *testing.T) {
	read := readings(t, "steady 20 % of a core, reading")[1]
	taken := time.Unix(0, read.Timestamp)
	for age, want := range map[time.Duration]string{11 * time.Second: "", 15 * time.Second: "", 16 * time.Second: "0m", time.Hour: "0m"} {
		if got := nomad.Usage(running(taken.Add(-age), "app"), read).GetContainers()[0].GetUsage()["cpu"]; got != want {
			t.Errorf("after %s: got %q, want %q", age, got, want)
		}
	}
}

// An allocation has no sample if one of its two tasks has none.
func TestEachTaskNeedsASample(t *testing.T) {
	all := readings(t, "one task only")
	m := nomad.Usage(running(time.Unix(0, all[0].Timestamp).Add(-time.Minute), "app", "helper"), all[0])
	if len(m.GetContainers()) != 2 || len(m.GetContainers()[0].GetUsage()) != 0 || m.GetContainers()[1].GetUsage()["cpu"] == "" {
		t.Errorf("got %v", m)
	}
}

func TestEndedTasksHaveNoSamples(t *testing.T) {
	stopped := readings(t, "stopped allocation, reading")
	started := time.Unix(0, stopped[0].Timestamp).Add(-time.Minute)
	if nomad.Usage(running(started, "app"), stopped[0]) == nil {
		t.Error("while it lingers: no sample")
	}
	for i, read := range stopped[1:] {
		if m := nomad.Usage(running(started, "app"), read); m != nil {
			t.Errorf("reading %d: got %v", i+1, m)
		}
	}
	// The task restarted: its last sample belongs to its previous run.
	read := stopped[0]
	if m := nomad.Usage(running(time.Unix(0, read.Timestamp+1), "app"), read); m != nil {
		t.Errorf("after a restart: got %v", m)
	}
	ended := running(started, "app")
	ended.ClientStatus = "complete"
	if m := nomad.Usage(ended, read); m != nil {
		t.Errorf("after the end: got %v", m)
	}
}

// A prestart task's last sample stays after it is done.
func TestPrestartTasksHaveNoSample(t *testing.T) {
	all := readings(t, "starting, reading")
	last := all[len(all)-1]
	a := running(time.Unix(0, last.Timestamp).Add(-time.Minute), "app", "prepare")
	a.AllocatedResources = &nomad.AllocatedResources{TaskLifecycles: map[string]*api.TaskLifecycle{"app": nil, "prepare": {Hook: "prestart"}}}
	m := nomad.Usage(a, last)
	if len(m.GetContainers()) != 1 || m.GetContainers()[0].GetName() != "app" {
		t.Errorf("got %v", m)
	}
	if got := m.GetTimestamp().AsTime().UnixNano(); got != last.Tasks["app"].Timestamp {
		t.Errorf("it is of %d, want %d", got, last.Tasks["app"].Timestamp)
	}
}

// The node has cores of 2300 MHz. A sample equals the kernel's count in the interval before it,
// which lies within the window.
func TestReadingsAgreeWithTheKernel(t *testing.T) {
	var steady []*nomadtest.Exchange
	for _, e := range nomadtest.Recorded(t, "stats") {
		if strings.HasPrefix(e.Note, "steady 20 % of a core, reading") {
			steady = append(steady, e)
		}
	}
	all := readings(t, "steady 20 % of a core, reading")
	a := running(time.Unix(0, all[1].Timestamp).Add(-time.Second), "app")
	seconds := func(i int) (out float64) {
		for _, used := range steady[i].CPUSecondsUsed {
			out += used
		}
		return out
	}
	compared := 0
	for i := 6; i < len(all); i++ {
		before, now := nomad.Usage(a, all[i-1]).GetContainers()[0].GetUsage()["cpu"], nomad.Usage(a, all[i]).GetContainers()[0].GetUsage()["cpu"]
		if before == "" || before == now {
			continue
		}
		compared++
		thousandths, err := strconv.ParseFloat(strings.TrimSuffix(now, "m"), 64)
		fatal.If(t, err)
		truth := 2300 * (seconds(i) - seconds(i-5)) / (steady[i].At() - steady[i-5].At()).Seconds()
		if ratio := thousandths / 1000 / truth; ratio < 0.95 || ratio > 1.05 {
			t.Errorf("reading %d is %s, where the kernel counted %.1f MHz", i, now, truth)
		}
	}
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

// A kernel that does not account memory, as of a Raspberry Pi without cgroup_enable=memory, has its
// driver measure 0: that is no reading, as a task that runs has some.
func TestMemoryThatIsNotAccountedIsMissing(t *testing.T) {
	for _, measured := range []string{"RSS", "Usage"} {
		started := time.Now().Add(-time.Hour)
		read := &api.AllocResourceUsage{Timestamp: time.Now().UnixNano(), Tasks: map[string]*api.TaskResourceUsage{"app": {
			Timestamp: time.Now().UnixNano(), ResourceUsage: &api.ResourceUsage{
				CpuStats: &api.CpuStats{TotalTicks: 100, Measured: []string{"Percent"}}, MemoryStats: &api.MemoryStats{Measured: []string{measured}},
			},
		}}}
		usage := nomad.Usage(running(started, "app"), read).GetContainers()[0].GetUsage()
		if memory, there := usage["memory"]; there || usage["cpu"] != "100000m" {
			t.Errorf("%s: memory %q of %v", measured, memory, usage)
		}
	}
}
