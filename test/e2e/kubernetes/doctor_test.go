//go:build linux

package kubernetes

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// doctor runs the command in place of an agent and returns its output and exit code.
func (a *agent) doctor(flags ...string) (text string, code int) {
	a.t.Helper()
	args := append([]string{"doctor"}, a.Command.Args[1:]...)
	out, err := exec.Command(a.Command.Program, append(args, flags...)...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), exit.ExitCode()
	}
	must(a.t, err)
	return string(out), 0
}

// expect runs doctor and looks for texts in its output.
func (a *agent) expect(code int, wanted []string, flags ...string) {
	a.t.Helper()
	text, got := a.doctor(flags...)
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			a.t.Errorf("doctor does not say %q", want)
		}
	}
	if got != code {
		a.t.Errorf("exit code %d, want %d", got, code)
	}
	if a.t.Failed() {
		a.t.Log(text)
	}
}

// With the rights of deploy/ doctor finds no problem, and it names each one that is missing.
func TestDoctorNamesTheRightThatIsMissing(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.SharedWithoutNative(t))
	s := service.Start(t)
	all := leastRules(t)
	p := newPlace(t, c, hpas, "doctor")
	p.add("web", basic("web"))
	flags := []string{"--source=both", "--leader-elect", "--leader-elect-namespace=" + p.namespace}
	agentWith := func(t *testing.T, name string, rules []rbacv1.PolicyRule) *agent {
		account := c.Account(t, p.namespace, name)
		c.Grant(t, account, rules...)
		return newAgentAs(t, account, p.namespace, s, flags...)
	}
	agentWith(t, "all", all).expect(0, []string{
		"has all rights that the agent needs", "Autoscalers: 0, HorizontalPodAutoscalers: 1", "metrics.k8s.io/v1beta1 answers; objects that use it: 1",
		"no other controller is seen", "no problem found",
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
				text, _ := agentWith(t, fmt.Sprintf("without-%d-%s", i, verb), rules).doctor()
				if resource, _, _ := strings.Cut(rule.Resources[0], "/"); !strings.Contains(text, "may not "+verb+" "+strings.Replace(resource, "*", "", 1)) {
					t.Errorf("doctor does not say that it may not %s %s:\n%s", verb, rule.Resources[0], text)
				}
			})
		}
	}
}

// What keeps an agent from acting is named with what to do.
func TestDoctorSeesTheCluster(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Shared(t)) // the built-in controller runs
	s := service.Start(t)
	p := newPlace(t, c, hpas, "doctor")
	c.Deployment(t, p.namespace, "web", 2)
	cpu(100, 0).do(p, "web")
	p.add("web", basic("web"))
	a := newAgent(t, c, p.namespace, s, "--source=hpa")
	await(t, "the built-in controller acts", func() string {
		if got := p.condition("web", "AbleToScale"); !strings.HasPrefix(got, "AbleToScale=True") {
			return "condition " + got
		}
		return ""
	})
	a.expect(1, []string{"PROBLEM  rivals       kube-controller-manager writes the status of HorizontalPodAutoscalers (1)", "→ switch the built-in controller off"})
	a.expect(0, []string{"ok       specs        the service accepts what 1 objects set", "no problem found"}, "--source=hpa", "--shadow")
	p.annotate("web", `{"schedules": [{"name": "never", "timeZone": "UTC", "cron": "0 0 30 2 *", "duration": "3600s", "minReplicas": 2}]}`)
	a.expect(1, []string{"PROBLEM  specs        the service refuses what " + p.namespace + "/web sets: stages.schedules[0].cron: ", "1 problem found"}, "--source=hpa", "--shadow")

	q := &place{t: t, c: c, kind: autoscalers, namespace: p.namespace}
	q.add("beside", basic("web"))
	a.expect(1, []string{"Autoscaler " + p.namespace + "/beside does not act: HorizontalPodAutoscaler " + p.namespace + "/web scales Deployment " + p.namespace + "/web"}, "--source=autoscaler")
}
