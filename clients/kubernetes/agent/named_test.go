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

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/named"
	"github.com/setpoint-dev/setpoint/clients/samples"
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

// asked is a reader that records the metrics requested from the cluster.
type asked struct {
	reader
	metrics []string
}

func (a *asked) Snapshot(_ context.Context, h *autoscalingv2.HorizontalPodAutoscaler) (*kubernetes.Snapshot, error) {
	for _, m := range h.Spec.Metrics {
		if m.External != nil {
			a.metrics = append(a.metrics, m.External.Metric.Name)
		} else {
			a.metrics = append(a.metrics, string(m.Type))
		}
	}
	var pods []*corev1.Pod
	for _, name := range []string{"web-1", "web-2"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: name, Labels: map[string]string{"app": "web"}}})
	}
	return &kubernetes.Snapshot{Autoscaler: h, Scale: &autoscalingv1.Scale{Status: autoscalingv1.ScaleStatus{Selector: "app=web"}}, Pods: pods}, nil
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
			[]autoscalingv2.MetricSpec{externalMetric("queue", "a")}, []string{"Named"}, []string{"30"}, 0},
		{"twice, with two targets", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "a"), externalMetric("queue", "a")}, []string{"Named"}, []string{"30"}, 0},
		{"with two selectors", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "a"), externalMetric("queue", "b")}, []string{"Named"}, []string{"12", "30"}, 0},
		{"with a selector that is none", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "not a value!")}, []string{"Named"}, nil, 0},
		{"of another namespace: it fails, and the cluster is not asked instead", Autoscaler, "other",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "")}, []string{"Named"}, nil, 1},
		{"of the pods", Autoscaler, "shop", []autoscalingv2.MetricSpec{podsMetric("load")}, []string{"Named"}, []string{"web-1 7", "web-2 7"}, 0},
		{"of an object", Autoscaler, "shop", []autoscalingv2.MetricSpec{objectMetric("hits", "Service", "web")}, []string{"Named"}, []string{"web 5"}, 0},
		{"of the namespace, under two names", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{objectMetric("hits", "Namespace", "x"), objectMetric("hits", "Namespace", "y")}, []string{"Named"}, []string{"shop 5"}, 0},
		{"of another type: another metric", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{podsMetric("queue"), externalMetric("load", ""), objectMetric("queue", "Service", "web")}, []string{"Pods", "load", "Object"}, nil, 0},
		{"of all types", Autoscaler, "shop",
			[]autoscalingv2.MetricSpec{podsMetric("load"), externalMetric("queue", ""), objectMetric("hits", "Service", "web")}, []string{"Named"},
			[]string{"12", "30", "web 5", "web-1 7", "web-2 7"}, 0},
		{"of pods, in another namespace", Autoscaler, "other", []autoscalingv2.MetricSpec{podsMetric("load")}, []string{"Named"}, nil, 1},
		{"a HorizontalPodAutoscaler gets what the metrics API says", HPA, "shop",
			[]autoscalingv2.MetricSpec{externalMetric("queue", "")}, []string{"queue"}, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: tt.namespace, Name: "web"}}
			h.Spec.Metrics = tt.metrics
			from := &asked{}
			got, err := snapshotFor(t.Context(), named.Reader{Metrics: fakeNamed{}, Timeout: time.Minute}, from, &object{key: tt.source.Key(tt.namespace, "web"), autoscaler: h})
			if err != nil {
				t.Fatal(err)
			}
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
	got, err := named.Reader{Metrics: metrics, Timeout: time.Minute}.Snapshot(t.Context(), &asked{}, h)
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := (named.Reader{Metrics: metrics, Timeout: time.Minute}).Snapshot(t.Context(), &asked{}, h); err != nil {
		t.Fatal(err)
	}
	if most.Load() > named.MaxReads {
		t.Errorf("%d at once", most.Load())
	}
}
