//go:build linux

package kubernetes

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"

	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/helm"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// served is a release of the chart whose agent serves some namespaces, with something to do in each. Its agent is the
// process that agent starts, with the account of the release.
type served struct {
	t       *testing.T
	c       *kubetest.Cluster
	s       recommender
	release *helm.Release
	chart   *chart.Chart
	values  string
	home    string
	account *kubetest.Account
	in      []*rights
}

func newServed(t *testing.T, c *kubetest.Cluster, namespaces int) *served {
	t.Helper()
	a := &served{t: t, c: withAutoscalers(t, c), s: service.Start(t)}
	names := make([]string, namespaces)
	for i := range names {
		a.in = append(a.in, newChores(t, c))
		names[i] = a.in[i].native.namespace
	}
	root, err := process.Repository()
	must(t, err)
	// Every release has the same name, as those of several teams.
	a.home = c.Namespace(t, "home")
	a.release = helm.New(t, c, "setpoint", a.home)
	a.chart = helm.Load(t, filepath.Join(root, "deploy", "helm", "setpoint"))
	a.values = fmt.Sprintf("service: {enabled: false}\ncrds: {install: false}\nagent: {server: 'setpoint.example.com:9090', source: both, namespaces: [%s]}", strings.Join(names, ", "))
	a.release.Install(a.chart, a.values)
	t.Cleanup(a.release.Uninstall)
	a.account = c.Account(t, a.home, "setpoint-agent")
	return a
}

func (a *served) start(flags ...string) *agent {
	a.t.Helper()
	mark := a.c.Mark(a.t)
	flags = append(flags, "--source=both", "--drain-timeout=1s")
	for _, r := range a.in[1:] {
		flags = append(flags, "--namespace="+r.native.namespace)
	}
	agent := newAgentAs(a.t, a.account, a.in[0].native.namespace, a.s, flags...)
	for _, r := range a.in {
		r.agent, r.mark = agent, mark
	}
	agent.Start()
	return agent
}

// The chart's Roles are enough for an agent of some namespaces: it is refused nothing, the cluster's identity among it, and
// everything works in each of them. Elsewhere it has no rights.
func TestRightsInSomeNamespacesAreEnough(t *testing.T) {
	t.Parallel()
	a := newServed(t, kubetest.SharedWithoutNative(t), 2)
	agent := a.start("--leader-elect", "--leader-elect-namespace="+a.home, "--leader-elect-name=setpoint-agent")
	for _, r := range a.in {
		await(t, "everything works in "+r.native.namespace, func() string { return strings.Join(r.broken(t), ", ") })
	}
	if !slices.ContainsFunc(a.c.Since(t, a.in[0].mark).Of(agent.account.User), func(r kubetest.Request) bool {
		return r.What() == "get namespaces" && r.Name == "kube-system" && r.Code == http.StatusOK
	}) {
		t.Error("the agent does not know the cluster's UID")
	}
	if text, _ := agent.doctor(); !strings.Contains(text, "has all rights that the agent needs") {
		t.Errorf("doctor misses a right:\n%s", text)
	}
	for _, right := range []string{"list pods --namespace=default", "list pods --namespace=kube-system", "get namespaces/default", "update deployments.apps/scale --namespace=default", "create events --namespace=default"} {
		said, _ := a.c.TryKubectl("", append(append([]string{"auth", "can-i"}, strings.Fields(right)...), "--as="+agent.account.User)...)
		if strings.TrimSpace(said) != "no" {
			t.Errorf("may it %s? %q", right, said)
		}
	}
}

// Whoever takes the rights away in one namespace stops the agent there, and not elsewhere: at its start, and while it runs. Once
// they are back it goes on by itself.
func TestANamespaceWithoutRightsIsItsOwnMatter(t *testing.T) {
	t.Parallel()
	a := newServed(t, kubetest.Start(t, kubetest.Config{}), 2)
	first, second := a.in[0], a.in[1]
	refused := func(want float64) {
		t.Helper()
		await(t, fmt.Sprintf("%v namespaces are refused", want), func() string {
			if got := first.agent.Metric("setpoint_agent_refused_namespaces"); got != want {
				return fmt.Sprint(got)
			}
			return ""
		})
		if code, text, err := first.agent.Get("/readyz"); err != nil || code != http.StatusOK {
			t.Errorf("not ready: %d %s %v", code, text, err)
		}
	}
	load := func(milli int64) {
		for _, r := range a.in {
			cpu(milli, 0).do(r.native, "cpu")
		}
	}
	// still checks that nothing is decided in a namespace for some periods, while the other one follows.
	still := func(r, other *rights, was, is int32) {
		t.Helper()
		other.native.awaitReplicas("cpu", is)
		time.Sleep(5 * syncPeriod)
		if got := r.native.replicas("cpu"); got != was {
			t.Errorf("%d replicas without the rights, want %d", got, was)
		}
	}

	a.c.Kubectl(t, "delete", "rolebinding", "setpoint-agent-read", "-n", second.native.namespace)
	agent := a.start()
	agent.AwaitReady()
	refused(1)
	still(second, first, 2, 6)
	text, _ := agent.doctor()
	for _, want := range []string{"may not list pods in namespace " + second.native.namespace + ":", "Autoscalers: 6, HorizontalPodAutoscalers: 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("doctor does not say %q:\n%s", want, text)
		}
	}
	a.release.Upgrade(a.chart, a.values)
	refused(0)
	second.native.awaitReplicas("cpu", 6)

	// Pods alone, so that all else of a decision could be read. The right is asked for when a watch begins anew.
	a.c.Kubectl(t, "patch", "role", "setpoint-agent-read", "-n", first.native.namespace, "--type=json", "-p", `[{"op": "remove", "path": "/rules/2"}]`)
	a.c.KillAPIServer()
	must(t, a.c.StartAPIServer())
	refused(1)
	load(700)
	still(first, second, 6, 14)
	if _, text, err := agent.Get("/status"); err != nil || !strings.Contains(string(text), "/api/v1/namespaces/"+first.native.namespace+"/pods: 403 Forbidden") {
		t.Errorf("the status does not say so: %s %v", text, err)
	}
	a.release.Upgrade(a.chart, a.values)
	refused(0)
	first.native.awaitReplicas("cpu", 14)
}
