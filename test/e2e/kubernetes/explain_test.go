//go:build linux

package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// readers are the permissions of a read-only user.
var readers = []rbacv1.PolicyRule{
	{APIGroups: []string{"autoscaling"}, Resources: []string{"horizontalpodautoscalers"}, Verbs: []string{"get", "list"}},
	{APIGroups: []string{"autoscaling.setpoint.dev"}, Resources: []string{"autoscalers"}, Verbs: []string{"get", "list"}},
	{APIGroups: []string{"*"}, Resources: []string{"*/scale"}, Verbs: []string{"get"}},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
	{APIGroups: []string{"metrics.k8s.io"}, Resources: []string{"pods"}, Verbs: []string{"list"}},
	{APIGroups: []string{"custom.metrics.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"get"}},
	{APIGroups: []string{"external.metrics.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"list"}},
}

// explainer runs explain with the permissions of an account.
type explainer struct {
	*place
	account *kubetest.Account
	// folder has the program under the name of a plugin of kubectl.
	folder string
}

func newExplainer(t *testing.T, p *place, rules ...rbacv1.PolicyRule) *explainer {
	t.Helper()
	e := &explainer{place: p, account: p.c.Account(t, p.namespace, "someone"), folder: t.TempDir()}
	p.c.Grant(t, e.account, rules...)
	program, err := service.Kubernetes()
	must(t, err)
	must(t, os.Symlink(program, filepath.Join(e.folder, "kubectl-setpoint")))
	return e
}

// run runs a command with the account's kubeconfig, where kubectl finds its plugins.
func (e *explainer) run(cmd *exec.Cmd) (output, complaints string, err error) {
	var out, complained bytes.Buffer
	cmd.Env = append(os.Environ(), "KUBECONFIG="+e.account.Kubeconfig, "PATH="+e.folder+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &out, &complained
	err = cmd.Run()
	return e.neutral(out.String()), e.neutral(complained.String()), err
}

// explain runs the program.
func (e *explainer) explain(t *testing.T, args ...string) string {
	t.Helper()
	output, complaints, err := e.run(exec.Command(filepath.Join(e.folder, "kubectl-setpoint"), append([]string{"explain"}, args...)...))
	if err != nil || complaints != "" {
		t.Errorf("explain %s: %v\n%s", strings.Join(args, " "), err, complaints)
	}
	return output
}

// answer is the part of an explanation that does not depend on the moment.
type answer struct {
	DesiredReplicas int32
	Reason          string
	Status          struct{ CurrentMetrics []any }
}

func (e *explainer) answer(t *testing.T, args ...string) (a answer) {
	t.Helper()
	must(t, json.Unmarshal([]byte(e.explain(t, append(args, "-o=json")...)), &a))
	return a
}

// newExplained has two workloads of two pods with the same load of every kind, for
// which six are right: web has an HorizontalPodAutoscaler, own an Autoscaler.
func newExplained(t *testing.T, c *kubetest.Cluster) (native, ours *place) {
	t.Helper()
	native = newPlace(t, c, hpas, "explain")
	ours = &place{t: t, c: c, kind: autoscalers, namespace: native.namespace}
	for name, p := range map[string]*place{"web": native, "own": ours} {
		c.Deployment(t, p.namespace, name, 2)
		p.awaitReplicas(name, 2)
		dropIns[0].steps[0].do(p, name)
		p.add(name, severalMetrics(name))
	}
	time.Sleep(readingAge)
	return native, ours
}

// setpoint explain reads the same input from a cluster as the agent, for every kind of metric;
// it needs read permissions only, and changes nothing.
func TestExplainReadsWhatTheAgentDecidesBy(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.SharedWithoutNative(t))
	native, ours := newExplained(t, c)
	e := newExplainer(t, native, readers...)
	saved := filepath.Join(t.TempDir(), "dump.yaml")
	mark := c.Mark(t)
	live := e.explain(t, "-n", native.namespace, "--live", "hpa/web", "--save", saved)
	for _, want := range []string{"NAMESPACE/web: 2 → 6 replicas", "cpu", "memory", "requests", "web-"} {
		if !strings.Contains(live, want) {
			t.Errorf("the explanation does not say %q", want)
		}
	}
	t.Logf("setpoint explain --live:\n%s", live)
	fromHPA, fromOurs := e.answer(t, "-n", native.namespace, "--live", "hpa/web"), e.answer(t, "-n", native.namespace, "--live", "autoscaler/own")
	for what, answer := range map[string]answer{"HPA": fromHPA, "Autoscaler": fromOurs} {
		if answer.DesiredReplicas != 6 || len(answer.Status.CurrentMetrics) != 5 {
			t.Errorf("of the %s: %d replicas by %d metrics, want 6 by 5", what, answer.DesiredReplicas, len(answer.Status.CurrentMetrics))
		}
	}
	var plugin answer
	output, complaints, err := e.run(c.KubectlCommand("setpoint", "explain", "-n", native.namespace, "--live", "hpa/web", "-o=json"))
	must(t, err)
	must(t, json.Unmarshal([]byte(output), &plugin))
	if fmt.Sprint(plugin) != fmt.Sprint(fromHPA) || complaints != "" {
		t.Errorf("as a plugin of kubectl: %+v, want %+v\n%s", plugin, fromHPA, complaints)
	}
	if again := e.answer(t, "--dump", saved); fmt.Sprint(again) != fmt.Sprint(fromHPA) {
		t.Errorf("what was saved is explained as %+v, want %+v", again, fromHPA)
	}
	own := c.Since(t, mark).Of(e.account.User)
	for _, request := range own {
		if !slices.Contains([]string{"get", "list"}, request.Verb) || request.Code >= 400 {
			t.Errorf("it asked to %s: code %d", request.What(), request.Code)
		}
	}
	if own.Counts()["get deployments/scale"] == 0 || own.Counts()["list pods"] == 0 {
		t.Errorf("what it read: %v", own.Counts())
	}
	startAgent(t, c, native.namespace, service.Start(t), "--source=both")
	native.awaitReplicas("web", 6)
	ours.awaitReplicas("own", 6)
}
