//go:build unix

package simulation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/simulation"
)

// BenchmarkRun runs a workload of some 50 pods at 15 s steps, with a daily load and noise.
// «short» never has enough capacity, so that a queue is followed second by second.
// cpu-s/op is user time, which other programs on the machine disturb less.
func BenchmarkRun(b *testing.B) {
	for _, bench := range []struct {
		name        string
		duration    time.Duration
		capacity    float64
		least, most int32
	}{
		{"day", 24 * time.Hour, 0, 10, 100},
		{"week", 7 * 24 * time.Hour, 0, 10, 100},
		{"week-short", 7 * 24 * time.Hour, 20, 50, 50},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := &simulation.Scenario{Start: start, Duration: bench.duration, Seed: 1, Workload: web(50)}
			s.Workload.Startup = simulation.Startup{Kind: simulation.LogNormalStartup, From: 20 * time.Second, To: time.Minute}
			s.Workload.Capacity, s.Workload.Queue.Size = bench.capacity, 1e9
			load, err := simulation.Daily(1200, 1800, 14*time.Hour, 0.8, simulation.Span{Start: start, Duration: bench.duration})
			if err == nil {
				load, err = load.Noise(1, 0.05, time.Minute, bench.duration)
			}
			fatal.If(b, err)
			s.Load = load
			a := onCPU(bench.least, bench.most, 60)
			b.ReportAllocs()
			var result *simulation.Result
			before := process.Own()
			for b.Loop() {
				result = run(b, s, a)
			}
			b.ReportMetric((process.Own()-before).Seconds()/float64(b.N), "cpu-s/op")
			if result.Figures.ReplicaHours < 45*bench.duration.Hours() {
				b.Fatal(fmt.Sprint(result.Figures))
			}
			b.ReportMetric(result.Figures.ReplicaHours/bench.duration.Hours(), "pods")
		})
	}
}
