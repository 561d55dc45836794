//go:build linux

package kubetest

import (
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// AppLabel is the label whose value is the pod's app, and so its load.
const AppLabel = "app"

// Window that samples of pods are averages over. It is short, for pods that start
// during a test.
const Window = time.Second

// Metrics is a metrics server and an adapter of custom and external metrics. Its answers follow
// from the set values and the current pods.
type Metrics struct {
	kubelet  *Kubelet
	listener *listener

	mu       sync.Mutex
	loads    map[string]map[load]int64 // thousandths, by namespace
	objects  map[object]resource.Quantity
	series   map[external][]Series
	failures map[failure]answer
	hanging  map[failure]chan struct{} // closed when that ends
}

// load is the load of an app's pods, which share it evenly.
type load struct{ app, metric string }

type object struct{ namespace, resource, name, metric string }

type external struct{ namespace, metric string }

type failure struct{ api, namespace string }

type answer struct {
	code    int
	message string
}

// Series is one series of an external metric.
type Series struct {
	Labels map[string]string
	Value  resource.Quantity
}

// The APIs.
const (
	ResourceMetrics = "metrics.k8s.io"
	CustomMetrics   = "custom.metrics.k8s.io"
	ExternalMetrics = "external.metrics.k8s.io"
)

// SetCPU sets the joint usage of an app's ready pods, thousandths of a core. They share it
// evenly; unready ones use nothing. A pod of an app that was never set has no sample.
func (m *Metrics) SetCPU(namespace, app string, milli int64) {
	m.setLoad(namespace, load{app, string(corev1.ResourceCPU)}, milli)
}

// SetMemory sets the same of memory, bytes.
func (m *Metrics) SetMemory(namespace, app string, bytes int64) {
	m.setLoad(namespace, load{app, string(corev1.ResourceMemory)}, bytes*1000)
}

// SetPods sets the sum of a custom metric over the ready pods of an app, thousandths.
func (m *Metrics) SetPods(namespace, app, metric string, milli int64) {
	m.setLoad(namespace, load{app, "pods/" + metric}, milli)
}

func (m *Metrics) setLoad(namespace string, of load, milli int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loads[namespace] == nil {
		m.loads[namespace] = make(map[load]int64)
	}
	m.loads[namespace][of] = milli
}

// SetObject sets a custom metric of an object. Resource is the plural with the group,
// such as services or ingresses.networking.k8s.io.
func (m *Metrics) SetObject(namespace, resource, name, metric string, value resource.Quantity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[object{namespace, resource, name, metric}] = value
}

// SetExternal sets the series of an external metric; none makes an empty answer.
func (m *Metrics) SetExternal(namespace, metric string, series ...Series) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.series[external{namespace, metric}] = series
}

// Fail makes requests to an API about a namespace fail with that HTTP code and message. Code 0
// ends that.
func (m *Metrics) Fail(api, namespace string, code int, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if code == 0 {
		delete(m.failures, failure{api, namespace})
		return
	}
	m.failures[failure{api, namespace}] = answer{code, message}
}

// Hang leaves requests to an API about a namespace unanswered until they time out, or ends
// that: then hanging ones are answered.
func (m *Metrics) Hang(api, namespace string, hangs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := failure{api, namespace}
	if end, is := m.hanging[of]; is && !hangs {
		close(end)
		delete(m.hanging, of)
	} else if !is && hangs {
		m.hanging[of] = make(chan struct{})
	}
}

// samples are the metrics server's samples of the pods that the selector matches. Pods that do
// not run, or whose app has no load, have none.
func (m *Metrics) samples(namespace string, selector labels.Selector, now time.Time) []metricsv1beta1.PodMetrics {
	items := []metricsv1beta1.PodMetrics{}
	shares := m.shares(namespace)
	for _, pod := range shares.pods {
		if !selector.Matches(labels.Set(pod.Labels)) || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		usage := corev1.ResourceList{}
		parts := int64(max(len(pod.Spec.Containers), 1))
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if milli, ok := shares.of(pod, string(name)); ok {
				usage[name] = *resource.NewMilliQuantity(milli/parts, resource.DecimalSI)
			}
		}
		if len(usage) == 0 {
			continue
		}
		item := metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: namespace, Labels: pod.Labels, CreationTimestamp: metav1.NewTime(now)},
			Timestamp:  metav1.NewTime(now), Window: metav1.Duration{Duration: Window},
		}
		for _, container := range pod.Spec.Containers {
			item.Containers = append(item.Containers, metricsv1beta1.ContainerMetrics{Name: container.Name, Usage: usage})
		}
		items = append(items, item)
	}
	return items
}

// shares is the load of each pod of a namespace.
type shares struct {
	pods  []*corev1.Pod
	ready map[string]int64 // ready pods of an app
	loads map[load]int64
}

func (m *Metrics) shares(namespace string) shares {
	s := shares{pods: m.kubelet.Pods(namespace), ready: make(map[string]int64)}
	for _, pod := range s.pods {
		if ready(pod) && pod.DeletionTimestamp == nil {
			s.ready[pod.Labels[AppLabel]]++
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.loads = maps.Clone(m.loads[namespace])
	return s
}

// of returns a pod's share of a load, and whether that was set.
func (s shares) of(pod *corev1.Pod, metric string) (milli int64, ok bool) {
	app := pod.Labels[AppLabel]
	total, ok := s.loads[load{app, metric}]
	if !ok || !ready(pod) || pod.DeletionTimestamp != nil || s.ready[app] == 0 {
		return 0, ok
	}
	return total / s.ready[app], true
}

// podValues are a custom metric of the pods that the selector matches.
func (m *Metrics) podValues(namespace, metric string, selector labels.Selector, now time.Time) []customv1beta2.MetricValue {
	items := []customv1beta2.MetricValue{}
	shares := m.shares(namespace)
	for _, pod := range shares.pods {
		milli, ok := shares.of(pod, "pods/"+metric)
		if !ok || !selector.Matches(labels.Set(pod.Labels)) || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		items = append(items, customv1beta2.MetricValue{
			DescribedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: namespace, Name: pod.Name},
			Metric:          customv1beta2.MetricIdentifier{Name: metric},
			Timestamp:       metav1.NewTime(now), Value: *resource.NewMilliQuantity(milli, resource.DecimalSI),
		})
	}
	return items
}

// objectValue is a custom metric of one object.
func (m *Metrics) objectValue(of object, now time.Time) (*customv1beta2.MetricValueList, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.objects[of]
	if !ok {
		return nil, fmt.Errorf("the server could not find the metric %s for %s %s", of.metric, of.resource, of.name)
	}
	return &customv1beta2.MetricValueList{
		TypeMeta: metav1.TypeMeta{Kind: "MetricValueList", APIVersion: CustomMetrics + "/v1beta2"},
		Items: []customv1beta2.MetricValue{{
			DescribedObject: corev1.ObjectReference{Namespace: of.namespace, Name: of.name},
			Metric:          customv1beta2.MetricIdentifier{Name: of.metric},
			Timestamp:       metav1.NewTime(now), Value: value,
		}},
	}, nil
}

// externalValues are the series of a metric that the selector matches.
func (m *Metrics) externalValues(namespace, metric string, selector labels.Selector, now time.Time) []externalv1beta1.ExternalMetricValue {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := []externalv1beta1.ExternalMetricValue{}
	for _, series := range m.series[external{namespace, metric}] {
		if selector.Matches(labels.Set(series.Labels)) {
			items = append(items, externalv1beta1.ExternalMetricValue{
				MetricName: metric, MetricLabels: series.Labels, Timestamp: metav1.NewTime(now), Value: series.Value,
			})
		}
	}
	return items
}
