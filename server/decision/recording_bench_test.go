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
	"github.com/setpoint-dev/setpoint/server/recordings"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// BenchmarkRecording measures what a decision costs more where it is kept: without the writer, which is in the background.
func BenchmarkRecording(b *testing.B) {
	for _, pods := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			engine := memory.New(memory.Options{})
			kept := recordings.New(recordings.Options{Bytes: recordings.DayBytes, Age: recordings.DefaultAge, Buffer: recordings.DefaultBuffer}, engine,
				func(log store.Log) *decisionlog.Log { return decisionlog.New(log, nil, zap.NewNop(), 0) })
			defer kept.Close()
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
			j := &Job{Request: Request{Key: store.Key{Cluster: "c", Namespace: "n", Target: "t"}, Input: in, SpecHash: 1}, targets: &Targets{Recordings: kept}, room: new(room)}
			known := record.Record{}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				now = now.Add(15 * time.Second)
				j.Now = now
				in.PodMetrics[0].Containers[0].Usage[0].Milli = 340 + int64(i%100)
				kept.Begin(&j.asked, &j.Key, in, false)
				in.Summed = j.asked.SumsOf(in, &j.room.recordings)
				j.Decision, known.History = recommender.Recommend(now, in, &known.History)
				in.Summed = nil
				b.StartTimer()
				kept.Begin(&j.asked, &j.Key, in, false) // which keeps the sums
				call := j.toRecord()
				kept.Note(&j.asked, &call, &known, false)
				call = j.toRecord()
				kept.Keep(&j.asked, &call, &j.room.recordings)
			}
		})
	}
}
