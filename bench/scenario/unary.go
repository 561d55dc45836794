package scenario

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/bench/bare"
	"github.com/setpoint-dev/setpoint/bench/client"
	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/process"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/bench/request"
	kit "github.com/setpoint-dev/setpoint/internal/process"
)

var unaryMemory = Scenario{
	Name: "unary-memory", Title: "Unary gRPC, memory",
	Note: "Single recommendations over gRPC, ten pods each, histories in the service's memory, beside a bare handler that decodes the same request and returns the same response.",
	play: func(s *stage) ([]report.Figure, error) { return s.unary(false, 90) },
}

var unaryRedis = Scenario{
	Name: "unary-redis", Title: "Unary gRPC, Redis",
	Note: "The same with histories in Redis, beside a bare handler with one EVALSHA that writes as many bytes.",
	play: func(s *stage) ([]report.Figure, error) { return s.unary(true, 85) },
}

// pair is a service with histories and the bare handlers as its baseline.
type pair struct {
	set     *request.Set
	redis   *process.Redis // nil: histories in memory
	service *process.Service
	client  *client.Client
	bare    *process.Bare
	plain   *client.Client // of bare
	// valueBytes is the size of a record in Redis.
	valueBytes int
}

// newPair starts them, with histories as long as in production.
func (s *stage) newPair(onRedis, bodies bool) (*pair, error) {
	p := &pair{}
	var err error
	if p.set, err = request.NewSet(0, s.Targets, usualPods, bodies); err != nil {
		return nil, err
	}
	config := bare.Config{}
	if onRedis {
		if p.redis, err = s.redis(); err != nil {
			return nil, err
		}
		config.Redis = p.redis.Address
	}
	if p.service, err = s.service(p.redis); err != nil {
		return nil, err
	}
	if p.client, err = s.dial(p.service.GRPC); err != nil {
		return nil, err
	}
	if config.Answer, err = s.warm(p.client, p.set); err != nil {
		return nil, err
	}
	if onRedis {
		if p.valueBytes, err = recordBytes(s.ctx, p.redis); err != nil {
			return nil, err
		}
		config.ValueBytes = p.valueBytes
	}
	if p.bare, err = s.bare(config); err != nil {
		return nil, err
	}
	p.plain, err = s.dial(p.bare.GRPC)
	return p, err
}

// parts are the parts of the side served by the process.
func (p *pair) parts(name string, served *kit.Process) map[string]int {
	parts := map[string]int{name: served.PID()}
	if p.redis != nil {
		parts["Redis"] = p.redis.PID()
	}
	return parts
}

// closed makes the call in a closed loop.
func closed(callers int, call load.Call) func(context.Context, time.Duration) *load.Result {
	return func(ctx context.Context, d time.Duration) *load.Result { return load.Closed(ctx, callers, d, call) }
}

func (s *stage) unary(onRedis bool, percent float64) ([]report.Figure, error) {
	p, err := s.newPair(onRedis, false)
	if err != nil {
		return nil, err
	}
	service := side{
		name: "service", recommendations: 1, parts: p.parts("service", p.service.Process), service: p.service,
		drive: closed(s.Callers, p.client.Unary(p.set, s.Callers)),
	}
	plain := side{
		name: "bare handler", recommendations: 1, parts: p.parts("handler", p.bare.Process),
		drive: closed(s.Callers, p.plain.Unary(p.set.Anew(), s.Callers)),
	}
	runs, err := s.compare([]side{service, plain}, s.Slice)
	if err != nil {
		return nil, err
	}
	figures := []report.Figure{
		ratio("rate, of the bare handler's", runs[0], runs[1], report.AtLeast(percent)),
		rates("service", runs[0], nil), rates("bare handler", runs[1], nil),
	}
	figures = append(figures, costs("service", runs[0])...)
	figures = append(figures, costs("bare handler", runs[1])...)
	figures = append(figures, garbageFigures("service", runs[0])...)
	figures = append(figures, latencies("service, all callers busy", runs[0], nil, nil, nil)...)
	return figures, s.profile(service)
}
