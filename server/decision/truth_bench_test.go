package decision

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// BenchmarkTruth measures what a decision costs more where it is kept: without the writer, which is in the background.
func BenchmarkTruth(b *testing.B) {
	for _, pods := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			engine := memory.New(memory.Options{})
			truth := NewTruth(TruthOptions{Bytes: DayOfTruth, Age: DefaultTruthAge, Buffer: DefaultTruthBuffer}, engine,
				func(log store.Log) *decisionlog.Log { return decisionlog.New(log, nil, zap.NewNop(), 0) })
			defer truth.Close()
			in := &recommender.Input{Namespace: "shop", Options: recommender.DefaultOptions(), Scale: recommender.Scale{SpecReplicas: int32(pods), StatusReplicas: int32(pods)}}
			utilization := int32(70)
			in.Spec = recommender.Spec{MinReplicas: 1, MaxReplicas: 2000, Metrics: []recommender.MetricSpec{{
				Type: recommender.ResourceMetric, Resource: "cpu", Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &utilization},
			}}}
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for i := range pods {
				name := fmt.Sprintf("web-%d", i)
				in.Pods = append(in.Pods, recommender.Pod{Name: name, Phase: recommender.PhaseRunning, Ready: recommender.ReadyTrue, StartTime: now.Add(-time.Hour), ReadyTransition: now.Add(-time.Hour),
					Containers: []recommender.Container{{Name: "web", Requests: []recommender.ResourceRequest{{Resource: "cpu", Quantity: quantity.FromMilli(500)}}}}})
				in.PodMetrics = append(in.PodMetrics, recommender.PodMetrics{Pod: name, Timestamp: now, Window: 30 * time.Second,
					Containers: []recommender.ContainerMetrics{{Name: "web", Usage: []recommender.ResourceUsage{{Resource: "cpu", Milli: 340 + int64(i%7)}}}}})
			}
			j := &Job{Request: Request{Key: store.Key{Cluster: "c", Namespace: "n", Target: "t"}, Input: in, SpecHash: 1}, targets: &Targets{Truth: truth}, room: new(room)}
			known := record.Record{}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				now = now.Add(15 * time.Second)
				j.Now = now
				in.PodMetrics[0].Containers[0].Usage[0].Milli = 340 + int64(i%100)
				j.sums = j.room.takeSums()
				j.sums.ResetFor(in)
				in.Summed = j.sums
				j.Decision, known.History = recommender.Recommend(now, in, &known.History)
				in.Summed = nil
				b.StartTimer()
				j.asked = asked{keeps: j.keepsTruth()}
				j.noteTruth(&known, false)
				j.keepTruth()
			}
		})
	}
}
