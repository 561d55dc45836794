//go:build linux

package kubernetes

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// The role in deploy/ is sufficient: an agent of both sources, with leader election, is refused
// nothing, and everything works. And it is minimal: without any one of its verbs something does
// not work, the agent is refused a request, or it makes more requests.
func TestRightsEachIsNeededAndAllAreEnough(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.SharedWithoutNative(t))
	s := service.Start(t)
	all := leastRules(t)
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		r := newRights(t, c, s, all)
		await(t, "everything works", func() string { return strings.Join(r.broken(t), ", ") })
		await(t, "scales are read when they change", func() string { return strings.Join(r.readEachReconcile(t), ", ") })
	})
	for i, rule := range all {
		for _, verb := range rule.Verbs {
			t.Run(fmt.Sprintf("without %s %s.%s", verb, strings.Join(rule.Resources, ","), strings.Join(rule.APIGroups, ",")), func(t *testing.T) {
				t.Parallel()
				rules := slices.Clone(all)
				rules[i] = *rule.DeepCopy()
				rules[i].Verbs = slices.DeleteFunc(rules[i].Verbs, func(v string) bool { return v == verb })
				if len(rules[i].Verbs) == 0 {
					rules = slices.Delete(rules, i, i+1)
				}
				var env []string
				if verb == "list" {
					// API servers before 1.32 don't stream lists, so that watching is not enough.
					env = []string{"KUBE_FEATURE_WatchListClient=false"}
				}
				r := newRights(t, c, s, rules, env...)
				if slices.Contains(rule.Resources, "deployments") {
					// The agent checks what it may watch, and works without.
					await(t, "without it everything works", func() string { return strings.Join(r.broken(t), ", ") })
					await(t, "scales are read in each reconcile", func() string {
						if len(r.readEachReconcile(t)) == 0 {
							return "they are not"
						}
						return ""
					})
					return
				}
				time.Sleep(10 * syncPeriod)
				broken := r.broken(t)
				if len(broken) == 0 {
					t.Error("everything works without it")
				}
				t.Log(strings.Join(broken, ", "))
			})
		}
	}
}

// rights is an agent with some rights, and something of each kind for it to do.
type rights struct {
	ours, native *place
	agent        *agent
	mark         kubetest.Mark
}

func newRights(t *testing.T, c *kubetest.Cluster, s *service.Instance, rules []rbacv1.PolicyRule, env ...string) *rights {
	t.Helper()
	r := newChores(t, c)
	account := c.Account(t, r.native.namespace, "agent")
	c.Grant(t, account, rules...)
	r.mark = c.Mark(t)
	r.agent = newAgentAs(t, account, r.native.namespace, s, "--source=both", "--leader-elect", "--leader-elect-namespace="+r.native.namespace, "--drain-timeout=1s")
	// Missing permissions must not delay the stop.
	t.Cleanup(r.agent.Kill)
	r.agent.Command.Env = append(r.agent.Command.Env, env...)
	r.agent.Start()
	return r
}

// newChores has something of each kind to do in a namespace, for an agent that is still to come.
func newChores(t *testing.T, c *kubetest.Cluster) *rights {
	t.Helper()
	native := newPlace(t, c, hpas, "rights")
	ours := &place{t: t, c: c, kind: autoscalers, namespace: native.namespace}
	for _, name := range []string{"cpu", "requests", "queue"} {
		c.Deployment(t, native.namespace, name, 2)
		native.awaitReplicas(name, 2)
	}
	cpu(300, 0).do(native, "cpu")
	pods(60_000, 0).do(ours, "requests")
	queue("60", 0).do(ours, "queue")
	native.add("cpu", basic("cpu"))
	ours.add("requests", metric(podsMetric)("requests"))
	ours.add("queue", metric(external(averageValue("10")))("queue"))
	ours.add("nothing", basic("nothing"))
	return &rights{ours: ours, native: native}
}

// readEachReconcile says that a scale is read in every reconcile of half a dozen, if it is.
func (r *rights) readEachReconcile(t *testing.T) []string {
	t.Helper()
	const reconciles = 6
	mark := r.ours.c.Mark(t)
	time.Sleep(reconciles * syncPeriod)
	reads := 0
	for _, request := range r.ours.c.Since(t, mark).Of(r.agent.account.User) {
		if request.What() == "get deployments/scale" && request.Name == "cpu" {
			reads++
		}
	}
	if reads < reconciles/2 {
		return nil
	}
	return []string{fmt.Sprintf("scale read %d times in %d reconciles", reads, reconciles)}
}

// broken returns what does not work.
func (r *rights) broken(t *testing.T) []string {
	t.Helper()
	var broken []string
	check := func(what string, works bool) {
		if !works {
			broken = append(broken, what)
		}
	}
	code, _, err := r.agent.Get("/readyz")
	check("not ready", err == nil && code == http.StatusOK)
	for name, p := range map[string]*place{"cpu": r.native, "requests": r.ours, "queue": r.ours} {
		check(name+" not scaled", p.replicas(name) == 6)
		check(name+" without status", strings.HasPrefix(p.condition(name, "AbleToScale"), "AbleToScale=True/ReadyForNewScale"))
	}
	check("no event", slices.ContainsFunc(r.native.events("cpu"), func(e string) bool { return strings.HasPrefix(e, "Normal SuccessfulRescale") }))
	own := r.ours.c.Since(t, r.mark).Of(r.agent.account.User)
	check("a repeated event is not counted", own.Counts()["patch events"] > 0)
	check("no lease renewed", own.Counts()["update leases"] > 0)
	refused := map[string]bool{}
	for _, request := range own {
		if request.Code == http.StatusForbidden {
			refused[request.What()] = true
		}
	}
	for what := range refused {
		broken = append(broken, "refused: "+what)
	}
	slices.Sort(broken)
	return broken
}
