//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/fleet"
)

// simulatedSteps is how many steps one request may have, those of all members and rules together: server/simulations.
const simulatedSteps = 2_200_000

// simulationAttacks simulate the largest fleets that may be: with as many members, in the finest steps, for as long.
func simulationAttacks() []*attack {
	// The service runs one at a time, and gives way to other calls: it may use its processor all the time.
	work := bounds{limit: 60 * time.Second, processor: 60 * time.Second, memory: 256}
	var steps []step
	for _, f := range []simulatedFleet{
		{name: "longest", rules: []string{"surviveOne"}, figures: true, pods: 2, lasts: 80 * time.Minute},
		{name: "rules", rules: []string{"hold", "shift", "surviveOne", "independent"}, figures: true, pods: 2, lasts: 20 * time.Minute},
		{name: "responses", rules: []string{"hold"}, pods: 2, lasts: 80 * time.Minute},
		{name: "work", rules: []string{"surviveOne"}, figures: true, pods: 2, lasts: simulatedSteps / fleet.MaxMembers * time.Second, refused: true},
		{name: "explained", rules: []string{"hold"}, explain: true, pods: 2, lasts: 80 * time.Minute},
		{name: "pods", rules: []string{"surviveOne"}, figures: true, pods: 300, lasts: 80 * time.Minute, refused: true},
	} {
		steps = append(steps, step{name: f.name, short: f.name == "rules", bounds: work, run: f.run})
	}
	return []*attack{{name: "fleet-simulations", steps: steps,
		about: "simulations of fleets of 64 members in steps of 1 s, as long as they may be and longer: with all rules, with 300 pods each, with each step told or explained"}}
}

// simulatedFleet is a simulation of a fleet.
type simulatedFleet struct {
	name             string
	rules            []string
	figures, explain bool
	// pods are the most that each member has.
	pods  int
	lasts time.Duration
	// refused reports whether it is beyond a limit of the service, which ends it; else it runs to its end.
	refused bool
}

// mostOfSimulation is how long one simulation may take where nothing but an honest caller is beside it.
const mostOfSimulation = 30 * time.Second

// run has one caller simulate, and then many at once.
func (f simulatedFleet) run(ctx context.Context, s *scene) error {
	request, err := f.request()
	if err != nil {
		return err
	}
	conn, err := s.dial()
	if err != nil {
		return err
	}
	s.cleanup(func() { _ = conn.Close() })
	client := setpointv1.NewSimulationServiceClient(conn)
	ctx = s.asHonest(ctx)
	simulate := func(ctx context.Context) error {
		s.sent(1, proto.Size(request))
		stream, err := client.Simulate(ctx, request)
		for err == nil {
			_, err = stream.Recv()
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		s.met.Add(f.name + " " + codeOf(err))
		return err
	}
	began, processor := time.Now(), s.processor()
	err = simulate(ctx)
	if code := status.Code(err); f.refused != (code == codes.ResourceExhausted) || !f.refused && err != nil {
		return fmt.Errorf("one simulation: %s, want it refused: %t", code, f.refused)
	}
	took := time.Since(began)
	if err != nil {
		s.met.Add(status.Convert(err).Message())
	}
	s.met.AddAll("ms of one", int(took.Milliseconds()))
	s.met.AddAll("ms of a processor", int((s.processor() - processor).Milliseconds()))
	if took > mostOfSimulation {
		return fmt.Errorf("one simulation took %v, want at most %v", took.Round(time.Second), mostOfSimulation)
	}
	probes := []probe{{"the caller itself", func(int) string { return "/v1/caller" }}, {"a list", func(int) string { return "/v1/clusters/honest/namespaces/-/targets" }}}
	return beside(ctx, s, probes, func(ctx context.Context) {
		var callers sync.WaitGroup
		for range 24 {
			callers.Go(func() {
				for ctx.Err() == nil {
					_ = simulate(ctx)
					pause(ctx, 200*time.Millisecond)
				}
			})
		}
		callers.Wait()
	})
}

// request is the simulation.
func (f simulatedFleet) request() (*setpointv1.SimulateRequest, error) {
	spec := requestFor(hostileTarget).GetSpec()
	spec.MaxReplicas = int32(f.pods * fleet.MaxMembers)
	spec.MinReplicas = proto.Int32(fleet.MaxMembers)
	members := make([]map[string]any, fleet.MaxMembers)
	for i := range members {
		members[i] = map[string]any{"name": fmt.Sprint("cluster-", i), "weight": 1 + i%5, "startup": "1s"}
	}
	scenario, err := json.Marshal(map[string]any{
		"duration": f.lasts.String(),
		"loop":     map[string]any{"syncPeriod": "1s", "resolution": "1s"},
		"load":     []any{map[string]any{"onOff": map[string]any{"low": 1, "high": spec.GetMaxReplicas(), "on": "1s", "off": "1s"}}},
		"workload": map[string]any{"startup": "1s", "usage": []any{map[string]any{"metric": "queue-depth", "perLoad": "10", "window": "1s"}}},
		"fleet":    map[string]any{"staleAfter": "2s", "lostAfter": "3s", "rules": f.rules, "members": members},
		"events":   []any{map[string]any{"at": "10s", "member": "cluster-1", "cluster": "down", "for": "1m"}},
	})
	return &setpointv1.SimulateRequest{Spec: spec, Scenario: string(scenario), FiguresOnly: f.figures, Explain: f.explain}, err
}
