package scenario

import (
	"fmt"

	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/bench/request"
)

var garbageScenario = Scenario{
	Name: "garbage", Title: "Garbage",
	Note: "Objects that the service allocates per recommendation at full load, from the socket and back, by the number of pods; and the garbage collector's share of the service's processor time (from the runtime's gctrace, without its work on idle processors).",
	play: (*stage).garbage,
}

func (s *stage) garbage() ([]report.Figure, error) {
	redis, err := s.redis()
	if err != nil {
		return nil, err
	}
	onRedis, err := s.service(redis)
	if err != nil {
		return nil, err
	}
	inMemory, err := s.service(nil)
	if err != nil {
		return nil, err
	}
	var figures []report.Figure
	further := report.Figure{Name: "unary gRPC, memory, allocations for each pod beyond ten"}
	var few []run
	for _, of := range []struct {
		kind    string
		onRedis bool
		pods    int
		// batch is how many requests a call has; 0: one, in a unary call.
		batch      int
		allocation *report.Goal
	}{
		{"unary gRPC, memory", false, usualPods, 0, report.AtMost(1)},
		{"unary gRPC, memory", false, 100, 0, report.AtMost(1)},
		{"unary gRPC, Redis", true, usualPods, 0, report.AtMost(1)},
		{"batches, Redis", true, usualPods, batchRequests, report.AtMost(1)},
	} {
		service := inMemory
		if of.onRedis {
			service = onRedis
		}
		c, err := s.dial(service.GRPC)
		if err != nil {
			return nil, err
		}
		// Other targets than before, whose instants have passed.
		set, err := request.NewSet((len(figures)+1)*s.Targets, s.Targets*usualPods/of.pods, of.pods, false)
		if err != nil {
			return nil, err
		}
		if err := s.fill(c, set, s.Rounds); err != nil {
			return nil, err
		}
		full := side{name: of.kind, recommendations: 1, service: service, drive: closed(s.Callers, c.Unary(set, s.Callers))}
		if of.batch > 0 {
			full.recommendations = min(of.batch, set.Targets()/batchCallers)
			full.drive = closed(batchCallers, c.Batch(set, batchCallers, full.recommendations))
		}
		runs, err := s.compare([]side{full}, s.Duration)
		if err != nil {
			return nil, err
		}
		switch {
		case few == nil:
			few = runs[0]
		case of.pods > usualPods:
			for i := range runs[0] {
				further.Runs = append(further.Runs, (runs[0][i].mallocs-few[i].mallocs)/float64(of.pods-usualPods))
			}
		}
		figures = append(figures, garbageFigures(fmt.Sprintf("%s, %d pods", of.kind, of.pods), runs[0], of.pods, of.allocation, report.AtMost(10))...)
	}
	return append(figures, further), nil
}
