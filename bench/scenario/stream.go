package scenario

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/bench/client"
	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/bench/request"
)

// Streams, and requests in flight on each.
const streams, streamInFlight = 64, 16

var streamRedis = Scenario{
	Name: "stream-redis", Title: "Streams, Redis",
	Note: "64 streams with 16 requests in flight each, ten pods per request, histories in Redis, beside a bare handler with one EVALSHA per request.",
	play: (*stage).streams,
}

func conversing(c *client.Client, set *request.Set) func(context.Context, time.Duration) *load.Result {
	open := c.Converse(set, streams, streamInFlight)
	return func(ctx context.Context, d time.Duration) *load.Result {
		return load.Streams(ctx, streams, streamInFlight, d, open)
	}
}

func (s *stage) streams() ([]report.Figure, error) {
	p, err := s.newPair(true, false)
	if err != nil {
		return nil, err
	}
	service := side{
		name: "service", recommendations: 1, parts: p.parts("service", p.service.Process), service: p.service,
		drive: conversing(p.client, p.set),
	}
	plain := side{
		name: "bare handler", recommendations: 1, parts: p.parts("handler", p.bare.Process),
		drive: conversing(p.plain, p.set.Anew()),
	}
	runs, err := s.compare([]side{service, plain}, s.Slice)
	if err != nil {
		return nil, err
	}
	figures := []report.Figure{
		rates("service", runs[0], report.AtLeast(30_000)), rates("bare handler", runs[1], nil),
		ratio("rate, of the bare handler's", runs[0], runs[1], nil),
	}
	figures = append(figures, costs("service", runs[0])...)
	figures = append(figures, garbageFigures("service", runs[0])...)
	figures = append(figures, latencies("service, all streams busy", runs[0], nil, nil, nil)...)
	return figures, s.profile(service)
}
