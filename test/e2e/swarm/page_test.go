//go:build linux

package swarm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/ui"
)

// shownOnThePage: the page shows what the service knows of services in all states, as the agent has them decided about.
func shownOnThePage(t *testing.T, w *world) {
	ui.Require(t)
	w.queue.Store(30) // three tasks
	queue := func(least, most int, labels ...string) []string {
		return append([]string{
			fmt.Sprintf("setpoint.min=%d", least), fmt.Sprintf("setpoint.max=%d", most), "setpoint.metric.queue.source=queue", "setpoint.metric.queue.path=/",
			"setpoint.metric.queue.average=10",
		}, labels...)
	}
	const depth = "setpoint.metric.queue.valuePath={.depth}"
	began := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	has := make(map[string]string)
	for _, one := range []struct {
		name, has string
		replicas  int
		labels    []string
	}{
		{"steady", "Steady", 3, queue(1, 5, depth)},
		{"maximum", "At max", 2, queue(1, 2, depth)},
		{"minimum", "At min", 4, queue(4, 6, depth, "setpoint.behavior={scaleDown: {stabilizationWindowSeconds: 0}}")},
		{"held", "Held", 4, queue(1, 5, depth, "setpoint.behavior={scaleDown: {stabilizationWindowSeconds: 600}}")},
		{"ramps", "", 1, queue(1, 5, depth, "setpoint.behavior={scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 20}]}}")},
		{"unread", "Failing", 2, queue(1, 5, "setpoint.metric.queue.valuePath={.nothing}")},
		{"stopped", "Disabled", 0, queue(1, 5, depth)},
		{"pinned", "Overridden", 3, queue(1, 5, depth)},
		{"scheduled", "At min", 3, queue(1, 5, depth, `setpoint.stages={"schedules": [{"name": "now", "timeZone": "UTC", "at": "`+began+`", "duration": "3600s", "minReplicas": 4}]}`)},
		{"watched", ui.Absent, 2, queue(1, 5, depth, "setpoint.shadow=true")},
		{"processors", "Held", 2, []string{"setpoint.min=2", "setpoint.max=4", "setpoint.cpu=50"}},
	} {
		s := w.createLabelled(t, "page-"+one.name, "burn:1", one.replicas, one.labels...)
		s.use(t, idle)
		defer s.remove(t)
		has["page-"+one.name] = one.has
	}
	has["page-watched.-shadow"] = ""
	list := func() map[string]*setpointv1.Target {
		got, err := w.serve.Targets().ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/e2e/namespaces/default", PageSize: 1000})
		fatal.If(t, err)
		all := make(map[string]*setpointv1.Target)
		for _, target := range got.GetTargets() {
			all[target.GetName()[len("clusters/e2e/namespaces/default/targets/"):]] = target
		}
		return all
	}
	kit.Eventually(t, patience, "all are decided about", func() error {
		all := list()
		for name, has := range has {
			if has != ui.Absent && all[name].GetInterval() == nil {
				return fmt.Errorf("%s is not: %v", name, all[name])
			}
		}
		return nil
	})
	_, err := setpointv1.NewOverrideServiceClient(w.serve.Conn()).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{
		Parent: "clusters/e2e/namespaces/default/targets/page-pinned", OverrideId: "pinned",
		Override: &setpointv1.Override{Pin: new(int32(2)), Reason: "a test of the page", ExpireTime: timestamppb.New(time.Now().Add(time.Hour))},
	})
	fatal.If(t, err)
	kit.Eventually(t, patience, "usage of processors, and what holds", func() error {
		all := list()
		if !slices.Contains(all["page-held"].GetLastDecision().GetStates(), "HELD") || !slices.Contains(all["page-processors"].GetLastDecision().GetStates(), "HELD") {
			return fmt.Errorf("there is %v, %v", all["page-held"], all["page-processors"])
		}
		return nil
	})
	ui.Compare(t, ui.Live{Instance: w.serve, Has: has, Picture: "swarm"})
}
