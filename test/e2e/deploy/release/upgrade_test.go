//go:build linux

package release

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/helm"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/pods"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

var autoscalers = schema.GroupVersionResource{Group: "autoscaling.setpoint.dev", Version: "v1", Resource: "autoscalers"}

const settings = "image: {repository: setpoint, tag: %s}"

// A release is upgraded from the users' version to this one, and rolled back, while callers request
// and the agent scales: each call is answered, and every process ends as it should.
func TestUpgradeAndRollbackLoseNothing(t *testing.T) {
	old := service.Previous(t)
	c := kubetest.Start(t, kubetest.Config{})
	all := images(t)
	all["setpoint:previous"] = pods.Setpoint(filepath.Join(old, "setpoint"), filepath.Join(old, "setpoint-kubernetes"))
	node := pods.Start(t, c, namespace, all)

	release := helm.New(t, c, "setpoint", namespace)
	release.Wait = true
	release.Install(helm.Load(t, filepath.Join(old, "chart")), fmt.Sprintf(settings, "previous"))

	// If a version replaces its instances faster than callers look up names, calls fail and are
	// retried during the rollout; nothing is lost by that either.
	d, err := c.Client().AppsV1().Deployments(namespace).Get(t.Context(), "setpoint", metav1.GetOptions{})
	fatal.If(t, err)
	slowly := d.Spec.MinReadySeconds > 30
	web := scaled(t, c)
	load := begin(t, client(t, c, node))
	load.proceed(5)
	before := load.steps()
	release.Upgrade(helm.Load(t, repository+"/deploy/helm/setpoint"), fmt.Sprintf(settings, "current"))
	rolledOut(t, c)
	load.proceed(5)
	web.await(t, 450, 9) // the new agent acts, after the old one
	between := load.steps()
	if failed := load.failures.Load(); failed > 0 {
		t.Errorf("%d calls failed in the upgrade", failed)
	}
	release.Rollback(1)
	rolledOut(t, c)
	load.proceed(5)
	web.await(t, 200, 9) // within the window: held, by the history that both versions have
	load.end()
	t.Logf("%d steps of %d callers: %d before, %d in the upgrade, %d in the rollback and after, where %d calls failed at first",
		load.steps(), callers, before, between-before, load.steps()-between, load.failures.Load())

	if failed := load.failures.Load(); failed > 0 && slowly {
		t.Errorf("%d calls failed in the rollback", failed)
	}
	replaced := map[string]int{}
	for _, end := range node.Ends() {
		replaced[end.Image]++
		if end.Code != 0 || !end.Asked || end.Killed {
			t.Errorf("%s of %s ended with code %d; asked to %v, killed %v\n%s", end.Pod, end.Image, end.Code, end.Asked, end.Killed, end.Log)
		}
	}
	// Two of the service and two agents, each time.
	if want := map[string]int{"setpoint:previous": 4, "setpoint:current": 4}; !cmp.Equal(replaced, want) {
		t.Errorf("processes that were replaced: %v, want %v", replaced, want)
	}
}

// rolledOut waits until all instances are replaced.
func rolledOut(t *testing.T, c *kubetest.Cluster) {
	t.Helper()
	for _, name := range []string{"setpoint", "setpoint-agent"} {
		c.Kubectl(t, "rollout", "status", "deployment/"+name, "--namespace="+namespace, "--timeout="+(2*helm.Patience).String())
	}
	kit.Eventually(t, patience, "without old pods", func() error {
		pods, err := c.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) != 5 { // two of the service, two agents, Redis
			err = fmt.Errorf("there are %d pods", len(pods.Items))
		}
		return err
	})
}

// workload is scaled by the agent meanwhile.
type workload struct {
	c         *kubetest.Cluster
	namespace string
}

// scaled has a workload that needs six pods, and is scaled to them.
func scaled(t *testing.T, c *kubetest.Cluster) *workload {
	t.Helper()
	w := &workload{c: c, namespace: c.Namespace(t, "shop")}
	c.Deployment(t, w.namespace, "web", 2)
	c.Metrics.SetCPU(w.namespace, "web", 300)
	c.Apply(t, `apiVersion: autoscaling.setpoint.dev/v1
kind: Autoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 20
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
  syncPeriodSeconds: 1
`, "--namespace="+w.namespace)
	w.await(t, 300, 6)
	return w
}

// await sets the CPU usage, of 100 requested by each pod, and waits until the agent has seen it
// and there are so many replicas.
func (w *workload) await(t *testing.T, usage int64, want int64) {
	t.Helper()
	w.c.Metrics.SetCPU(w.namespace, "web", usage)
	kit.Eventually(t, patience, "scaled", func() error {
		d, err := w.c.Client().AppsV1().Deployments(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		a, err := w.c.Dynamic().Resource(autoscalers).Namespace(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		var status struct {
			Status struct {
				DesiredReplicas int64
				CurrentMetrics  []struct {
					Resource struct {
						Current struct{ AverageUtilization int64 }
					}
				}
			}
		}
		text, err := json.Marshal(a.Object)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &status); err != nil {
			return err
		}
		got := status.Status
		if len(got.CurrentMetrics) != 1 || got.CurrentMetrics[0].Resource.Current.AverageUtilization != usage/want || got.DesiredReplicas != want || int64(*d.Spec.Replicas) != want {
			return fmt.Errorf("%d replicas, want %d at %d %%: %v", *d.Spec.Replicas, want, usage/want, a.Object["status"])
		}
		return nil
	})
}
