//go:build linux

package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// report is an object's entry in setpoint agent kubernetes --shadow --report.
func (a *agent) report(t *testing.T, kind, name string) (of shadow.Object, ok bool) {
	t.Helper()
	var report shadow.Report
	must(t, json.Unmarshal(a.reportAs(t, "json"), &report))
	i := slices.IndexFunc(report.Objects, func(o shadow.Object) bool { return o.Kind == kind && o.Name == name })
	if i < 0 {
		return of, false
	}
	return report.Objects[i], true
}

func (a *agent) reportAs(t *testing.T, form string) []byte {
	t.Helper()
	output, err := exec.Command(a.Command.Program, "agent", "--shadow", "--report", "--admin-address="+a.Admin, "-o="+form).Output()
	must(t, err)
	return output
}

// awaitJudged waits until so many more reconciles of an object were judged.
func (a *agent) awaitJudged(t *testing.T, kind, name string, more int) shadow.Object {
	t.Helper()
	before, _ := a.report(t, kind, name)
	var now shadow.Object
	await(t, "reconciles are judged", func() string {
		now, _ = a.report(t, kind, name)
		if n := now.Agreed + now.Diverged - before.Agreed - before.Diverged; n < more {
			return fmt.Sprintf("%d of %d", n, more)
		}
		return ""
	})
	return now
}

// writes are an agent's writing requests to the API server.
func (a *agent) writes(t *testing.T, c *kubetest.Cluster, mark kubetest.Mark) map[string]int {
	t.Helper()
	changes := map[string]int{}
	for what, n := range c.Since(t, mark).Of(a.account.User).Counts() {
		switch verb, resource, _ := strings.Cut(what, " "); {
		case verb == "get", verb == "list", verb == "watch":
		case resource == "selfsubjectaccessreviews": // a question, which is created
		default:
			changes[what] = n
		}
	}
	return changes
}

// targets are the names under which the service knows a namespace's objects.
func targets(t *testing.T, s *service.Instance, namespace string) []string {
	t.Helper()
	list, err := s.Targets().ListTargets(context.Background(), &setpointv1.ListTargetsRequest{Parent: "clusters/test/namespaces/" + namespace})
	must(t, err)
	var names []string
	for _, target := range list.GetTargets() {
		_, name, _ := strings.Cut(target.GetName(), "/targets/")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A shadow has the same input as the native controller, decides alike, and does not affect the
// cluster.
func TestShadowAgreesWithTheNativeControllerAndWritesNothing(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	p := newPlace(t, c, hpas, "shadow")
	s := service.Start(t)
	c.Deployment(t, p.namespace, app, 2)
	cpu(300, 6).do(p, app)
	p.add(app, basic(app))
	p.awaitReplicas(app, 6)
	mark := c.Mark(t)
	a := startAgent(t, c, p.namespace, s, "--source=hpa", "--shadow")
	for _, step := range []step{cpu(700, 14), cpu(250, 5), cpu(400, 8)} {
		step.do(p, app)
		p.awaitReplicas(app, step.replicas)
		a.awaitJudged(t, hpas.name, app, 4)
	}
	var now shadow.Object
	await(t, "the shadow agrees", func() string {
		if now, _ = a.report(t, hpas.name, app); !now.Agrees || now.Ours.Replicas != 8 || now.Theirs.Replicas != 8 || now.Against != "the built-in controller" {
			return fmt.Sprintf("the report: %+v", now)
		}
		return ""
	})
	if now.Agreed <= now.Diverged {
		t.Errorf("%d reconciles agreed, %d did not", now.Agreed, now.Diverged)
	}
	changes := a.writes(t, c, mark)
	if now.Diverged > 0 {
		// Where processors are busy the native controller may be late by some reconciles.
		delete(changes, "create events")
	}
	if len(changes) != 0 {
		t.Errorf("a shadow that agrees wrote %v", changes)
	}
	if names := targets(t, s, p.namespace); !slices.Equal(names, []string{"web.-shadow"}) {
		t.Errorf("the service knows %v, want web.-shadow", names)
	}
	t.Logf("report:\n%s", a.reportAs(t, "text"))
}

// Policies count the changes of a minute, whichever of the two has made them first.
func TestShadowCountsTheScalesOfTheNativeController(t *testing.T) {
	t.Parallel()
	c := kubetest.Shared(t)
	p := newPlace(t, c, hpas, "shadow-policies")
	s := service.Start(t)
	c.Deployment(t, p.namespace, app, 4)
	cpu(200, 4).do(p, app)
	spec := basic(app)
	spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{
		Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 50, PeriodSeconds: 30}},
	}}
	p.add(app, spec)
	p.awaitReplicas(app, 4)
	a := startAgent(t, c, p.namespace, s, "--source=hpa", "--shadow")
	a.awaitJudged(t, hpas.name, app, 3)
	cpu(1000, 20).do(p, app)
	for _, replicas := range []int32{6, 9, 14} { // half more in each 30 s
		p.awaitReplicas(app, replicas)
	}
	now := a.awaitJudged(t, hpas.name, app, 4)
	if now.Agreed <= 10*now.Diverged {
		t.Errorf("%d reconciles agreed, %d did not: %+v", now.Agreed, now.Diverged, now.Divergences)
	}
	t.Logf("report:\n%s", a.reportAs(t, "text"))
}
