//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// overrideAttacks are floods of overrides, in whoever's name.
func overrideAttacks() []*attack {
	work := bounds{processor: 60 * time.Second, limit: 60 * time.Second}
	return []*attack{
		{name: "overrides", about: "floods of CreateOverride, and decisions below a full list", redis: true, steps: []step{
			{name: "one-namespace", short: true, bounds: work, only: []codes.Code{codes.OK, codes.ResourceExhausted, codes.Aborted, codes.Unavailable}, run: flooded(1500, func(i int) *setpointv1.CreateOverrideRequest {
				return holding(fmt.Sprintf("clusters/hostile/namespaces/shop/targets/t-%d", i%100), fmt.Sprint("o-", i))
			})},
			{name: "many-namespaces", short: true, bounds: work, only: []codes.Code{codes.OK, codes.ResourceExhausted, codes.Aborted, codes.Unavailable}, run: flooded(1500, func(i int) *setpointv1.CreateOverrideRequest {
				return holding(fmt.Sprintf("clusters/hostile/namespaces/n-%d", i), "")
			})},
			{name: "many-clusters", bounds: work, only: []codes.Code{codes.OK, codes.ResourceExhausted, codes.Aborted, codes.Unavailable}, run: flooded(6000, func(i int) *setpointv1.CreateOverrideRequest {
				return holding(fmt.Sprintf("clusters/c-%d", i), "")
			})},
			{name: "long-reasons", short: true, bounds: work, only: []codes.Code{codes.OK, codes.InvalidArgument, codes.ResourceExhausted, codes.Aborted, codes.Unavailable}, run: flooded(1500, func(i int) *setpointv1.CreateOverrideRequest {
				r := holding(fmt.Sprintf("clusters/long/namespaces/n-%d", i%50), "")
				r.Override.Reason = strings.Repeat("漢", 200+i%100) // up to 256 characters, of 3 bytes
				return r
			})},
			{name: "hidden-characters", short: true, bounds: work, only: []codes.Code{codes.InvalidArgument}, run: flooded(100, func(i int) *setpointv1.CreateOverrideRequest {
				r := holding("clusters/hidden/namespaces/shop", fmt.Sprint("o-", i))
				r.Override.Reason = hidden // what logs may have of it, site.logged says
				return r
			})},
			{name: "full-list", short: true, bounds: work, run: belowAFullList},
			{name: "new-clusters", short: true, bounds: bounds{processor: 20 * time.Second, limit: 40 * time.Second}, run: newClusters},
		}},
		{name: "cold-lists", about: "2,000 of one tenant's callers ask about 400 clusters with full lists, more than are cached", redis: true, prepare: asksWho("mallory", "victim"), steps: []step{
			// What it keeps are cached lists, which are bounded.
			{name: "many", bounds: bounds{processor: 2 * time.Minute, limit: 2 * time.Minute, keeps: 128}, run: coldLists},
		}},
	}
}

// coldClusters is how many clusters have the same list.
const coldClusters = 400

// coldLists fills one list, copies it in Redis, as its callers could make each, and asks about all in turn.
func coldLists(ctx context.Context, s *scene) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	client, full := setpointv1.NewOverrideServiceClient(conn), 0
	for i := range 1000 + coldClusters - 1 { // by two, because one may have half
		_, err := client.CreateOverride(s.as(ctx, []string{"mallory", "victim"}[i%2]), holding(fmt.Sprintf("clusters/cold-%03d/namespaces/n-%d/targets/t-%d", max(0, i-999), i%8, i%300), fmt.Sprint("o-", i)))
		if err == nil {
			full++
		}
	}
	redis := goredis.NewClient(&goredis.Options{Addr: s.redis})
	defer redis.Close()
	s.met.AddAll("overrides each", full-coldClusters+1)
	if err := copied(ctx, redis); err != nil {
		return err
	}
	return s.crowd(ctx, 40, 50, func(ctx context.Context, client setpointv1.RecommendationServiceClient, i int) error {
		r := requestFor(fmt.Sprintf("clusters/cold-%03d/namespaces/n-1/targets/t-1", i%coldClusters))
		_, err := client.Recommend(ctx, r)
		s.sent(1, proto.Size(r))
		return err
	})
}

// copied has the others' lists, which have one override each, be that of the first cluster.
func copied(ctx context.Context, redis *goredis.Client) error {
	const first = "cold-000"
	keys, err := redis.Keys(ctx, "*vh:cold-*/-/-").Result()
	if err != nil || len(keys) != coldClusters {
		return fmt.Errorf("%d lists: %w", len(keys), err)
	}
	clusterOf := func(key string) string {
		_, name, _ := strings.Cut(key, "vh:")
		cluster, _, _ := strings.Cut(name, "/")
		return cluster
	}
	key := keys[slices.IndexFunc(keys, func(key string) bool { return clusterOf(key) == first })]
	list, err := redis.Get(ctx, key).Result()
	if err != nil || !strings.Contains(list, "clusters/"+first+"/") {
		return fmt.Errorf("%d bytes without the cluster's name: %w", len(list), err)
	}
	_, err = redis.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for _, key := range keys {
			p.Set(ctx, key, strings.ReplaceAll(list, first, clusterOf(key)), time.Hour)
		}
		return nil
	})
	return err
}

// hidden turns the direction of writing around, clears a terminal's screen, and ends the line.
const hidden = "\u202efdp.\u2066 \u009b2J \x1b[2J \u2028\r\n{\"level\":\"info\",\"msg\":\"forged\"}"

func holding(parent, id string) *setpointv1.CreateOverrideRequest {
	return &setpointv1.CreateOverrideRequest{Parent: parent, OverrideId: id, Override: &setpointv1.Override{
		Hold: true, Reason: "flood", ExpireTime: timestamppb.New(time.Now().Add(time.Hour)),
	}}
}

// flooded makes as many calls, 8 at a time.
func flooded(n int, request func(int) *setpointv1.CreateOverrideRequest) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		conn, err := s.dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		client := setpointv1.NewOverrideServiceClient(conn)
		moved, err := s.moved(ctx)
		if err != nil {
			return err
		}
		var callers sync.WaitGroup
		for k := range 8 {
			callers.Go(func() {
				for i := k; i < n && ctx.Err() == nil; i += 8 {
					r := request(i)
					_, err := client.CreateOverride(s.asHonest(ctx), r)
					s.sent(1, proto.Size(r))
					if ctx.Err() == nil {
						s.met.Add(codeOf(err))
					}
				}
			})
		}
		callers.Wait()
		after, err := s.moved(context.WithoutCancel(ctx))
		s.met.AddAll("Redis KiB", int(after-moved)>>10)
		return err
	}
}

const (
	// mostBelow is how many times the processor time of plain decisions those below a full list may take, and
	// mostIdle what Redis may move in a second for clusters whose overrides nobody changes, bytes.
	mostBelow, mostIdle = 3, 128 << 10
	decisions           = 3000
)

// belowAFullList compares decisions on targets of a cluster with a thousand overrides with plain ones, and looks at
// what Redis moves while nobody changes any.
func belowAFullList(ctx context.Context, s *scene) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	fill := func(i int) *setpointv1.CreateOverrideRequest {
		return holding(fmt.Sprintf("clusters/full/namespaces/n-%d/targets/t-%d", i%2, i%300), fmt.Sprint("o-", i))
	}
	if err := flooded(1000, fill)(ctx, s); err != nil {
		return err
	}
	client := setpointv1.NewRecommendationServiceClient(conn)
	decide := func(cluster string) (time.Duration, error) {
		began := s.processor()
		for from := 0; from < decisions; from += 500 {
			batch := &setpointv1.BatchRecommendRequest{}
			for i := range 500 {
				batch.Requests = append(batch.Requests, requestFor(fmt.Sprintf("clusters/%s/namespaces/n-%d/targets/t-%d", cluster, i%2, (from+i)%300)))
			}
			answer, err := client.BatchRecommend(s.asHonest(ctx), batch)
			if err != nil {
				return 0, err
			}
			for _, result := range answer.GetResults() {
				if held := len(result.GetResponse().GetAdjustments()) > 0; held != (cluster == "full") {
					return 0, fmt.Errorf("in %s a decision is held: %v: %v", cluster, held, result)
				}
			}
			s.sent(1, proto.Size(batch))
		}
		return s.processor() - began, nil
	}
	var plain, full time.Duration
	for range 2 { // first without caches
		if plain, err = decide("plain"); err != nil {
			return err
		}
		if full, err = decide("full"); err != nil {
			return err
		}
	}
	s.met.AddAll("plain ms", int(plain.Milliseconds()))
	s.met.AddAll("full ms", int(full.Milliseconds()))
	if full > mostBelow*plain+time.Second {
		return fmt.Errorf("%d decisions below a full list took %v of a processor, plain ones %v", decisions, full, plain)
	}
	before, err := s.moved(ctx)
	if err != nil {
		return err
	}
	const seconds = 3
	pause(ctx, seconds*time.Second)
	after, err := s.moved(ctx)
	s.met.AddAll("Redis B a second", int(after-before)/seconds)
	if each := (after - before) / seconds; err == nil && each > mostIdle+honestMoves {
		return fmt.Errorf("%d bytes a second go to and from Redis while nobody changes an override", each)
	}
	return err
}

// honestMoves bounds what the honest caller's 50 calls a second and the service's own checks move, bytes.
const honestMoves = 512 << 10

// newClusters decides for a new cluster each time, which evicts others from the cache.
func newClusters(ctx context.Context, s *scene) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	client := setpointv1.NewRecommendationServiceClient(conn)
	began := s.processor()
	const n = 12
	for k := range n {
		batch := &setpointv1.BatchRecommendRequest{}
		for i := range 500 {
			r := requestFor(fmt.Sprintf("clusters/new-%d-%d/namespaces/n/targets/t", k, i))
			r.DryRun = true
			batch.Requests = append(batch.Requests, r)
		}
		_, err := client.BatchRecommend(s.asHonest(ctx), batch)
		s.sent(500, proto.Size(batch)/500)
		s.met.Add(codeOf(err))
	}
	s.met.AddAll("µs a cluster", int((s.processor()-began).Microseconds())/(500*n))
	return ctx.Err()
}
