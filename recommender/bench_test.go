package recommender

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// BenchmarkOutlook measures one outlook after a fall of the load: a window of 300 s of that many
// recommendations, then a policy of 20 % a minute.
func BenchmarkOutlook(b *testing.B) {
	for _, entries := range []int{20, 300, 3600} {
		b.Run(fmt.Sprintf("recommendations=%d", entries), func(b *testing.B) {
			in := wanting(14)
			in.Spec.Behavior = behavior(nil, policies(ScalingPolicy{PercentPolicy, 20, 60}))
			in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(300))
			var history History
			spacing := 299 * time.Second / time.Duration(entries)
			for i := range entries {
				if i == entries/2 {
					read(in, 0, 5*unit)
				}
				_, history = Recommend(t0.Add(time.Duration(i)*spacing), in, &history)
			}
			last, history := Recommend(t0.Add(299*time.Second), in, &history)
			b.ReportAllocs()
			for b.Loop() {
				if o, _ := history.Outlook(in, &last.Basis, t0.Add(300*time.Second), time.Second); len(o.Changes) != 4 {
					b.Fatal(o.text())
				}
			}
		})
	}
}

// BenchmarkRecommend measures one whole decision: pods of one container (two with
// «sidecar») that are ready, samples in the order of pods (but for «unordered»), a history of one
// downscale window. Usage is 5 % above the target, within tolerance, as it mostly
// is; «scaling» and «missing» change the count.
func BenchmarkRecommend(b *testing.B) {
	for _, kind := range benchmarkKinds {
		for _, pods := range []int{10, 100, 1000, 10000} {
			b.Run(fmt.Sprintf("metric=%s/pods=%d", kind.name, pods), func(b *testing.B) {
				in := benchmarkInput(pods)
				kind.set(in)
				history := benchmarkHistory(in)
				now := benchmarkNow
				b.ReportAllocs()
				for b.Loop() {
					d, _ := Recommend(now, in, &history)
					if d.Path != PathMetrics {
						b.Fatal(d.Error)
					}
				}
			})
		}
	}
}

var benchmarkNow = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

var benchmarkKinds = []struct {
	name string
	set  func(*Input)
}{
	{"cpu-utilization", func(in *Input) {
		in.Spec.Metrics = []MetricSpec{{Type: ResourceMetric, Resource: "cpu", Target: MetricTarget{Type: UtilizationTarget, AverageUtilization: new(int32(60))}}}
	}},
	{"cpu-utilization-scaling", func(in *Input) {
		in.Spec.Metrics = []MetricSpec{{Type: ResourceMetric, Resource: "cpu", Target: MetricTarget{Type: UtilizationTarget, AverageUtilization: new(int32(50))}}}
	}},
	{"cpu-utilization-sidecar", func(in *Input) {
		in.Spec.Metrics = []MetricSpec{{Type: ResourceMetric, Resource: "cpu", Target: MetricTarget{Type: UtilizationTarget, AverageUtilization: new(int32(60))}}}
		withSidecar(in)
	}},
	{"cpu-average-value", func(in *Input) {
		in.Spec.Metrics = []MetricSpec{{Type: ResourceMetric, Resource: "cpu", Target: MetricTarget{Type: AverageValueTarget, AverageValue: new(int64(300))}}}
	}},
	{"cpu-utilization-unordered", func(in *Input) {
		in.Spec.Metrics = []MetricSpec{{Type: ResourceMetric, Resource: "cpu", Target: MetricTarget{Type: UtilizationTarget, AverageUtilization: new(int32(60))}}}
		for i, j := 0, len(in.PodMetrics)-1; i < j; i, j = i+1, j-1 {
			in.PodMetrics[i], in.PodMetrics[j] = in.PodMetrics[j], in.PodMetrics[i]
		}
	}},
	{"cpu-utilization-missing", func(in *Input) {
		in.Spec.Metrics = []MetricSpec{{Type: ResourceMetric, Resource: "cpu", Target: MetricTarget{Type: UtilizationTarget, AverageUtilization: new(int32(60))}}}
		kept := in.PodMetrics[:0]
		for i := range in.PodMetrics {
			if i%10 != 0 {
				kept = append(kept, in.PodMetrics[i])
			}
		}
		in.PodMetrics = kept
	}},
	{"container-cpu-utilization", func(in *Input) {
		in.Spec.Metrics = []MetricSpec{{Type: ContainerResourceMetric, Resource: "cpu", Container: "app", Target: MetricTarget{Type: UtilizationTarget, AverageUtilization: new(int32(60))}}}
	}},
	{"pods", func(in *Input) {
		in.Spec.Metrics = []MetricSpec{{Type: PodsMetric, Metric: MetricIdentifier{Name: "rps"}, Target: MetricTarget{Type: AverageValueTarget, AverageValue: new(int64(1000))}}}
		values := make([]Value, len(in.Pods))
		for i := range values {
			values[i] = Value{Pod: in.Pods[i].Name, Milli: 1050}
		}
		in.Readings = []Readings{{Values: values}}
	}},
	{"object-value", func(in *Input) {
		in.Spec.Metrics = []MetricSpec{{Type: ObjectMetric, Metric: MetricIdentifier{Name: "rps"}, DescribedObject: ObjectReference{Kind: "Service", Name: "web"}, Target: MetricTarget{Type: ValueTarget, Value: new(int64(1000))}}}
		in.Readings = []Readings{{Values: []Value{{Milli: 1050}}}}
	}},
	{"external-average-value", func(in *Input) {
		in.Spec.Metrics = []MetricSpec{{Type: ExternalMetric, Metric: MetricIdentifier{Name: "depth"}, Target: MetricTarget{Type: AverageValueTarget, AverageValue: new(int64(1000))}}}
		in.Readings = []Readings{{Values: []Value{{Milli: 1050 * int64(len(in.Pods))}}}}
	}},
	{"two", func(in *Input) {
		in.Spec.Metrics = []MetricSpec{
			{Type: ResourceMetric, Resource: "cpu", Target: MetricTarget{Type: UtilizationTarget, AverageUtilization: new(int32(60))}},
			{Type: ResourceMetric, Resource: "memory", Target: MetricTarget{Type: UtilizationTarget, AverageUtilization: new(int32(60))}},
		}
	}},
}

// benchmarkInput is a workload of ready pods at 63 % of their request, laid out in
// memory as the service lays out a request: each kind of part in one piece.
func benchmarkInput(pods int) *Input {
	in := &Input{
		ID: ID{1}, Namespace: "shop", Options: DefaultOptions(),
		Spec:       Spec{ScaleTargetRef: ObjectReference{Kind: "Deployment", Name: "web"}, MinReplicas: 1, MaxReplicas: 2 * int32(pods)},
		Scale:      Scale{SpecReplicas: int32(pods), StatusReplicas: int32(pods)},
		Pods:       make([]Pod, pods),
		PodMetrics: make([]PodMetrics, pods),
	}
	containers, requests := make([]Container, pods), make([]ResourceRequest, 2*pods)
	metrics, usage := make([]ContainerMetrics, pods), make([]ResourceUsage, 2*pods)
	started := benchmarkNow.Add(-time.Hour)
	for i := range pods {
		name := fmt.Sprintf("web-6d4cf56db6-%05x", i*7919)
		requests[2*i] = ResourceRequest{"cpu", quantity.FromMilli(500)}
		requests[2*i+1] = ResourceRequest{"memory", quantity.FromMilli(512 << 20 * 1000)}
		containers[i] = Container{Name: "app", Requests: requests[2*i : 2*i+2]}
		in.Pods[i] = Pod{
			Name: name, Phase: PhaseRunning, StartTime: started, Ready: ReadyTrue, ReadyTransition: started.Add(20 * time.Second),
			Containers: containers[i : i+1],
		}
		usage[2*i] = ResourceUsage{"cpu", 315}
		usage[2*i+1] = ResourceUsage{"memory", 300 << 20 * 1000}
		metrics[i] = ContainerMetrics{Name: "app", Usage: usage[2*i : 2*i+2]}
		in.PodMetrics[i] = PodMetrics{
			Pod: strings.Clone(name), Timestamp: benchmarkNow.Add(-10 * time.Second), Window: 30 * time.Second,
			Containers: metrics[i : i+1],
		}
	}
	return in
}

// withSidecar gives each pod a second container.
func withSidecar(in *Input) {
	for i := range in.Pods {
		in.Pods[i].Containers = append(in.Pods[i].Containers[:1:1], Container{Name: "proxy", Requests: []ResourceRequest{{"cpu", quantity.FromMilli(100)}, {"memory", quantity.FromMilli(64 << 20 * 1000)}}})
		in.PodMetrics[i].Containers = append(in.PodMetrics[i].Containers[:1:1], ContainerMetrics{Name: "proxy", Usage: []ResourceUsage{{"cpu", 63}, {"memory", 50 << 20 * 1000}}})
	}
}

// benchmarkHistory is what twenty decisions leave behind.
func benchmarkHistory(in *Input) History {
	var history History
	for i := range 20 {
		_, history = Recommend(benchmarkNow.Add(time.Duration(i-20)*15*time.Second), in, &history)
	}
	return history
}
