//go:build linux

package release

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/helm"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/pods"
)

// helm test runs its pod, which passes where the release works, and fails where the service
// knows the agent's token no more, and where the service is gone.
func TestHelmTestTellsABrokenRelease(t *testing.T) {
	c := kubetest.Start(t, kubetest.Config{WithoutMetrics: true})
	node := pods.Start(t, c, namespace, images(t))
	release := helm.New(t, c, "setpoint", namespace)
	release.Wait = true
	release.Install(helm.Load(t, repository+"/deploy/helm/setpoint"), "image: {repository: setpoint, tag: current}\nagent: {replicas: 1}\nservice: {replicas: 1}")

	if err := release.Test(); err != nil {
		t.Errorf("helm test of a release that works: %v", err)
	}
	if pods, err := c.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=setpoint-test"}); err != nil || len(pods.Items) > 0 {
		t.Errorf("a test that passed leaves %d pods, %v", len(pods.Items), err)
	}

	// The first commands of docs/runbooks.
	for component, command := range map[string][]string{
		"setpoint":       {"/setpoint", "health"},
		"setpoint ":      {"/setpoint", "serve", "--check"},
		"setpoint-agent": {"/setpoint", "agent", "kubernetes", "--check"},
	} {
		answers := node.Run(t.Context(), map[string]string{"app.kubernetes.io/name": strings.TrimSpace(component)}, command...)
		if len(answers) != 1 || strings.Contains(answers[0], "exit status") {
			t.Errorf("%q in the pod: %q", command, answers)
		}
	}
	// Of those pages, too: asked by the variables of the agent, the service knows its token.
	asked := node.Run(t.Context(), map[string]string{"app.kubernetes.io/name": "setpoint-agent"}, "/setpoint", "targets", "list")
	if len(asked) != 1 || strings.Contains(asked[0], "exit status") {
		t.Errorf("targets list in the pod: %q", asked)
	}

	good := data(t, c, "setpoint-agent", "token")
	replaceToken(t, c, good+"x")
	failed(t, release, node, "Unauthenticated")
	replaceToken(t, c, good)
	if err := release.Test(); err != nil {
		t.Errorf("helm test of a release that works again: %v", err)
	}

	c.Kubectl(t, "scale", "deployment/setpoint", "--replicas=0", "--namespace="+namespace)
	failed(t, release, node, "Unavailable")
}

// failed runs helm test, which must fail, and the pod's log must say why.
func failed(t *testing.T, release *helm.Release, node *pods.Node, why string) {
	t.Helper()
	if err := release.Test(); err == nil {
		t.Errorf("helm test passes, and should say %s", why)
	}
	ends := node.Ends()
	for i := len(ends) - 1; i >= 0; i-- {
		if ends[i].Pod == "setpoint-test" {
			if ends[i].Code == 0 || !strings.Contains(ends[i].Log, why) {
				t.Errorf("the pod of the test ended with code %d, and should say %s:\n%s", ends[i].Code, why, ends[i].Log)
			}
			return
		}
	}
	t.Error("the pod of the test never ran")
}

func replaceToken(t *testing.T, c *kubetest.Cluster, token string) {
	t.Helper()
	secrets := c.Client().CoreV1().Secrets(namespace)
	s, err := secrets.Get(t.Context(), "setpoint-agent", metav1.GetOptions{})
	fatal.If(t, err)
	s.Data = map[string][]byte{"token": []byte(token)}
	_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
	fatal.If(t, err)
}
