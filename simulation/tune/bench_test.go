//go:build unix

package tune_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/simulationtest"
	"github.com/setpoint-dev/setpoint/simulation/tune"
)

// BenchmarkWeek is a search of 500 candidates over a week of some 50 pods at 15 s steps, a daily
// load with noise. cpu-s/op is processor time, which other programs on the machine disturb less
// than the time on the clock; on two idle processors a search takes half of it.
//
//	go test -run='^$' -bench=Week -benchtime=1x ./simulation/tune
func BenchmarkWeek(b *testing.B) {
	const week = 7 * 24 * time.Hour
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	load, err := simulation.Daily(300, 450, 14*time.Hour, 0.8, simulation.Span{Start: start, Duration: week})
	if err == nil {
		load, err = load.Noise(1, 0.05, time.Minute, week)
	}
	fatal.If(b, err)
	s := &simulation.Scenario{Start: start, Duration: week, Seed: 1, Load: load, Workload: workload()}
	s.Workload.Startup = simulation.Startup{Kind: simulation.LogNormalStartup, From: 20 * time.Second, To: time.Minute}
	replicas := int32(45)
	s.Workload.Replicas = &replicas
	reversals := 20.0
	goal := tune.Goal{MaxShort: 0.005, MaxReversals: &reversals}
	b.ReportAllocs()
	before := process.Own()
	var result *tune.Result
	for b.Loop() {
		result, err = tune.Run(b.Context(), s, simulationtest.OnCPU(10, 150, 70), goal, tune.Options{Seed: 1})
		fatal.If(b, err)
	}
	b.ReportMetric((process.Own()-before).Seconds()/float64(b.N), "cpu-s/op")
	if result.Tried != tune.DefaultCandidates || result.Best == nil {
		b.Fatalf("%d tried, best %+v", result.Tried, result.Best)
	}
	b.ReportMetric(result.Given.Searched.Cost, "pods")
	b.ReportMetric(result.Best.Searched.Cost, "pods-tuned")
}
