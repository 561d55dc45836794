package scenario

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/bench/client"
	"github.com/setpoint-dev/setpoint/bench/report"
)

// Requests per batch, and batches in flight: the service reads one while it decides
// another and responds to a third.
const batchRequests, batchCallers = 500, 3

var batchRedis = Scenario{
	Name: "batch-redis", Title: "Batches, Redis",
	Note: "Batches of 500 requests with ten pods each, three batches in flight, histories in Redis; beside a bare handler that sends one pipeline of EVALSHA per batch, and beside such pipelines alone. 67,000/s are a million targets every 15 s.",
	play: (*stage).batches,
}

// longSlice is for long calls: the calls in flight at the end of a slice do not fill the
// processors.
func (s *stage) longSlice() time.Duration { return min(s.Duration, 2*s.Slice) }

func (s *stage) batches() ([]report.Figure, error) {
	p, err := s.newPair(true, false)
	if err != nil {
		return nil, err
	}
	requests := min(batchRequests, s.Targets/batchCallers)
	service := side{
		name: "service", recommendations: requests, parts: p.parts("service", p.service.Process), service: p.service,
		drive: closed(batchCallers, p.client.Batch(p.set, batchCallers, requests)),
	}
	plain := side{
		name: "bare handler", recommendations: requests, parts: p.parts("handler", p.bare.Process),
		drive: closed(batchCallers, p.plain.Batch(p.set.Anew(), batchCallers, requests)),
	}
	pipelines := s.pipelines(p, requests)
	runs, err := s.compare([]side{service, plain, pipelines}, s.longSlice())
	if err != nil {
		return nil, err
	}
	figures := []report.Figure{
		rates("service", runs[0], report.AtLeast(67_000)), rates("bare handler", runs[1], nil), rates("pipelines alone", runs[2], nil),
		ratio("rate, of the bare handler's", runs[0], runs[1], nil), ratio("rate, of pipelines alone", runs[0], runs[2], nil),
	}
	figures = append(figures, costs("service", runs[0])...)
	figures = append(figures, garbageFigures("service", runs[0])...)
	figures = append(figures, latencies("a batch, all callers busy", runs[0], nil, nil, nil)...)
	return figures, s.profile(service)
}

// pipelines are written directly to Redis.
func (s *stage) pipelines(p *pair, requests int) side {
	c := redis.NewClient(&redis.Options{Addr: p.redis.Address})
	s.onEnd(func() { _ = c.Close() })
	return side{
		name: "pipelines alone", recommendations: requests, parts: map[string]int{"Redis": p.redis.PID()},
		drive: closed(batchCallers, client.Pipeline(c, s.Targets, requests, p.valueBytes)),
	}
}
