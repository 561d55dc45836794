//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Of two tenants each has a namespace; a third may decide without recording; the honest
// caller may all it needs.
const tenants = `
grants:
  - {identities: ["token:honest"], clusters: [honest, hostile], verbs: ["*"]}
  - {identities: ["token:mallory"], clusters: [shared], namespaces: [mallory], verbs: ["*"]}
  - {identities: ["token:victim"], clusters: [shared], namespaces: [victim], verbs: ["*"]}
  - {identities: ["token:dry"], clusters: [shared], namespaces: [victim], verbs: [recommend, read]}
options:
  - {identities: ["token:dry"], dryRunOnly: true}
`

func withTenants(s *site) error {
	if err := asksWho("mallory", "victim", "dry")(s); err != nil {
		return err
	}
	path, err := s.write("policy.yaml", []byte(tenants))
	s.flags = append(s.flags, "--policy-file="+path)
	return err
}

func (s *site) as(ctx context.Context, who string) context.Context {
	return withToken(ctx, tokenOf(who))
}

// tenantAttacks are of one tenant on what it shares with others: the feed, Redis' processor, places
// in a cluster, processors.
func tenantAttacks() []*attack {
	work := bounds{processor: 60 * time.Second, limit: 2 * time.Minute}
	return []*attack{
		{name: "feed", about: "one tenant's burst of large decisions, and replays of all there are: Redis' memory and processor, and others' watches", redis: true, prepare: withTenants, steps: []step{
			{name: "burst", short: true, bounds: work, run: burst},
			{name: "replays", short: true, bounds: work, run: replays},
		}},
		{name: "crowd", about: "one tenant's batches on 400 connections, each of which comes again at once", prepare: withTenants, steps: []step{
			{name: "batches", short: true, bounds: work, run: crowd},
		}},
	}
}

// crowd asks for batches, each caller on a connection of its own.
func crowd(ctx context.Context, s *scene) error {
	batch := &setpointv1.BatchRecommendRequest{}
	for i := range 50 {
		batch.Requests = append(batch.Requests, requestFor(fmt.Sprint(mallorys, "t", i)))
	}
	return s.crowd(ctx, 400, 1, func(ctx context.Context, client setpointv1.RecommendationServiceClient, _ int) error {
		_, err := client.BatchRecommend(ctx, batch)
		s.sent(50, proto.Size(batch)/50)
		return err
	})
}

// crowd has so many of mallory's callers on each connection call, again as soon as one is answered or refused. i counts calls.
func (s *scene) crowd(ctx context.Context, connections, each int, call func(_ context.Context, _ setpointv1.RecommendationServiceClient, i int) error) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var (
		callers sync.WaitGroup
		calls   counter
	)
	for range connections {
		conn, err := s.dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		client := setpointv1.NewRecommendationServiceClient(conn)
		for range each {
			callers.Go(func() {
				for ctx.Err() == nil {
					calls.add(1)
					err := call(s.as(ctx, "mallory"), client, int(calls.load()))
					if ctx.Err() == nil {
						s.met.Add(codeOf(err))
					}
				}
			})
		}
	}
	callers.Wait()
	return nil
}

// redisProcessor is the processor time that Redis has had so far.
func (s *site) redisProcessor(ctx context.Context) (time.Duration, error) {
	client := goredis.NewClient(&goredis.Options{Addr: s.redis})
	defer client.Close()
	text, err := client.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	seconds := 0.
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			seconds += n
		}
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

const (
	// mostBurst bounds what a burst may leave in Redis, MiB; mostLate how late another tenant's
	// watch may be meanwhile; mostReplayed Redis' processor time for three replays.
	mostBurst, mostLate, mostReplayed = 64, 3 * time.Second, 3 * time.Second
	// victims is what the victim watches, mallorys where the burst is.
	victims, mallorys = "clusters/shared/namespaces/victim/targets/", "clusters/shared/namespaces/mallory/targets/"
)

// bursting makes 12,000 decisions with 43 metrics of long names, as many as it can in the time.
func bursting(ctx context.Context, s *scene) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	long := strings.Repeat("n", 140)
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	client := setpointv1.NewRecommendationServiceClient(conn)
	for k := range 24 {
		batch := &setpointv1.BatchRecommendRequest{}
		for i := range 500 {
			r := requestFor(fmt.Sprint(mallorys, "t", i%20))
			r.Spec.Metrics, r.ExternalMetrics = nil, nil
			for m := range 43 {
				name := fmt.Sprint(long, m)
				r.Spec.Metrics = append(r.Spec.Metrics, external(name))
				r.ExternalMetrics = append(r.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: name}, Value: fmt.Sprint(10 * (1 + (k+i/20)%30))})
			}
			batch.Requests = append(batch.Requests, r)
		}
		_, err := client.BatchRecommend(s.as(ctx, "mallory"), batch)
		s.sent(500, proto.Size(batch)/500)
		s.met.Add("batches " + codeOf(err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil
}

// burst has another tenant watch its own decisions during a burst.
func burst(ctx context.Context, s *scene) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	victim, cancel := context.WithCancel(s.as(ctx, "victim"))
	defer cancel()
	client, targets := setpointv1.NewRecommendationServiceClient(conn), setpointv1.NewTargetServiceClient(conn)
	began := time.Now()
	before, err := s.counters(ctx, "used_memory")
	if err != nil {
		return err
	}
	watch, err := targets.WatchDecisions(victim, &setpointv1.WatchDecisionsRequest{Parent: victims + "-"})
	if err != nil {
		return err
	}
	pause(ctx, time.Second) // until it watches
	var mu sync.Mutex
	made := make(map[string]time.Time) // by target; guarded by mu
	var worst time.Duration            // guarded by mu
	seen := 0                          // guarded by mu
	go func() {
		for {
			answer, err := watch.Recv()
			if err != nil {
				return
			}
			mu.Lock()
			if at, ok := made[answer.GetTarget()]; ok {
				seen++
				worst = max(worst, time.Since(at))
				delete(made, answer.GetTarget())
			}
			mu.Unlock()
		}
	}()
	var bursts sync.WaitGroup
	var problem error
	bursts.Go(func() { problem = bursting(ctx, s) })
	for n := 0; time.Since(began) < 15*time.Second && ctx.Err() == nil; n++ {
		target := fmt.Sprint(victims, "own", n)
		mu.Lock()
		made[target] = time.Now()
		mu.Unlock()
		_, err := client.Recommend(victim, requestFor(target))
		s.sent(1, 200)
		if err != nil {
			s.met.Add("victim " + codeOf(err))
		}
		pause(ctx, 300*time.Millisecond)
	}
	bursts.Wait()
	pause(ctx, mostLate)
	mu.Lock()
	for _, at := range made { // still to come
		worst = max(worst, time.Since(at))
	}
	late, waiting, arrived := worst, len(made), seen
	mu.Unlock()
	after, err := s.counters(ctx, "used_memory")
	if err != nil {
		return errors.Join(err, problem)
	}
	more := (after["used_memory"] - before["used_memory"]) >> 20
	s.met.AddAll("MiB more of Redis", int(more))
	s.met.AddAll("victim's decisions seen", arrived)
	s.met.AddAll("worst ms late", int(late.Milliseconds()))
	var missed []error
	if more > mostBurst {
		missed = append(missed, fmt.Errorf("the burst left %d MiB in Redis, want at most %d", more, mostBurst))
	}
	if late > mostLate {
		missed = append(missed, fmt.Errorf("the victim's watch was %v late (%d decisions were not seen), want at most %v", late.Round(100*time.Millisecond), waiting, mostLate))
	}
	// What the victim decided before and during the burst is there for who comes back.
	back, err := targets.WatchDecisions(victim, &setpointv1.WatchDecisionsRequest{Parent: victims + "-", StartTime: timestamppb.New(began.Add(-time.Second))})
	if err == nil {
		var first *setpointv1.WatchDecisionsResponse
		first, err = back.Recv()
		for err == nil && first.GetTarget() == "" && first.GetMissedDecisions() == 0 { // a heartbeat
			first, err = back.Recv()
		}
		if err == nil && first.GetTarget() != victims+"own0" {
			err = fmt.Errorf("who comes back after the burst gets %q (missed %d), want the victim's first decision", first.GetTarget(), first.GetMissedDecisions())
		}
	}
	// So is what it was asked.
	if kept, unkept := targets.GetRecording(victim, &setpointv1.GetRecordingRequest{Name: victims + "own0"}); unkept != nil {
		missed = append(missed, unkept)
	} else if len(kept.GetChunks()) == 0 {
		missed = append(missed, errors.New("nothing is kept of what the victim was asked before the burst"))
	}
	return errors.Join(append(missed, err, problem)...)
}

// replays fills the feed and has another tenant, who may see nothing of it, replay it three times.
func replays(ctx context.Context, s *scene) error {
	if err := bursting(ctx, s); err != nil {
		return err
	}
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	pause(ctx, 5*time.Second) // until what is kept of the burst is written
	before, err := s.redisProcessor(ctx)
	if err != nil {
		return err
	}
	moved, err := s.moved(ctx)
	if err != nil {
		return err
	}
	targets := setpointv1.NewTargetServiceClient(conn)
	during, cancel := context.WithTimeout(s.as(ctx, "victim"), 25*time.Second)
	defer cancel()
	request := &setpointv1.WatchDecisionsRequest{Parent: victims + "-", StartTime: &timestamppb.Timestamp{Seconds: 1}}
	var watching sync.WaitGroup
	for range 3 {
		watching.Go(func() {
			stream, err := targets.WatchDecisions(during, request)
			if err != nil {
				return
			}
			s.sent(1, proto.Size(request))
			for {
				if _, err := stream.Recv(); err != nil {
					s.met.Add("replays " + codeOf(err))
					return
				}
			}
		})
	}
	pause(during, 10*time.Second)
	cancel()
	watching.Wait()
	after, err := s.redisProcessor(ctx)
	if err != nil {
		return err
	}
	movedSince, err := s.moved(ctx)
	if err != nil {
		return err
	}
	s.met.AddAll("ms of Redis' processor", int((after - before).Milliseconds()))
	s.met.AddAll("MiB moved", int((movedSince-moved)>>20))
	if used := after - before; used > mostReplayed {
		return fmt.Errorf("three replays took %v of Redis' processor and moved %d MiB, want at most %v", used.Round(100*time.Millisecond), (movedSince-moved)>>20, mostReplayed)
	}
	return nil
}
