package simulation_test

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/simulationtest"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// trace returns a load through points of seconds and values.
func trace(t testing.TB, points ...float64) *simulation.Trace {
	t.Helper()
	var list []simulation.Point
	for i := 0; i < len(points); i += 2 {
		list = append(list, simulation.Point{At: time.Duration(points[i] * float64(time.Second)), Value: points[i+1]})
	}
	load, err := simulation.NewTrace(list)
	fatal.If(t, err)
	return load
}

// web is a workload whose pods request 500m of cpu and use 10m for each unit a second.
func web(replicas int32) simulation.Workload {
	return simulation.Workload{
		Replicas:   &replicas,
		Containers: []simulation.Container{{Name: "app", Requests: []recommender.ResourceUsage{{Resource: "cpu", Milli: 500}}}},
		Usage:      []simulation.Usage{{Metric: "cpu", PerLoad: 10}},
	}
}

// onCPU at 60 % is 30 units a second a pod of web.
var onCPU = simulationtest.OnCPU

// onTotal is an autoscaler for a total of the metric "load", so much a replica.
func onTotal(least, most int32, each int64) *simulation.Autoscaler {
	a := onCPU(least, most, 1)
	a.Spec.Metrics = []recommender.MetricSpec{{
		Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "load"},
		Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: new(each * 1000)},
	}}
	return a
}

// offered measures the load itself, without delay.
func offered(window time.Duration) simulation.Usage {
	return simulation.Usage{Metric: "load", PerLoad: 1000, Follows: simulation.Offered, Window: window}
}

// counts are the counts asked for at each evaluation, after it.
func counts(t *testing.T, s *simulation.Scenario, a *simulation.Autoscaler) []int32 {
	t.Helper()
	var out []int32
	_, err := simulation.Run(s, a, func(step *simulation.Step) error {
		out = append(out, step.Decision.Desired)
		return nil
	})
	fatal.If(t, err)
	return out
}

func run(t testing.TB, s *simulation.Scenario, a *simulation.Autoscaler) *simulation.Result {
	t.Helper()
	result, err := simulation.Run(s, a, nil)
	fatal.If(t, err)
	return result
}
