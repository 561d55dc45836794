//go:build linux

package nomad

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// Many groups of two allocations each: the agent's cost of a pass over all of them, its requests to
// Nomad, and how long it takes when all want more at once. They are 200, each 15 s, with FULL=1.
func TestManyGroups(t *testing.T) {
	const allocations, mostCore = 2, 0.25
	groups, period := 60.0, 5*time.Second
	if testlength.Full() {
		groups, period = 200, 15*time.Second
	} else {
		t.Logf("%.0f groups: 200 with FULL=1", groups)
	}
	n := newNomad(t, commonServer(t))
	if n.server.driver != "mock_driver" {
		kit.Cannot(t, "this Nomad, a release, has no driver whose tasks cost nothing")
	}
	n.queue.Store(10 * allocations)
	for i := range int(groups) {
		g := n.group("web", allocations, "cpu: 60\n"+byQueue)
		n.register(fmt.Sprintf("web-%03d", i), g)
	}
	a := startAgent(t, n, service.Start(t), "--sync-period="+period.String())
	had := func() float64 { return a.Metric("setpoint_agent_reconciles_total") }
	awaitAll := func(want float64) {
		t.Helper()
		fatal.If(t, a.Await("in reconciles", patience+3*period, func() error {
			if had() < want {
				time.Sleep(200 * time.Millisecond) // asking takes of the agent's own time
				return errors.New("it has not had so many")
			}
			return nil
		}))
	}
	awaitAll(groups)
	before, began, from := a.requests("call"), time.Now(), had()
	used, err := process.Processor(a.PID())
	fatal.If(t, err)
	awaitAll(from + 2*groups)
	after, took := a.requests("call"), time.Since(began)
	now, err := process.Processor(a.PID())
	fatal.If(t, err)
	made := (had() - from) / groups
	resident, err := process.Resident(a.PID())
	fatal.If(t, err)
	perPass := (now - used).Seconds() / made
	t.Logf("%.0f groups of %d allocations: %.2f s of a core a pass over all of them, which is %.1f %% of one core at a period of %s; %.1f passes in %s; %.0f MiB resident",
		groups, allocations, perPass, 100*perPass/period.Seconds(), period, made, took.Round(100*time.Millisecond), float64(resident)/(1<<20))
	if perPass > mostCore*period.Seconds() {
		t.Errorf("a pass takes %.2f s of a core, want at most %.2f", perPass, mostCore*period.Seconds())
	}
	// A list is read again after a second, however busy the machine is.
	lists := took.Seconds()/made + 1
	for call, most := range map[string]float64{"allocations": 2 * lists, "deployments": 0, "job": 1.2 * groups, "statistics": 1.2 * groups * allocations, "policy": 0, "scale": 0} {
		asked := (after[call] - before[call]) / made
		t.Logf("%s: %.1f requests a pass", call, asked)
		if asked > most {
			t.Errorf("%s: %.1f requests a pass, want at most %.0f", call, asked, most)
		}
	}
	n.queue.Store(20 * allocations)
	began = time.Now()
	n.eventually(func() error {
		time.Sleep(500 * time.Millisecond)
		jobs, _, err := n.client.Jobs().List(nil)
		fatal.If(t, err)
		behind := 0
		for _, job := range jobs {
			if s := job.JobSummary.Summary["web"]; strings.HasPrefix(job.ID, "web-") && s.Running+s.Starting+s.Queued != 2*allocations {
				behind++
			}
		}
		if behind > 0 {
			return fmt.Errorf("%d groups are not scaled", behind)
		}
		return nil
	})
	took = time.Since(began)
	t.Logf("all %.0f were scaled within %s", groups, took.Round(100*time.Millisecond))
	if most := max(3*period, 30*time.Second); took > most {
		t.Errorf("all were scaled within %s, want %s", took, most)
	}
	if failed := a.requests("status"); failed["429"] > 0 || failed["500"] > 0 {
		t.Errorf("requests came to %v", failed)
	}
}
