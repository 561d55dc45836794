package controller

import (
	"context"
	"fmt"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/conformance/cluster"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// The benchmarks put upstream's code and Setpoint's engine side by side. Both have
// the same pods and samples in memory, in their own types: what it takes to read them
// from an API or a request is not measured on either side.

// benchmarkConfig has the controller's defaults, but for the stabilization window.
// Upstream takes the time from the clock, which hardly moves here: with a window the
// recommendations to search would be as many as there were iterations.
var benchmarkConfig = cluster.Config{Tolerance: 0.1, CPUInitializationPeriod: 300, InitialReadinessDelay: 30}

var benchmarkSizes = []int{10, 100, 1000, 10000}

// workload is what both sides see: pods of one container that are ready for an hour,
// and use 63 % of the cpu they request, or nearly so.
type workload struct {
	pods    []*corev1.Pod
	samples *metricsv1beta1.PodMetricsList
	// input is all of that and the options, laid out in memory as the service lays out
	// a request: each kind of part in one piece.
	input recommender.Input
}

const (
	benchmarkNamespace = "shop"
	benchmarkSelector  = "app=web"
)

func newWorkload(pods int) *workload {
	now := time.Now()
	started := now.Add(-time.Hour).Truncate(time.Second)
	ready, sampled := started.Add(20*time.Second), now.Add(-10*time.Second).Truncate(time.Second)
	w := &workload{
		pods:    make([]*corev1.Pod, pods),
		samples: &metricsv1beta1.PodMetricsList{Items: make([]metricsv1beta1.PodMetrics, pods)},
		input: recommender.Input{
			ID: recommender.ID{1}, Namespace: benchmarkNamespace, Options: recommender.DefaultOptions(),
			Spec: recommender.Spec{
				ScaleTargetRef: recommender.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
				MinReplicas:    1, MaxReplicas: 2 * int32(pods),
			},
			Scale: recommender.Scale{SpecReplicas: int32(pods), StatusReplicas: int32(pods)},
			Pods:  make([]recommender.Pod, pods), PodMetrics: make([]recommender.PodMetrics, pods),
		},
	}
	w.input.Options.DownscaleStabilization = benchmarkConfig.DownscaleStabilization.Duration()
	containers, requests := make([]recommender.Container, pods), make([]recommender.ResourceRequest, 2*pods)
	used, usage := make([]recommender.ContainerMetrics, pods), make([]recommender.ResourceUsage, 2*pods)
	for i := range pods {
		const requestedCPU, requestedMemory, usedMemory = 500, 512 << 20, 300 << 20
		usedCPU := int64(310 + i%11)
		name := fmt.Sprintf("web-6d4cf56db6-%05x", i*7919)
		w.pods[i] = benchmarkPod(name, started, ready, resources(requestedCPU, requestedMemory))
		w.samples.Items[i] = metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: benchmarkNamespace, Name: name, Labels: w.pods[i].Labels},
			Timestamp:  metav1.NewTime(sampled), Window: metav1.Duration{Duration: 30 * time.Second},
			Containers: []metricsv1beta1.ContainerMetrics{{Name: "app", Usage: resources(usedCPU, usedMemory)}},
		}

		requests[2*i] = recommender.ResourceRequest{Resource: "cpu", Quantity: quantity.FromMilli(requestedCPU)}
		requests[2*i+1] = recommender.ResourceRequest{Resource: "memory", Quantity: quantity.FromMilli(requestedMemory * 1000)}
		containers[i] = recommender.Container{Name: "app", Requests: requests[2*i : 2*i+2]}
		w.input.Pods[i] = recommender.Pod{
			Name: name, Phase: recommender.PhaseRunning, StartTime: started,
			Ready: recommender.ReadyTrue, ReadyTransition: ready, Containers: containers[i : i+1],
		}
		usage[2*i] = recommender.ResourceUsage{Resource: "cpu", Milli: usedCPU}
		usage[2*i+1] = recommender.ResourceUsage{Resource: "memory", Milli: usedMemory * 1000}
		used[i] = recommender.ContainerMetrics{Name: "app", Usage: usage[2*i : 2*i+2]}
		w.input.PodMetrics[i] = recommender.PodMetrics{
			Pod: string([]byte(name)), Timestamp: sampled, Window: 30 * time.Second, Containers: used[i : i+1],
		}
	}
	return w
}

func benchmarkPod(name string, started, ready time.Time, requests corev1.ResourceList) *corev1.Pod {
	condition := func(kind corev1.PodConditionType, since time.Time) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: benchmarkNamespace, Name: name,
			Labels: map[string]string{"app": "web", "pod-template-hash": "6d4cf56db6"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: requests}}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: started},
			Conditions: []corev1.PodCondition{
				condition(corev1.PodReadyToStartContainers, started), condition(corev1.PodInitialized, started),
				condition(corev1.PodReady, ready), condition(corev1.ContainersReady, ready), condition(corev1.PodScheduled, started),
			},
		},
	}
}

func resources(milliCPU, memory int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
}

// calmHistory is what twenty decisions leave behind that changed nothing.
func (w *workload) calmHistory(now time.Time) recommender.History {
	in := w.input
	in.Options.Tolerance, in.Options.DownscaleStabilization = 10, recommender.DefaultOptions().DownscaleStabilization
	var history recommender.History
	for i := range 20 {
		_, history = recommender.Recommend(now.Add(time.Duration(i-20)*15*time.Second), &in, &history)
	}
	return history
}

// store puts pods into a cache as informers have it.
func (w *workload) store() corelisters.PodLister {
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, pod := range w.pods {
		if err := pods.Add(pod); err != nil {
			panic(err)
		}
	}
	return corelisters.NewPodLister(pods)
}

// readyMetrics is a metrics client that has its answer ready.
type readyMetrics struct {
	metrics.MetricsClient
	samples metrics.PodMetricsInfo
}

func newReadyMetrics(w *workload) *readyMetrics {
	rest := metrics.NewRESTMetricsClient(readyPodMetrics{list: w.samples}, nil, nil)
	samples, _, _ := rest.GetResourceMetric(context.Background(), corev1.ResourceCPU, benchmarkNamespace, labels.Everything(), "")
	return &readyMetrics{samples: samples}
}

func (m *readyMetrics) GetResourceMetric(context.Context, corev1.ResourceName, string, labels.Selector, string) (metrics.PodMetricsInfo, time.Time, error) {
	return m.samples, time.Time{}, nil
}

//go:linkname tolerancesForHpa k8s.io/kubernetes/pkg/controller/podautoscaler.(*HorizontalController).tolerancesForHpa
func tolerancesForHpa(c *podautoscaler.HorizontalController, hpa *autoscalingv2.HorizontalPodAutoscaler) podautoscaler.Tolerances

// BenchmarkCalculator measures one proposal of upstream's calculator, which gets
// samples that are added up for each pod and in a map by its name already: no metrics
// client can be quicker. Setpoint's side is a whole decision from samples of
// containers in a list: with stabilization, limits, status and history.
func BenchmarkCalculator(b *testing.B) {
	klog.SetLogger(klog.Logger{})
	tolerances := tolerancesForHpa(newController(benchmarkConfig).real, &autoscalingv2.HorizontalPodAutoscaler{})
	for _, pods := range benchmarkSizes {
		b.Run(fmt.Sprintf("utilization/%d_pods", pods), func(b *testing.B) { compare(b, pods, tolerances) })
	}
}

// compare measures a cpu utilization target of 50 %, by which the count changes.
func compare(b *testing.B, pods int, tolerances podautoscaler.Tolerances) {
	w, target := newWorkload(pods), int32(50)
	w.input.Spec.Metrics = []recommender.MetricSpec{{
		Type: recommender.ResourceMetric, Resource: "cpu",
		Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &target},
	}}
	selector, err := labels.Parse(benchmarkSelector)
	fatal.If(b, err)
	calculator := podautoscaler.NewReplicaCalculator(newReadyMetrics(w), w.store(),
		benchmarkConfig.CPUInitializationPeriod.Duration(), benchmarkConfig.InitialReadinessDelay.Duration())
	upstream := func() (replicas int32, reading int64, err error) {
		replicas, _, reading, _, err = calculator.GetResourceReplicas(context.Background(), int32(pods), target, corev1.ResourceCPU, tolerances, benchmarkNamespace, selector, "")
		return replicas, reading, err
	}
	now := time.Now()
	history := w.calmHistory(now)

	replicas, reading, err := upstream()
	d, _ := recommender.Recommend(now, &w.input, &history)
	if err != nil || d.Error != "" || replicas == int32(pods) || replicas != d.Desired {
		b.Fatalf("upstream comes from %d to %d replicas (%v), Setpoint to %d (%s)", pods, replicas, err, d.Desired, d.Error)
	}
	if current := d.Status.CurrentMetrics[0].Current; reading != current.AverageValue {
		b.Fatalf("upstream reads %d, Setpoint %+v", reading, current)
	}
	b.Run("upstream", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := upstream(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("setpoint", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if d, _ := recommender.Recommend(now, &w.input, &history); d.Path != recommender.PathMetrics {
				b.Fatal(d.Error)
			}
		}
	})
}

// readyPodMetrics is the API metrics.k8s.io that has its answer ready.
type readyPodMetrics struct {
	resourceclient.PodMetricsInterface
	list *metricsv1beta1.PodMetricsList
}

func (m readyPodMetrics) PodMetricses(string) resourceclient.PodMetricsInterface { return m }

func (m readyPodMetrics) List(context.Context, metav1.ListOptions) (*metricsv1beta1.PodMetricsList, error) {
	return m.list, nil
}
