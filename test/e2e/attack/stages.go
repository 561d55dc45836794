//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// zones have daylight saving, half hours and quarters, days that were left out, and transitions at midnight.
var zones = []string{
	"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "Pacific/Chatham", "Africa/Casablanca", "Africa/Cairo",
	"America/Sao_Paulo", "Asia/Tehran", "America/St_Johns", "Antarctica/Troll", "Asia/Gaza", "America/Asuncion", "UTC", "Etc/GMT+12",
}

// stageAttacks are stages and proposals of few bytes and much work.
func stageAttacks() []*attack {
	// Some megabytes of them, each wrong in its own way.
	lists := func(fill func(*setpointv1.RecommendRequest, int)) func() body {
		return func() body {
			r := requestFor(hostileTarget)
			r.Stages = &setpointv1.Stages{}
			for i := 0; i%4096 != 0 || proto.Size(r) < 4<<20; i++ {
				fill(r, i)
			}
			return bodyOf(r)
		}
	}
	pairs := func(r *setpointv1.RecommendRequest, i int) map[string]string {
		r.Stages.Combine = cmpOr(r.Stages.Combine, &setpointv1.Combine{Method: "WEIGHTED", Weights: map[string]string{}})
		r.Stages.Combine.Weights[fmt.Sprint(i)] = []string{"NaN", "1e999", "-0", "9999999.999999999", "Inf", "0x1p9"}[i%6]
		return r.Stages.Combine.Weights
	}
	soon := timestamppb.New(time.Now().Add(30 * time.Minute))
	long := func(name string, fill func(*setpointv1.RecommendRequest, int)) []step {
		make := sync.OnceValue(lists(fill))
		limits := bounds{property: true, limit: time.Minute, processor: 5 * time.Second}
		return mayAnswer([]step{
			{name: name, short: true, run: wave(carrier{"grpc", sendUnary}, make), bounds: limits},
			{name: name + "-rest", run: wave(carrier{"rest", sendREST}, make), bounds: limits},
		}, codes.InvalidArgument, codes.ResourceExhausted)
	}
	return []*attack{
		{name: "schedules", about: "batches of 1,000 targets, each with 64 schedules in 16 zones: ramps, dates, crons that fire never or hardly", steps: []step{
			{name: "batch", short: true, bounds: bounds{processor: 40 * time.Second, limit: 40 * time.Second}, run: batched("honest schedules", honestSchedule)},
			{name: "cron-bombs", short: true, bounds: bounds{processor: 40 * time.Second, limit: 40 * time.Second}, run: batched("rare crons", rareCron)},
			{name: "never", short: true, bounds: bounds{processor: 40 * time.Second, limit: 40 * time.Second}, run: batched("crons that never fire", neverFires)},
			{name: "no-zones", short: true, bounds: bounds{processor: 40 * time.Second, limit: 40 * time.Second}, run: batched("unknown zones", noZone)},
		}},
		{name: "stage-lists", about: "4 MiB of schedules, fallbacks, guards, weights and proposals in one request", steps: slices.Concat(
			long("schedules", func(r *setpointv1.RecommendRequest, i int) {
				r.Stages.Schedules = append(r.Stages.Schedules, &setpointv1.Schedule{TimeZone: shortName(i), Cron: "0 0 30 2 *"})
			}),
			long("fallbacks", func(r *setpointv1.RecommendRequest, _ int) {
				r.Stages.Fallbacks = append(r.Stages.Fallbacks, &setpointv1.MetricFallback{Metric: "x"})
				r.Stages.ZeroGuards = append(r.Stages.ZeroGuards, &setpointv1.ZeroGuard{Metric: "y"})
			}),
			long("weights", func(r *setpointv1.RecommendRequest, i int) { pairs(r, i) }),
			long("proposals", func(r *setpointv1.RecommendRequest, i int) {
				r.Proposals = append(r.Proposals, &setpointv1.Proposal{Name: shortName(i), Role: "VOTER", Replicas: math.MaxInt32, ExpireTime: soon})
			}),
		)},
		{name: "proposals", about: "proposals by the thousand: 8 in each of a batch of 1,000, and reported for stored specs", steps: []step{
			{name: "batch", short: true, bounds: bounds{processor: 20 * time.Second}, run: batched("proposals", nil)},
			{name: "reported", short: true, bounds: bounds{processor: 30 * time.Second, limit: 40 * time.Second}, run: reportedProposals},
		}},
		{name: "combine", about: "64 metrics that are combined by weights of 16 digits, in a batch of 200", steps: []step{
			{name: "weights", short: true, bounds: bounds{processor: 20 * time.Second}, run: combined64},
		}},
	}
}

func cmpOr[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func honestSchedule(target, i int) *setpointv1.Schedule {
	s := &setpointv1.Schedule{
		Name: fmt.Sprint("s-", i), TimeZone: zones[i%len(zones)], Cron: fmt.Sprintf("%d %d * * %d-5", target%60, i%24, i%5+1), Duration: durationpb.New(time.Duration(1+i) * time.Hour),
		MinReplicas: new(int32(1 + i%50)), RampUp: durationpb.New(30 * time.Minute), RampDown: durationpb.New(time.Duration(i) * time.Minute),
	}
	switch i % 4 {
	case 1:
		s.Cron, s.At = "", timestamppb.New(time.Now().Add(time.Duration(target-500)*time.Minute))
	case 2:
		s.Duration, s.EndCron = nil, fmt.Sprintf("%d %d * * *", (target+7)%60, (i+5)%24)
	case 3:
		s.MinReplicas, s.RampUp, s.RampDown, s.MaxReplicas = nil, nil, nil, new(int32(60+i%40))
	}
	return s
}

func rareCron(target, i int) *setpointv1.Schedule {
	s := honestSchedule(target, 4*i) // a minimum with ramps
	s.Name, s.TimeZone, s.Duration = fmt.Sprint("s-", i), zones[(target+i)%len(zones)], durationpb.New(744*time.Hour)
	s.Cron = []string{
		"* * 29 2 *", fmt.Sprintf("%d 23 29 2 1", target%60), "* * * * *", fmt.Sprintf("*/%d * * * *", 1+target%59), "0 2 * 3 0", "59 23 31 12 *",
		strings.TrimSuffix(strings.Repeat("0-59,", 40), ",") + " * * * *", "0,1,2,3,4,5,6,7,8,9 0-23/1 1-31 1-12 0-7",
	}[i%8]
	if i%3 == 0 {
		s.Duration, s.EndCron = nil, fmt.Sprintf("%d 4 28 2 *", (target+1)%60)
	}
	return s
}

func neverFires(target, i int) *setpointv1.Schedule {
	s := honestSchedule(target, 4*i)
	s.Name, s.Cron = fmt.Sprint("s-", i), fmt.Sprintf("%d %d %d %s *", target%60, i%24, 30+i%2, []string{"2", "2"}[i%2])
	return s
}

func noZone(target, i int) *setpointv1.Schedule {
	s := honestSchedule(target, 4*i)
	s.Name, s.TimeZone = fmt.Sprint("s-", i), fmt.Sprintf("Europe/N%d-%d", target, i)
	return s
}

// mostStaged bounds the processor time of a target's 64 schedules, on top of what a plain decision costs.
const mostStaged = 10 * time.Millisecond

// batched sends batches of a thousand targets, once plainly and some times with 64 schedules or, without them, 8
// proposals each, and compares what they cost.
func batched(what string, schedule func(target, i int) *setpointv1.Schedule) func(context.Context, *scene) error {
	const n = 1000
	return func(ctx context.Context, s *scene) error {
		conn, err := s.dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		client := setpointv1.NewRecommendationServiceClient(conn)
		send := func(staged bool) (time.Duration, error) {
			batch := &setpointv1.BatchRecommendRequest{}
			for target := range n {
				r := requestFor(fmt.Sprintf("clusters/hostile/namespaces/shop/targets/t-%d", target))
				for i := range 64 {
					if staged && schedule != nil {
						r.Stages = cmpOr(r.Stages, &setpointv1.Stages{})
						r.Stages.Schedules = append(r.Stages.Schedules, schedule(target, i))
					}
				}
				for i := 0; staged && schedule == nil && i < 8; i++ {
					r.Proposals = append(r.Proposals, &setpointv1.Proposal{
						Name: fmt.Sprint("p-", i), Role: []string{"VOTER", "FLOOR", "CAP"}[i%3], Replicas: int32(target * i), ExpireTime: timestamppb.New(time.Now().Add(30 * time.Minute)),
					})
				}
				batch.Requests = append(batch.Requests, r)
			}
			began := s.processor()
			answer, err := client.BatchRecommend(s.asHonest(ctx), batch)
			took := s.processor() - began
			s.sent(n, proto.Size(batch)/n)
			for _, result := range answer.GetResults() {
				s.met.Add(codes.Code(result.GetError().GetCode()).String())
			}
			return took, err
		}
		plain, err := send(false)
		if err != nil {
			return err
		}
		for range s.times {
			took, err := send(true)
			if s.met.AddAll("ms", int(took.Milliseconds())); err != nil {
				s.met.Add("whole batch " + codeOf(err))
			}
			if most := plain + time.Duration(n)*mostStaged; took > most {
				return fmt.Errorf("%s: %d targets took %v of a processor, want at most %v; plain ones %v", what, n, took, most, plain)
			}
		}
		s.met.AddAll("plain ms", int(plain.Milliseconds()))
		return nil
	}
}

// reportedProposals reports as many proposals as fit for a target with a stored spec, and then 8 time and again.
func reportedProposals(ctx context.Context, s *scene) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	client := setpointv1.NewTargetServiceClient(conn)
	if _, err := client.SetTargetSpec(s.asHonest(ctx), &setpointv1.SetTargetSpecRequest{Name: hostileTarget, TargetSpec: &setpointv1.TargetSpec{
		Spec: requestFor(hostileTarget).GetSpec(), AssumeApplied: true,
	}}); err != nil {
		return err
	}
	report := func(n int, role string) error {
		r := &setpointv1.ReportObservationRequest{Target: hostileTarget}
		for i := range n {
			r.Proposals = append(r.Proposals, &setpointv1.Proposal{Name: "p" + shortName(i), Role: role, Replicas: math.MaxInt32, ExpireTime: timestamppb.New(time.Now().Add(10 * time.Minute))})
		}
		_, err := setpointv1.NewRecommendationServiceClient(conn).ReportObservation(s.asHonest(ctx), r)
		s.sent(1, proto.Size(r))
		s.met.Add(fmt.Sprint(n, " ", codeOf(err)))
		return err
	}
	for _, n := range []int{200_000, 9, 1000} {
		if err := report(n, "VOTER"); codeOf(err) != codes.InvalidArgument.String() && codeOf(err) != codes.ResourceExhausted.String() {
			return fmt.Errorf("%d proposals are answered %w", n, err)
		}
	}
	for i := range 1000 {
		if err := report(8, []string{"VOTER", "FLOOR", "CAP", "KING"}[i%4]); (err != nil) != (i%4 == 3) {
			return fmt.Errorf("8 proposals are answered %w", err)
		}
	}
	return nil
}

// combined64 has 64 metrics with weights, and without.
func combined64(ctx context.Context, s *scene) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	client := setpointv1.NewRecommendationServiceClient(conn)
	for _, method := range []string{"", "WEIGHTED", "QUORUM", "SUM", "MIN"} {
		batch := &setpointv1.BatchRecommendRequest{}
		for target := range 200 {
			r := requestFor(fmt.Sprintf("clusters/hostile/namespaces/shop/targets/t-%d", target))
			r.Spec.Metrics, r.ExternalMetrics = nil, nil
			weights := map[string]string{}
			for i := range 64 {
				name := fmt.Sprint("metric-", i)
				r.Spec.Metrics = append(r.Spec.Metrics, external(name))
				r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: name}, Value: "9000000000000000"})
				weights["External:"+name] = "9999999.999999999"
			}
			if method != "" {
				r.Stages = &setpointv1.Stages{Combine: &setpointv1.Combine{Method: method}}
			}
			switch method {
			case "WEIGHTED":
				r.Stages.Combine.Weights = weights
			case "QUORUM":
				r.Stages.Combine.Quorum = 33
			}
			batch.Requests = append(batch.Requests, r)
		}
		began := s.processor()
		answer, err := client.BatchRecommend(s.asHonest(ctx), batch)
		if err != nil {
			return err
		}
		s.met.AddAll(method+" µs each", int((s.processor()-began).Microseconds()/200))
		s.sent(200, proto.Size(batch)/200)
		for _, result := range answer.GetResults() {
			if n := result.GetResponse().GetDesiredReplicas(); n < 1 || n > 100 {
				return fmt.Errorf("%s of 64 metrics: %v", method, result)
			}
		}
	}
	return nil
}
