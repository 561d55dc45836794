package scenario

import (
	"github.com/setpoint-dev/setpoint/bench/client"
	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/bench/request"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

var fleets = Scenario{
	Name: "fleets", Title: "Fleets, Redis",
	Note: "Calls of the members of fleets beside ordinary ones, ten pods each, of one service with one Redis; a fleet has eight members, and one of eight calls decides for it. And 1,024 such fleets, whose members call every 15 s.",
	play: (*stage).fleets,
}

const (
	// fleetMembers is how many members fleets have, and openFleets how many there are whose members call every 15 s:
	// each place of the open loop calls for one.
	fleetMembers, openFleets = 8, openInFlight
	// period is how often members call, in seconds.
	period = 15
)

func (s *stage) fleets() ([]report.Figure, error) {
	redis, err := s.redis()
	if err != nil {
		return nil, err
	}
	service, err := s.service(redis)
	if err != nil {
		return nil, err
	}
	c, err := s.dial(service.GRPC)
	if err != nil {
		return nil, err
	}
	ordinary, err := request.NewSet(0, s.Targets, usualPods, false)
	if err != nil {
		return nil, err
	}
	if _, err := s.warm(c, ordinary); err != nil {
		return nil, err
	}
	members, err := s.newFleets(c, s.Callers*max(1, s.Targets/fleetMembers/s.Callers), s.Callers)
	if err != nil {
		return nil, err
	}
	parts := map[string]int{"service": service.PID(), "Redis": redis.PID()}
	sides := []side{
		{name: "fleets", recommendations: 1, parts: parts, service: service, drive: closed(s.Callers, c.Unary(members.Set, s.Callers))},
		{name: "ordinary", recommendations: 1, parts: parts, service: service, drive: closed(s.Callers, c.Unary(ordinary, s.Callers))},
	}
	runs, err := s.compare(sides, s.Slice)
	if err != nil {
		return nil, err
	}
	if err := s.profile(sides[0]); err != nil {
		return nil, err
	}
	figures := []report.Figure{ratio("rate, of ordinary calls'", runs[0], runs[1], nil), rates("fleets", runs[0], nil), rates("ordinary", runs[1], nil)}
	both := func(r *run) float64 { return r.micros["service"] + r.micros["Redis"] }
	times := report.Figure{Name: "processor time of service and Redis, of an ordinary call's", Unit: "×", Goal: report.AtMost(1.3)}
	for i := range runs[0] {
		times.Runs = append(times.Runs, both(&runs[0][i])/both(&runs[1][i]))
	}
	figures = append(figures, times)
	figures = append(figures, costs("fleets", runs[0])...)
	figures = append(figures, costs("ordinary", runs[1])...)

	many, err := s.newFleets(c, openFleets, warmCallers+1)
	if err != nil {
		return nil, err
	}
	steady := side{name: "1,024 fleets", recommendations: 1, parts: parts, service: service, drive: due(float64(openFleets*fleetMembers)/period, c.Unary(many.Set, openInFlight))}
	open, err := s.compare([]side{steady}, s.Duration)
	if err != nil {
		return nil, err
	}
	for _, part := range []string{"service", "Redis"} {
		figures = append(figures, figure("1,024 fleets every 15 s, of a processor: "+part, "%", open[0], nil, func(r *run) float64 { return r.micros[part] * r.rate / 1e4 }))
	}
	return append(figures, latencies("1,024 fleets every 15 s", open[0], nil, nil, nil)...), nil
}

// newFleets stores fleets, and has all members call twice, as many at a time as there are callers, whose number
// divides that of the fleets.
func (s *stage) newFleets(c *client.Client, n, callers int) (*request.Fleets, error) {
	all, err := request.NewFleets(n, fleetMembers, usualPods)
	if err != nil {
		return nil, err
	}
	for _, spec := range all.Specs() {
		if err := c.Ask(s.ctx, setpointv1.TargetService_SetTargetSpec_FullMethodName, spec, &setpointv1.SetTargetSpecResponse{}); err != nil {
			return nil, err
		}
	}
	call := c.Unary(all.Set, callers)
	r := load.Callers(callers, func(caller int, r *load.Result) {
		for range 2 * n / callers * fleetMembers {
			r.Record(0, call(s.ctx, caller))
		}
	})
	if float64(r.Failed) > max(someFailures, allowedFailures*float64(r.Done)) {
		return nil, r.Err
	}
	return all, s.ctx.Err()
}
