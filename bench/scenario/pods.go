package scenario

import (
	"fmt"

	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/bench/request"
)

var pods = Scenario{
	Name: "pods", Title: "Pods in a request",
	Note: "One caller sends one gRPC call after the other, histories in memory; each call is timed from its start to its answer. The exponent is b in time = a·pods^b, fitted over all sizes (below 1, because a call without pods takes time, too) and over the largest three.",
	play: (*stage).pods,
}

// podCounts are the sizes of requests, and manyPods the size with a goal.
var podCounts = []int{10, 30, 100, 300, 1000, 3000, manyPods}

const manyPods = 10_000

func podsName(n int) string { return fmt.Sprintf("%d pods", n) }

func (s *stage) pods() ([]report.Figure, error) {
	service, err := s.service(nil)
	if err != nil {
		return nil, err
	}
	c, err := s.dial(service.GRPC)
	if err != nil {
		return nil, err
	}
	sides := make([]side, len(podCounts))
	for i, n := range podCounts {
		set, err := request.NewSet(i*1000, max(1, min(100, 100_000/n)), n, false)
		if err != nil {
			return nil, err
		}
		sides[i] = side{name: podsName(n), recommendations: 1, service: service, drive: closed(1, c.Unary(set, 1))}
		load.Closed(s.ctx, 1, s.Slice, c.Unary(set, 1)) // opens connections and allocates memory
	}
	runs, err := s.compare(sides, s.Slice)
	if err != nil {
		return nil, err
	}
	var figures []report.Figure
	all := report.Figure{Name: "fitted exponent, all sizes"}
	large := report.Figure{Name: "fitted exponent, the largest three", Goal: report.AtMost(1.1)}
	for n := range s.Runs {
		var x, y []float64
		for i := range podCounts {
			x, y = append(x, float64(podCounts[i])), append(y, millis(runs[i][n].Quantile(.5)))
		}
		all.Runs = append(all.Runs, report.Exponent(x, y))
		large.Runs = append(large.Runs, report.Exponent(x[len(x)-3:], y[len(y)-3:]))
	}
	for i, n := range podCounts {
		var goal *report.Goal
		if n == manyPods {
			goal = report.AtMost(10)
		}
		figures = append(figures, figure(sides[i].name+", p50", "ms", runs[i], goal, func(r *run) float64 { return millis(r.Quantile(.5)) }))
	}
	many := runs[len(runs)-1]
	figures = append(figures, figure(podsName(manyPods)+", p99", "ms", many, nil, func(r *run) float64 { return millis(r.Quantile(.99)) }))
	return append(figures, all, large), s.profile(sides[len(sides)-1])
}
