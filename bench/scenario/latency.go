package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/report"
)

var latency = Scenario{
	Name: "latency", Title: "Latency at half the rate",
	Note: "Calls are due at even intervals, at half of the sustainable rate measured just before, whether or not earlier calls were answered. Each is timed from when it was due, so the generator's own lateness counts. A run takes eight times as long as others, in turns of two seconds: at this rate the service collects garbage each few seconds. The bare handlers get the same rate.",
	play: (*stage).latency,
}

// latencyDurations is how many times longer than other runs those are whose largest times count.
const latencyDurations = 8

// openInFlight limits the unanswered calls of an open loop.
const openInFlight = 1024

func (s *stage) latency() (figures []report.Figure, err error) {
	for _, of := range []struct {
		name           string
		onRedis        bool
		p50, p99, p999 *report.Goal
	}{
		{"Redis", true, report.AtMost(1), report.AtMost(5), report.AtMost(20)},
		{"memory", false, report.AtMost(1), report.AtMost(5), report.AtMost(20)},
	} {
		p, err := s.newPair(of.onRedis, false)
		if err != nil {
			return nil, err
		}
		service := side{
			name: "service", recommendations: 1, parts: p.parts("service", p.service.Process), service: p.service,
			drive: closed(s.Callers, p.client.Unary(p.set, s.Callers)),
		}
		fastest, err := s.compare([]side{service}, s.Duration)
		if err != nil {
			return nil, err
		}
		sustainable := rates("unary gRPC, "+of.name+", sustainable rate", fastest[0], nil)
		rate := sustainable.Median() / 2
		plain := side{name: "bare handler", recommendations: 1, parts: p.parts("handler", p.bare.Process)}
		service.drive = due(rate, p.client.Unary(p.set, openInFlight))
		plain.drive = due(rate, p.plain.Unary(p.set.Anew(), openInFlight))
		// A slice starts with the part that was idle during the other side's, which would
		// dominate the largest times of short slices. At half its rate the service collects
		// garbage each few seconds: a short run would tell only whether it did so.
		long := *s
		long.Duration *= latencyDurations
		runs, err := long.compare([]side{service, plain}, s.Duration)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("unary gRPC, %s", of.name)
		figures = append(figures, latencies(name, runs[0], of.p50, of.p99, of.p999)...)
		figures = append(figures, sustainable)
		figures = append(figures, rates(name+", rate kept", runs[0], nil))
		figures = append(figures, latencies(name+", bare handler", runs[1], nil, nil, nil)...)
		figures = append(figures, figure(name+", sent late, p99", "ms", runs[0], nil, func(r *run) float64 { return millis(r.Late(.99)) }))
	}
	return figures, nil
}

// due makes the call in an open loop.
func due(rate float64, call load.Call) func(context.Context, time.Duration) *load.Result {
	return func(ctx context.Context, d time.Duration) *load.Result {
		return load.Open(ctx, load.Plan{Rate: rate, Duration: d, InFlight: openInFlight}, call)
	}
}
