//go:build linux

package nomad

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/reconciletimes"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// Conditions to wait for.
var (
	errAsking     = errors.New("it has not asked so often")
	errHeld       = errors.New("it is not held")
	errReconciles = errors.New("it has not had so many reconciles")
)

func ready(a *agent) error { return process.OK(&adminClient, "http://"+a.admin+"/readyz") }

// 500 groups of three allocations each, by CPU, every 15 s: the agent's cost of a pass over all
// of them, and its requests to Nomad.
func TestFiveHundredGroups(t *testing.T) {
	const (
		groups, allocations = 500, 3
		period              = 15 * time.Second
		passes              = 4
		mostCore            = 0.25
	)
	server := quick()
	server.Placement.Usage = func(*api.AllocationListStub) (float64, uint64) { return 300, 64 << 20 }
	n := newNomad(t, server)
	for i := range groups {
		n.register(fmt.Sprintf("web-%03d", i), allocations, "cpu: 60")
	}
	var requested reconciletimes.Requests
	n.failing(func(request *http.Request) (status int, text string) {
		if !strings.HasPrefix(request.URL.Path, "/v1/scaling/") {
			requested.Note()
		}
		return 0, ""
	})
	a := startAgent(t, n, service.Start(t), "--sync-period="+period.String())
	awaitAll := func(want float64) {
		t.Helper()
		must(t, a.Await("in reconciles", patience+2*passes*period, func() error {
			if a.metric("setpoint_agent_reconciles_total", "")[""] < want {
				time.Sleep(200 * time.Millisecond) // asking takes of the agent's own time
				return errReconciles
			}
			return nil
		}))
	}
	awaitAll(2 * groups)
	before, began, had := a.metric("setpoint_nomad_requests_total", "call"), time.Now(), a.metric("setpoint_agent_reconciles_total", "")[""]
	used, err := process.Processor(a.PID())
	must(t, err)
	awaitAll(had + passes*groups)
	after, took := a.metric("setpoint_nomad_requests_total", "call"), time.Since(began)
	now, err := process.Processor(a.PID())
	must(t, err)
	made := (a.metric("setpoint_agent_reconciles_total", "")[""] - had) / groups
	resident, err := process.Resident(a.PID())
	must(t, err)
	perPass := (now - used).Seconds() / made
	t.Logf("%d groups of %d allocations: %.2f s of a core a pass over all of them, which is %.1f %% of one core at a period of %s; %.1f passes in %s, each %s long at most; %.0f MiB resident",
		groups, allocations, perPass, 100*perPass/period.Seconds(), period, made, took.Round(100*time.Millisecond), requested.Longest(began).Round(10*time.Millisecond), float64(resident)/(1<<20))
	if perPass > mostCore*period.Seconds() {
		t.Errorf("a pass takes %.2f s of a core, want at most %.2f", perPass, mostCore*period.Seconds())
	}
	// A list is read again after a second, however busy the machine is; that of allocations has
	// two pages.
	lists := took.Seconds()/made + 1
	for call, most := range map[string]float64{"allocations": 2 * lists, "deployments": lists, "job": 1.1 * groups, "statistics": 1.05 * groups * allocations, "policy": 0, "scale": 0} {
		asked := (after[call] - before[call]) / made
		t.Logf("%s: %.1f requests a pass", call, asked)
		if asked > most {
			t.Errorf("%s: %.1f requests a pass, want at most %.0f", call, asked, most)
		}
	}
	if outcomes := a.metric("setpoint_agent_reconciles_total", "outcome"); outcomes["unchanged"] < 0.9*(had+passes*groups)-groups {
		t.Errorf("reconciles came to %v", outcomes)
	}
}
