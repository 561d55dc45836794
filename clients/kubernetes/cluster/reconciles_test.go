package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// town is a cluster in memory whose deployments have one pod each, of their name. Its metrics
// server omits labels and its adapter refuses lists of all pods.
type town struct {
	apps         []string
	wide, narrow int
}

func (c *town) Get(_ context.Context, _ schema.GroupResource, namespace, name string) (*autoscalingv1.Scale, error) {
	return &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status:     autoscalingv1.ScaleStatus{Selector: "app=" + name},
	}, nil
}

func (c *town) Update(context.Context, schema.GroupResource, *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	return nil, errors.New("nobody writes")
}

func (c *town) Pods(_ context.Context, namespace string, selector labels.Selector) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	for _, app := range c.apps {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, Labels: map[string]string{"app": app}}}
		if selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, pod)
		}
	}
	return out, nil
}

func (c *town) CountPods(string) int { return len(c.apps) }

func (c *town) count(selector labels.Selector) {
	if selector.Empty() {
		c.wide++
	} else {
		c.narrow++
	}
}

func (c *town) PodMetrics(ctx context.Context, namespace string, selector labels.Selector) ([]metricsv1beta1.PodMetrics, error) {
	c.count(selector)
	pods, err := c.Pods(ctx, namespace, selector)
	var out []metricsv1beta1.PodMetrics
	for _, pod := range pods {
		out = append(out, metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name}})
	}
	return out, err
}

func (c *town) PodsMetric(_ context.Context, _ string, selector labels.Selector, _ Metric) ([]customv1beta2.MetricValue, error) {
	c.count(selector)
	if selector.Empty() {
		return nil, errors.New("not for all")
	}
	return nil, nil
}

func (c *town) ObjectMetric(context.Context, string, Object, Metric) ([]customv1beta2.MetricValue, error) {
	return nil, nil
}

func (c *town) ExternalMetric(context.Context, string, Metric) ([]externalv1beta1.ExternalMetricValue, error) {
	return nil, nil
}

// A list of all pods that failed in one reconcile is not requested in the next.
func TestReconcilesWithoutListsOfAll(t *testing.T) {
	t.Parallel()
	for name, metric := range map[string]autoscalingv2.MetricSpec{
		"usage without labels": {Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU}},
		"values not for all":   {Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "rps"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "apps", Version: "v1"}})
				mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
				town := &town{apps: []string{"a", "b", "c", "d"}}
				reader := NewReader(Sources{Mapper: mapper, Scales: town, Pods: town, Metrics: town}, Options{})
				for range 3 {
					for _, app := range town.apps {
						autoscaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app}}
						autoscaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app}
						autoscaler.Spec.Metrics = []autoscalingv2.MetricSpec{metric}
						got, err := reader.Snapshot(t.Context(), autoscaler, nil)
						if err != nil || len(got.MetricErrors) > 0 {
							t.Fatalf("got %v, %v", got, err)
						}
					}
					time.Sleep(15 * time.Second)
				}
				if town.wide != 1 || town.narrow != 12 {
					t.Errorf("asked for all %d times and by selector %d times, want 1 and 12", town.wide, town.narrow)
				}
			})
		})
	}
}

func TestSelectingFromUsage(t *testing.T) {
	t.Parallel()
	item := func(name string, of map[string]string) metricsv1beta1.PodMetrics {
		return metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: of}}
	}
	web, canary := map[string]string{"app": "web"}, map[string]string{"app": "web", "track": "canary"}
	own := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: web}}}
	for _, test := range []struct {
		name, selector string
		items          []metricsv1beta1.PodMetrics
		want           string
	}{
		{"by a label", "app=web", []metricsv1beta1.PodMetrics{item("web-0", web), item("x", map[string]string{"app": "x"})}, "[web-0]"},
		{"also what pods don't tell", "app=web", []metricsv1beta1.PodMetrics{item("web-0", web), item("ghost", web)}, "[web-0 ghost]"},
		{"by more than the index", "app=web,!track", []metricsv1beta1.PodMetrics{item("web-0", web), item("web-1", canary)}, "[web-0]"},
		{"without any exact label", "app,track notin (canary)", []metricsv1beta1.PodMetrics{item("web-0", web), item("web-1", canary)}, "[web-0]"},
		{"by two labels", "app=web,track=canary", []metricsv1beta1.PodMetrics{item("web-0", web), item("web-1", canary)}, "[web-1]"},
		{"nothing", "app=web", nil, "[]"},
		{"a pod of others that has no labels", "app=web", []metricsv1beta1.PodMetrics{item("web-0", web), item("bare", nil)}, "[web-0]"},
		{"own pods whose items lack their labels", "app=web", []metricsv1beta1.PodMetrics{item("web-0", nil), item("x", web)}, "not ok"},
		{"all items lack labels, own pods have none", "app=web", []metricsv1beta1.PodMetrics{item("ghost", nil)}, "not ok"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			selector, err := labels.Parse(test.selector)
			fatal.If(t, err)
			list := &usage{items: test.items}
			list.index()
			items, ok := list.selected(&asker{selector: selector, pods: own})
			names := []string{}
			for _, item := range items {
				names = append(names, item.Name)
			}
			got := fmt.Sprint(names)
			if !ok {
				got = "not ok"
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestMessageOf(t *testing.T) {
	t.Parallel()
	long := make([]byte, 3*maxMessage)
	for i := range long {
		long[i] = "aö"[(i+1)%3]
	}
	for _, test := range []struct{ text, want string }{
		{"plain", "plain"},
		{"", "the API server gave no reason"},
		{"not \xff text", "not � text"},
		{string(long), string(long[:maxMessage-1]) + "…"},
	} {
		if got := messageOf(errors.New(test.text)); got != test.want {
			t.Errorf("got %d bytes ending %q, want %d ending %q", len(got), got[max(0, len(got)-8):], len(test.want), test.want[max(0, len(test.want)-8):])
		}
	}
}
