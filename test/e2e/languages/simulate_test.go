//go:build linux

package languages

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// simulate runs a simulation; of a count only so many responses are read.
func simulate(t *testing.T, c client, request *setpointv1.SimulateRequest, count int) (all []*setpointv1.SimulateResponse, failed *failure) {
	t.Helper()
	result := c.do(t, map[string]any{"op": "simulate", "request": object(t, request), "count": count, "timeout": patience.Seconds()})
	for _, one := range result.Results {
		all = append(all, into(t, one, &setpointv1.SimulateResponse{}))
	}
	return all, result.Error
}

// A simulation streams step by step, with its figures last; leaving the loop cancels it.
func TestSimulations(t *testing.T) {
	instance := service.Start(t)
	each(t, func(t *testing.T, l language) {
		c := open(t, l, config{Target: at(l, instance), Insecure: true, Timeout: 1, Retry: fast})
		request := &setpointv1.SimulateRequest{
			Scenario: "duration: 10m\nload: [{step: {from: 10, to: 40, at: 5m}}]\nworkload: {usage: [{metric: queue-depth, perLoad: \"1\", follows: offered}]}\n",
			Spec:     queue(target(t, "web"), 1, 1).GetSpec(),
		}
		steps, failed := simulate(t, c, request, 0)
		if failed != nil {
			t.Fatal(failed)
		}
		last := len(steps) - 1
		if last != 40 || steps[last].GetFigures() == nil || steps[last-1].GetDesiredReplicas() != 4 || steps[0].GetLoad() != 10 {
			t.Errorf("%d responses, the last ones %v", len(steps), steps[max(0, last-1):])
		}
		// An abandoned stream takes no slot of a running one.
		for range 3 {
			if first, failed := simulate(t, c, request, 1); failed != nil || len(first) != 1 {
				t.Errorf("%d responses, %v", len(first), failed)
			}
		}
		request.Scenario = "duration: ten minutes"
		if _, failed := simulate(t, c, request, 0); failed == nil || failed.Code != "INVALID_ARGUMENT" || !slices.Contains(failed.Violations, "scenario") {
			t.Errorf("a wrong scenario: %v", failed)
		}
	})
}

// breaking is a service with breaking streams: the first ones before any response, the next one
// after the second.
type breaking struct {
	setpointv1.UnimplementedSimulationServiceServer

	before int64
	asked  atomic.Int64
}

func (b *breaking) Simulate(_ *setpointv1.SimulateRequest, stream grpc.ServerStreamingServer[setpointv1.SimulateResponse]) error {
	if b.asked.Add(1) > b.before {
		for i := range int32(2) {
			if err := stream.Send(&setpointv1.SimulateResponse{DesiredReplicas: 1 + i}); err != nil {
				return err
			}
		}
	}
	return problem(codes.Unavailable)
}

// silent is a service whose simulations never begin.
type silent struct {
	setpointv1.UnimplementedSimulationServiceServer
}

func (silent) Simulate(_ *setpointv1.SimulateRequest, stream grpc.ServerStreamingServer[setpointv1.SimulateResponse]) error {
	<-stream.Context().Done()
	return stream.Context().Err()
}

// A simulation ends with its time, and says so.
func TestSimulationsEndWithTheirTime(t *testing.T) {
	each(t, func(t *testing.T, l language) {
		address := serve(t, l, func(server *grpc.Server) { setpointv1.RegisterSimulationServiceServer(server, silent{}) }, setpointv1.RegisterSimulationServiceHandler)
		c := open(t, l, config{Target: address, Insecure: true})
		for i := range 20 {
			wantCode(t, c.do(t, map[string]any{"op": "simulate", "request": object(t, &setpointv1.SimulateRequest{}), "timeout": .05 + .0001*float64(i)}).Error, "DEADLINE_EXCEEDED")
		}
	})
}

// Responses don't repeat: only a stream without any response is followed by another.
func TestSimulationsThatBreak(t *testing.T) {
	each(t, func(t *testing.T, l language) {
		b := &breaking{before: 2}
		address := serve(t, l, func(server *grpc.Server) { setpointv1.RegisterSimulationServiceServer(server, b) }, setpointv1.RegisterSimulationServiceHandler)
		c := open(t, l, config{Target: address, Insecure: true, Retry: fast})
		_, failed := simulate(t, c, &setpointv1.SimulateRequest{}, 0)
		if failed == nil || failed.Code != "UNAVAILABLE" || !strings.Contains(failed.Message, "as the test wants it") || b.asked.Load() != 3 {
			t.Errorf("after %d streams: %v, want the third one's error", b.asked.Load(), failed)
		}
		b.before = 100
		b.asked.Store(0)
		if _, failed = simulate(t, c, &setpointv1.SimulateRequest{}, 0); failed == nil || b.asked.Load() != 4 {
			t.Errorf("after %d streams without a response: %v, want 4", b.asked.Load(), failed)
		}
	})
}
