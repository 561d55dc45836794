//go:build linux

package kubernetes

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	name    string
	account *kubetest.Account
	in      []*rights
}

func newServed(t *testing.T, namespaces int) *served {
	t.Helper()
	c := withAutoscalers(t, kubetest.SharedWithoutNative(t))
	a := &served{t: t, c: c, s: service.Start(t)}
	names := make([]string, namespaces)
	for i := range names {
		a.in = append(a.in, newChores(t, c))
		names[i] = a.in[i].native.namespace
	}
	root, err := process.Repository()
	must(t, err)
	home := c.Namespace(t, "home")
	a.name = home // names of Roles in kube-system are the release's
	a.release = helm.New(t, c, a.name, home)
	a.release.Install(helm.Load(t, filepath.Join(root, "deploy", "helm", "setpoint")), fmt.Sprintf(
		"service: {enabled: false}\ncrds: {install: false}\nagent: {server: 'setpoint.example.com:9090', source: both, namespaces: [%s]}", strings.Join(names, ", ")))
	t.Cleanup(a.release.Uninstall)
	a.account = c.Account(t, home, a.name+"-agent")
	return a
}

// start starts the agent.
func (a *served) start() *agent {
	a.t.Helper()
	mark := a.c.Mark(a.t)
	flags := []string{"--source=both", "--leader-elect", "--leader-elect-namespace=" + a.name, "--leader-elect-name=" + a.name + "-agent", "--drain-timeout=1s"}
	for _, r := range a.in[1:] {
		flags = append(flags, "--namespace="+r.native.namespace)
	}
	agent := newAgentAs(a.t, a.account, a.in[0].native.namespace, a.s, flags...)
	for _, r := range a.in {
		r.agent, r.mark = agent, mark
	}
	agent.start()
	return agent
}

// The chart's Roles are enough for an agent of some namespaces: it is refused nothing, the cluster's identity among it, and
// everything works in each of them. Elsewhere it has no rights.
func TestRightsInSomeNamespacesAreEnough(t *testing.T) {
	t.Parallel()
	a := newServed(t, 2)
	agent := a.start()
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
