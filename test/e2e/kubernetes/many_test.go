//go:build linux

package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// manyWithin is the longest that anything may take with all of them.
const manyWithin = 5 * time.Minute

// extent is the number of namespaces, of HorizontalPodAutoscalers per namespace, and of pods
// per HorizontalPodAutoscaler.
type extent struct{ namespaces, each, pods int }

func (e extent) objects() int { return e.namespaces * e.each }

// manyWorld is a cluster with all these.
type manyWorld struct {
	extent
	c      *kubetest.Cluster
	places []*place
}

func newManyWorld(t *testing.T, c *kubetest.Cluster, size extent) *manyWorld {
	t.Helper()
	began := time.Now()
	w := &manyWorld{extent: size, c: c}
	var jobs []func() error
	for n := range size.namespaces {
		p := newPlace(t, c, hpas, fmt.Sprintf("many-%02d", n))
		w.places = append(w.places, p)
		for i := range size.each {
			name := manyName(i)
			c.Metrics.SetCPU(p.namespace, name, 500)
			jobs = append(jobs, func() error { return p.addDeploymentWithPods(name, size.pods) })
		}
	}
	inParallel(t, jobs)
	awaitFor(t, manyWithin, "all pods run", func() string {
		running := 0
		for _, p := range w.places {
			for _, pod := range c.Kubelet.Pods(p.namespace) {
				if pod.Status.Phase == corev1.PodRunning {
					running++
				}
			}
		}
		if want := size.objects() * size.pods; running != want {
			return fmt.Sprintf("%d of %d", running, want)
		}
		return ""
	})
	jobs = nil
	for _, p := range w.places {
		for i := range size.each {
			jobs = append(jobs, func() error { return p.tryAdd(manyName(i), kubetest.CPU(manyName(i), 50, 2, 40)) })
		}
	}
	inParallel(t, jobs)
	t.Logf("%d deployments with %d pods were made in %v", size.objects(), size.objects()*size.pods, time.Since(began).Round(time.Second))
	return w
}

func manyName(i int) string { return fmt.Sprintf("web-%02d", i) }

// inParallel does many things that the API server may do at the same time.
func inParallel(t *testing.T, jobs []func() error) {
	t.Helper()
	queue := make(chan func() error)
	var workers sync.WaitGroup
	var once sync.Once
	var failure error
	for range 16 {
		workers.Go(func() {
			for job := range queue {
				if err := job(); err != nil {
					once.Do(func() { failure = err })
				}
			}
		})
	}
	for _, job := range jobs {
		queue <- job
	}
	close(queue)
	workers.Wait()
	must(t, failure)
}

// addDeploymentWithPods makes one as its controller would have left it; no controller
// runs that would take its share of the machine.
func (p *place) addDeploymentWithPods(name string, pods int) error {
	ctx, client, replicas := context.Background(), p.c.Client(), int32(pods)
	_, err := client.AppsV1().Deployments(p.namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: kubetest.Selector(name), Template: kubetest.PodTemplate(name)},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"replicas": replicas, "readyReplicas": replicas}})
	if err != nil {
		return err
	}
	if _, err := client.AppsV1().Deployments(p.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	for i := range replicas {
		template := kubetest.PodTemplate(name)
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name = fmt.Sprintf("%s-%d", name, i)
		if _, err := client.CoreV1().Pods(p.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func newAgentForAll(t *testing.T, c *kubetest.Cluster, s *service.Instance, period time.Duration) *agent {
	t.Helper()
	a := newAgent(t, c, "default", s, "--source=hpa", "--sync-period="+period.String(), "--log-level=warn")
	a.Command.Args = slices.DeleteFunc(a.Command.Args, func(arg string) bool { return strings.HasPrefix(arg, "--namespace=") })
	return a
}

// awaitReconciles waits until there were so many reconciles, and returns how long that took.
func (w *manyWorld) awaitReconciles(t *testing.T, a *agent, n float64) time.Duration {
	t.Helper()
	began := time.Now()
	awaitFor(t, manyWithin, fmt.Sprintf("%v reconciles", n), func() string {
		if got := a.Metric("setpoint_agent_reconciles_total"); got < n {
			return fmt.Sprint(got)
		}
		return ""
	})
	return time.Since(began)
}
