package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// fakeNamed has for the namespace shop the External metric queue, of 30 in series a and 12 in b,
// the Pods metric load, of 7 for each pod, and the Object metric hits, of 5.
type fakeNamed struct {
	// meet waits until so many reads run concurrently. May be nil.
	meet func()
}

func (fakeNamed) Named(namespace string, spec *setpointv1.MetricSpec) (samples.Metric, bool, error) {
	name, ok := map[string]string{"External": "queue", "Pods": "load", "Object": "hits"}[spec.GetType()]
	asked := spec.GetExternal().GetMetric().GetName() + spec.GetPods().GetMetric().GetName() + spec.GetObject().GetMetric().GetName()
	switch {
	case !ok || asked != name:
		return samples.Metric{}, false, nil
	case namespace != "shop":
		return samples.Metric{}, true, errors.New("not for that namespace")
	}
	return samples.Metric{Spec: spec, Query: samples.Query{Source: "prom", Query: namespace}, Named: name}, true, nil
}

func (f fakeNamed) Read(_ context.Context, metrics []samples.Metric, pods []string) (out samples.Readings) {
	if f.meet != nil {
		f.meet()
	}
	for _, m := range metrics {
		switch m.Spec.GetType() {
		case "Pods":
			for _, pod := range pods {
				out.CustomMetrics = append(out.CustomMetrics, &setpointv1.CustomMetric{
					Metric: m.Spec.GetPods().GetMetric(), Value: "7",
					DescribedObject: &setpointv1.CrossVersionObjectReference{ApiVersion: "v1", Kind: "Pod", Name: pod},
				})
			}
			continue
		case "Object":
			out.CustomMetrics = append(out.CustomMetrics, &setpointv1.CustomMetric{
				Metric: m.Spec.GetObject().GetMetric(), Value: "5", DescribedObject: m.Spec.GetObject().GetDescribedObject(),
			})
			continue
		}
		for series, value := range map[string]string{"a": "30", "b": "12"} {
			if want := m.Spec.GetExternal().GetMetric().GetSelector().GetMatchLabels()["series"]; want == "" || want == series {
				out.ExternalMetrics = append(out.ExternalMetrics, &setpointv1.ExternalMetric{
					Metric: m.Spec.GetExternal().GetMetric(), Labels: map[string]string{"series": series}, Value: value,
				})
			}
		}
	}
	return out
}

// asked is a cluster with the pods web-1 and web-2, which records the metrics it is asked for.
type asked struct {
	mu      sync.Mutex
	metrics []string
}

func (a *asked) Get(context.Context, schema.GroupResource, string, string) (*autoscalingv1.Scale, error) {
	return &autoscalingv1.Scale{Status: autoscalingv1.ScaleStatus{Selector: "app=web"}}, nil
}

func (a *asked) Update(context.Context, schema.GroupResource, *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	return nil, errors.New("nothing is written")
}

func (a *asked) Pods(_ context.Context, namespace string, _ labels.Selector) (pods []*corev1.Pod, err error) {
	for _, name := range []string{"web-1", "web-2"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}}})
	}
	return pods, nil
}

func (a *asked) note(metric string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.metrics = append(a.metrics, metric)
}

func (a *asked) PodMetrics(context.Context, string, labels.Selector) ([]metricsv1beta1.PodMetrics, error) {
	a.note("usage")
	return nil, nil
}

func (a *asked) PodsMetric(context.Context, string, labels.Selector, cluster.Metric) ([]customv1beta2.MetricValue, error) {
	a.note("Pods")
	return nil, nil
}

func (a *asked) ObjectMetric(context.Context, string, cluster.Object, cluster.Metric) ([]customv1beta2.MetricValue, error) {
	a.note("Object")
	return nil, nil
}

func (a *asked) ExternalMetric(_ context.Context, _ string, metric cluster.Metric) ([]externalv1beta1.ExternalMetricValue, error) {
	a.note(metric.Name)
	return nil, nil
}

// read reads an object that scales a Deployment.
func (a *asked) read(t *testing.T, o *object, metrics NamedMetrics) *kubernetes.Snapshot {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion})
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	o.autoscaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	got, err := snapshotFor(t.Context(), cluster.NewReader(cluster.Sources{Mapper: mapper, Scales: a, Pods: a, Metrics: a}, cluster.Options{}), o, metrics, time.Minute)
	fatal.If(t, err)
	return got
}

func externalMetric(name, series string) autoscalingv2.MetricSpec {
	m := autoscalingv2.MetricIdentifier{Name: name}
	if series != "" {
		m.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"series": series}}
	}
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: m}}
}

func podsMetric(name string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: name}}}
}

func objectMetric(name, kind, object string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: name}, DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: kind, Name: object},
	}}
}

func TestNamedMetrics(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		source    Source
		namespace string
		metrics   []autoscalingv2.MetricSpec
		// asked is what is requested from the cluster.
		asked  []string
		values []string
		failed int
	}{
		{"a named one, and one of the cluster's", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", ""), externalMetric("other", "")}, []string{"other"}, []string{"12", "30"}, 0},
		{"named ones only: not cpu, which none at all stands for", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "a")}, nil, []string{"30"}, 0},
		{"twice, with two targets", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "a"), externalMetric("queue", "a")}, nil, []string{"30"}, 0},
		{"with two selectors", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "a"), externalMetric("queue", "b")}, nil, []string{"12", "30"}, 0},
		{"with a selector that is none", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "not a value!")}, nil, nil, 0},
		{"of another namespace: it fails, and the cluster is not asked instead", Autoscaler, "other",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "")}, nil, nil, 1},
		{"of the pods", Autoscaler, "shop", []autoscalingv2.MetricSpec{podsMetric("load")}, nil, []string{"web-1 7", "web-2 7"}, 0},
		{"of an object", Autoscaler, "shop", []autoscalingv2.MetricSpec{objectMetric("hits", "Service", "web")}, nil, []string{"web 5"}, 0},
		{"of the namespace, under two names", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{objectMetric("hits", "Namespace", "x"), objectMetric("hits", "Namespace", "y")}, nil, []string{"shop 5"}, 0},
		{"of another type: another metric", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{podsMetric("queue"), externalMetric("load", ""), objectMetric("queue", "Service", "web")}, []string{"Object", "Pods", "load"}, nil, 0},
		{"of all types", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{podsMetric("load"), externalMetric("queue", ""), objectMetric("hits", "Service", "web")}, nil,
			[]string{"12", "30", "web 5", "web-1 7", "web-2 7"}, 0},
		{"of pods, in another namespace", Autoscaler, "other", []autoscalingv2.MetricSpec{podsMetric("load")}, nil, nil, 1},
		{"a HorizontalPodAutoscaler gets what the metrics API says", HPA, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "")}, []string{"queue"}, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: tt.namespace, Name: "web"}}
			h.Spec.Metrics = tt.metrics
			from := &asked{}
			got := from.read(t, &object{key: tt.source.Key(tt.namespace, "web"), autoscaler: h}, fakeNamed{})
			slices.Sort(from.metrics)
			var values []string
			for _, m := range got.ExternalMetrics {
				values = append(values, m.Value.String())
			}
			for _, m := range got.CustomMetrics {
				values = append(values, m.DescribedObject.Name+" "+m.Value.String())
			}
			slices.Sort(values)
			if !slices.Equal(from.metrics, tt.asked) || !slices.Equal(values, tt.values) || len(got.MetricErrors) != tt.failed {
				t.Errorf("the cluster was asked for %q, values %q, errors %v", from.metrics, values, got.MetricErrors)
			}
			// All readings belong to the spec's metrics: they go to the service.
			if req, err := got.Request("demo"); err != nil || len(req.GetCustomMetrics()) != len(got.CustomMetrics) {
				t.Errorf("the request has %v, %v", req.GetCustomMetrics(), err)
			}
			if got.Autoscaler != h || len(h.Spec.Metrics) != len(tt.metrics) {
				t.Error("the snapshot is not of the whole autoscaler")
			}
		})
	}
}

// Metrics are read concurrently, so that a slow source costs its timeout once.
func TestNamedMetricsAreReadTogether(t *testing.T) {
	t.Parallel()
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for _, series := range []string{"a", "b", ""} {
		h.Spec.Metrics = append(h.Spec.Metrics, externalMetric("queue", series))
	}
	var there sync.WaitGroup
	there.Add(len(h.Spec.Metrics))
	metrics := fakeNamed{meet: func() { there.Done(); there.Wait() }} // or the test never ends
	got := (&asked{}).read(t, &object{key: Autoscaler.Key("shop", "web"), autoscaler: h}, metrics)
	if len(got.ExternalMetrics) != 4 {
		t.Errorf("read %v", got.ExternalMetrics)
	}
}

// The number of concurrent reads is bounded.
func TestNamedMetricsAreReadWithinABound(t *testing.T) {
	t.Parallel()
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for i := range 100 {
		h.Spec.Metrics = append(h.Spec.Metrics, externalMetric("queue", fmt.Sprint(i)))
	}
	var now, most atomic.Int64
	metrics := fakeNamed{meet: func() {
		n := now.Add(1)
		for before := most.Load(); n > before && !most.CompareAndSwap(before, n); before = most.Load() {
		}
		runtime.Gosched()
		now.Add(-1)
	}}
	(&asked{}).read(t, &object{key: Autoscaler.Key("shop", "web"), autoscaler: h}, metrics)
	if most.Load() > 8 {
		t.Errorf("%d at once", most.Load())
	}
}
