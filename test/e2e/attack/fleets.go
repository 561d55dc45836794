//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// fleetAttacks are of members on their fleet. What one that lies may get, and what fleets take of a cluster's share, tests of package fleet and
// server/fleets hold.
func fleetAttacks() []*attack {
	work := bounds{processor: 60 * time.Second, limit: 60 * time.Second}
	return []*attack{
		{name: "fleets", about: "fleets of 64 members, most of them dead; a member that calls as fast as it can; 64 metrics of long names; a thousand fleets; long specs", redis: true, steps: []step{
			{name: "dead-members", short: true, bounds: work, run: deadMembers},
			{name: "flood", short: true, bounds: work, run: floodOfDigests},
			{name: "long-metrics", short: true, bounds: bounds{processor: 60 * time.Second, limit: 60 * time.Second}, run: longMetrics},
			{name: "thousand", short: true, bounds: work, run: thousandFleets},
			{name: "long-specs", bounds: bounds{processor: 60 * time.Second, limit: 60 * time.Second, keeps: 128}, run: longSpecs},
		}},
	}
}

// fleetOf is a fleet of as many members, clusters/{cluster}-{i}, with the spec of requestFor.
func fleetOf(cluster string, members int) (*setpointv1.TargetSpec, []string) {
	spec := &setpointv1.TargetSpec{
		Spec: requestFor("").GetSpec(), Period: durationpb.New(15 * time.Second),
		Fleet: &setpointv1.FleetSpec{Scopes: map[string]string{"External:queue-depth": "PER_MEMBER"}},
	}
	spec.Spec.MinReplicas = proto.Int32(int32(members))
	spec.Spec.MaxReplicas = int32(20 * members)
	names := make([]string, members)
	for i := range names {
		names[i] = fmt.Sprintf("clusters/%s-%d/namespaces/shop/targets/web", cluster, i)
		spec.Fleet.Members = append(spec.Fleet.Members, &setpointv1.FleetMember{Target: names[i]})
	}
	return spec, names
}

func nameOfFleet(name string) string { return "clusters/fleets/namespaces/shop/targets/" + name }

// fleetClients are the clients of a step's connection.
type fleetClients struct {
	*scene
	recommendations setpointv1.RecommendationServiceClient
	targets         setpointv1.TargetServiceClient
	fleets          setpointv1.FleetServiceClient
}

func (s *scene) fleetClients() (*fleetClients, error) {
	conn, err := s.dial()
	if err != nil {
		return nil, err
	}
	s.cleanup(func() { _ = conn.Close() })
	return &fleetClients{s, setpointv1.NewRecommendationServiceClient(conn), setpointv1.NewTargetServiceClient(conn), setpointv1.NewFleetServiceClient(conn)}, nil
}

func (c *fleetClients) set(ctx context.Context, name string, spec *setpointv1.TargetSpec) error {
	_, err := c.targets.SetTargetSpec(ctx, &setpointv1.SetTargetSpecRequest{Name: name, TargetSpec: spec})
	c.sent(1, proto.Size(spec))
	return err
}

// call is a call of a member; its error is counted only.
func (c *fleetClients) call(ctx context.Context, fleet, member string, change func(*setpointv1.RecommendRequest)) (*setpointv1.RecommendResponse, error) {
	r := requestFor(member)
	r.Fleet = fleet
	if change != nil {
		change(r)
	}
	answer, err := c.recommendations.Recommend(ctx, r)
	c.sent(1, proto.Size(r))
	c.met.Add(codeOf(err))
	return answer, err
}

// mostOfFleet is how much processor time a call of a fleet of 64 members may take, with a decision or without.
const mostOfFleet = 5 * time.Millisecond

// deadMembers has 4 of 64 members call; the others called once, or never.
func deadMembers(ctx context.Context, s *scene) error {
	c, err := s.fleetClients()
	if err != nil {
		return err
	}
	ctx = s.asHonest(ctx)
	spec, members := fleetOf("dead", 64)
	spec.Period, spec.Fleet.StaleAfter, spec.Fleet.LostAfter = durationpb.New(time.Second), durationpb.New(time.Second), durationpb.New(2*time.Second)
	name := nameOfFleet("dead")
	if err := c.set(ctx, name, spec); err != nil {
		return err
	}
	for _, member := range members[:40] {
		if _, err := c.call(ctx, name, member, nil); err != nil {
			return err
		}
	}
	began, processor, n := time.Now(), s.processor(), 0
	for ; time.Since(began) < 5*time.Second; n++ {
		answer, err := c.call(ctx, name, members[n%4], nil)
		if err != nil {
			return err
		}
		if f := answer.GetFleet(); f.GetShareTotal() > spec.GetSpec().GetMaxReplicas() || answer.GetDesiredReplicas() > 100 {
			return fmt.Errorf("a share is beyond the fleet's bounds: %v", answer)
		}
	}
	each := (s.processor() - processor) / time.Duration(n)
	s.met.AddAll("µs a call", int(each.Microseconds()))
	state, err := c.fleets.GetFleet(ctx, &setpointv1.GetFleetRequest{Name: name})
	switch {
	case err != nil:
		return err
	case state.GetFleet().GetMemberCounts().GetLost() != 36 || state.GetFleet().GetMemberCounts().GetUnseen() != 24:
		return fmt.Errorf("of 64 members 36 are lost and 24 were never seen, not %v", state.GetFleet().GetMemberCounts())
	case each > mostOfFleet:
		return fmt.Errorf("a call took %v of a processor, want at most %v", each, mostOfFleet)
	}
	return nil
}

// floodOfDigests has one member call as fast as it can, with another reading each time: the fleet decides once a
// period all the same, and the other member is answered.
func floodOfDigests(ctx context.Context, s *scene) error {
	c, err := s.fleetClients()
	if err != nil {
		return err
	}
	ctx = s.asHonest(ctx)
	spec, members := fleetOf("flood", 2)
	const period = 2 * time.Second
	spec.Period = durationpb.New(period)
	name := nameOfFleet("flood")
	if err := c.set(ctx, name, spec); err != nil {
		return err
	}
	if _, err := c.call(ctx, name, members[1], nil); err != nil {
		return err
	}
	began := time.Now()
	var mu sync.Mutex
	decisions := map[time.Time]bool{} // guarded by mu
	var callers sync.WaitGroup
	for k := range 8 {
		callers.Go(func() {
			for n := k; time.Since(began) < 8*time.Second && ctx.Err() == nil; n++ {
				answer, err := c.call(ctx, name, members[0], func(r *setpointv1.RecommendRequest) { r.ExternalMetrics[0].Value = fmt.Sprint(n % 1000) })
				if err == nil && answer.GetFleet().GetDecisionTime() != nil {
					mu.Lock()
					decisions[answer.GetFleet().GetDecisionTime().AsTime()] = true
					mu.Unlock()
				}
			}
		})
	}
	var worst time.Duration
	var problem error
	for time.Since(began) < 8*time.Second && ctx.Err() == nil {
		at := time.Now()
		if _, err := c.call(ctx, name, members[1], nil); err != nil && status.Code(err) != codes.ResourceExhausted {
			problem = fmt.Errorf("the other member: %w", err)
		}
		worst = max(worst, time.Since(at))
		pause(ctx, 200*time.Millisecond)
	}
	callers.Wait()
	most := int(time.Since(began)/period) + 2
	s.met.AddAll("decisions", len(decisions))
	s.met.AddAll("other's worst ms", int(worst.Milliseconds()))
	if len(decisions) > most {
		problem = errors.Join(problem, fmt.Errorf("the fleet has decided %d times in %v, want at most %d", len(decisions), time.Since(began), most))
	}
	if worst > 3*time.Second {
		problem = errors.Join(problem, fmt.Errorf("the other member waited for %v", worst))
	}
	return problem
}

// longMetrics has 64 members of 64 metrics with the longest names, and errors of them.
func longMetrics(ctx context.Context, s *scene) error {
	c, err := s.fleetClients()
	if err != nil {
		return err
	}
	ctx = s.asHonest(ctx)
	spec, members := fleetOf("long", 64)
	spec.Spec.Metrics, spec.Fleet.Scopes = nil, map[string]string{}
	long := strings.Repeat("n", 250)
	var names []string
	for i := range 64 {
		names = append(names, fmt.Sprint(long, i))
		spec.Spec.Metrics = append(spec.Spec.Metrics, external(names[i]))
		spec.Fleet.Scopes["External:"+names[i]] = []string{"PER_MEMBER", "GLOBAL"}[i%2]
	}
	name := nameOfFleet("long")
	if err := c.set(ctx, name, spec); err != nil {
		s.met.Add("spec " + codeOf(err))
		return onlyRefused(err)
	}
	before, err := s.counters(ctx, "used_memory")
	if err != nil {
		return err
	}
	processor, n := s.processor(), 0
	for round := range 3 {
		for i, member := range members {
			_, err := c.call(ctx, name, member, func(r *setpointv1.RecommendRequest) {
				r.Spec.Metrics, r.ExternalMetrics = spec.GetSpec().GetMetrics(), nil
				for k, metric := range names {
					if (k+i+round)%3 == 0 {
						r.MetricErrors = append(r.MetricErrors, &setpointv1.MetricError{Metric: "External:" + metric, Message: strings.Repeat("e", 1000)})
						continue
					}
					r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: metric}, Value: "9223372036854775m"})
				}
			})
			if err := onlyRefused(err); err != nil {
				return err
			}
			n++
		}
	}
	after, err := s.counters(ctx, "used_memory")
	if err != nil {
		return err
	}
	kib := (after["used_memory"] - before["used_memory"]) >> 10
	s.met.AddAll("µs a call", int((s.processor()-processor).Microseconds())/n)
	s.met.AddAll("KiB of Redis", int(kib))
	if kib > 4<<10 {
		return fmt.Errorf("a fleet of 64 members and 64 metrics takes %d KiB of Redis, want at most 4 MiB", kib)
	}
	return nil
}

// onlyRefused returns the error if it is none by which a caller learns of a limit.
func onlyRefused(err error) error {
	switch status.Code(err) {
	case codes.OK, codes.InvalidArgument, codes.ResourceExhausted:
		return nil
	}
	return err
}

// thousandFleets has one caller create a thousand fleets: what they take of the store is bounded, and calls of
// others go on.
func thousandFleets(ctx context.Context, s *scene) error {
	c, err := s.fleetClients()
	if err != nil {
		return err
	}
	ctx = s.asHonest(ctx)
	before, err := s.counters(ctx, "used_memory")
	if err != nil {
		return err
	}
	var callers sync.WaitGroup
	for k := range 8 {
		callers.Go(func() {
			for i := k; i < 1000 && ctx.Err() == nil; i += 8 {
				spec, _ := fleetOf(fmt.Sprint("t-", i), 64)
				s.met.Add("fleets " + codeOf(c.set(ctx, nameOfFleet(fmt.Sprint("t-", i)), spec)))
			}
		})
	}
	callers.Wait()
	after, err := s.counters(ctx, "used_memory")
	if err != nil {
		return err
	}
	mib := (after["used_memory"] - before["used_memory"]) >> 20
	s.met.AddAll("MiB more of Redis", int(mib))
	if mib > 64 {
		return fmt.Errorf("a thousand fleets took %d MiB of Redis, want at most 64", mib)
	}
	if _, err := c.recommendations.Recommend(ctx, requestFor("clusters/honest/namespaces/shop/targets/after")); err != nil {
		return fmt.Errorf("a decision after a thousand fleets: %w", err)
	}
	return nil
}

// longSpecs stores many fleets whose specs are as long as one may be that an instance keeps in memory, and has a member of
// each call once.
func longSpecs(ctx context.Context, s *scene) error {
	c, err := s.fleetClients()
	if err != nil {
		return err
	}
	ctx = s.asHonest(ctx)
	var callers sync.WaitGroup
	for k := range 8 {
		callers.Go(func() {
			for i := k; i < 600 && ctx.Err() == nil; i += 8 {
				spec, members := fleetOf(fmt.Sprint("l-", i), 2)
				spec.Spec.Metrics, spec.Fleet.Scopes = nil, map[string]string{}
				for m := range 64 {
					metric := external(fmt.Sprint("m", m))
					metric.External.Metric.Selector = &setpointv1.LabelSelector{MatchLabels: map[string]string{}}
					for l := range 50 {
						metric.External.Metric.Selector.MatchLabels[fmt.Sprint("l", l)] = strings.Repeat("v", 4)
					}
					spec.Spec.Metrics = append(spec.Spec.Metrics, metric)
					spec.Fleet.Scopes[fmt.Sprint("External:m", m)] = "GLOBAL"
				}
				name := nameOfFleet(fmt.Sprint("l-", i))
				err := c.set(ctx, name, spec)
				s.met.Add("fleets " + codeOf(err))
				s.sent(1, proto.Size(spec))
				if err == nil {
					_, _ = c.call(ctx, name, members[0], nil)
				}
			}
		})
	}
	callers.Wait()
	return nil
}
