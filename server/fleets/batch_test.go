package fleets_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// forecastReads is an engine that notes whose past is read for forecasts.
type forecastReads struct {
	store.Engine
	mu   sync.Mutex
	keys []store.Key
}

func (f *forecastReads) Part(part store.Part, ttl time.Duration) (store.PartStore, error) {
	records, err := f.Engine.Part(part, ttl)
	if part == store.Forecasts {
		return notedReads{records, f}, err
	}
	return records, err
}

type notedReads struct {
	store.PartStore
	by *forecastReads
}

func (n notedReads) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	n.by.mu.Lock()
	n.by.keys = append(n.by.keys, keys...)
	n.by.mu.Unlock()
	return n.PartStore.LoadBatch(ctx, keys)
}

// A fleet answers its members without a look at their own pasts, also beside targets whose past is looked at.
func TestMembersPastsAreNotRead(t *testing.T) {
	t.Parallel()
	engine := &forecastReads{Engine: memory.New(memory.Options{})}
	s := start(t, func() store.Engine { return engine })
	s.set(t, queueFleet(2, 100, west, east))
	foresees := func(r *setpointv1.RecommendRequest) {
		r.Stages = &setpointv1.Stages{Forecast: &setpointv1.Forecast{TimeZone: "UTC"}}
	}
	alone := nameOf("alone")
	for i, result := range s.Batch(t, member(west, 3, 60, foresees), servertest.With(servertest.Queue(alone, 3, 60), foresees), member(east, 3, 60, foresees)) {
		if result.GetResponse() == nil {
			t.Errorf("request %d: %v", i, result.GetError())
		}
	}
	engine.mu.Lock()
	defer engine.mu.Unlock()
	if !slices.Equal(engine.keys, []store.Key{servertest.KeyOf(alone)}) {
		t.Errorf("the pasts of %v are read, want only that of %s", engine.keys, alone)
	}
}

// A batch of one fleet's members is answered as its requests are one by one: answers, errors, the fleet's state and what
// is logged are the same, whatever is asked.
func TestABatchIsAnsweredAsOneByOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		together, apart := start(t, onMemory()), start(t, onMemory())
		names := crowd("c", 0, 2+r.IntN(5))
		spec := queueFleet(2, 60, names...)
		spec.Fleet.OnLost = []string{"HOLD", "SHIFT"}[r.IntN(2)]
		spec.Fleet.MaxMoves = int32(r.IntN(3))
		spec.Fleet.Members[0].Drained = r.IntN(4) == 0
		for _, s := range []*service{together, apart} {
			s.set(t, spec)
		}
		replicas := make(map[string]int32)
		for round := range 12 {
			var batch []*setpointv1.RecommendRequest
			for range 1 + r.IntN(2*len(names)) {
				name := names[r.IntN(len(names))]
				req := member(name, replicas[name]+int32(r.IntN(2)), int32(r.IntN(200)))
				switch r.IntN(12) {
				case 0: // not a member
					req.Target = north
				case 1: // not the fleet's metrics
					req.Spec.Metrics[0].External.Target.AverageValue = proto.String("11")
				case 2:
					req.Scale, req.ScaleError = nil, &setpointv1.ScaleError{Message: "away"}
				case 3:
					req.DryRun = true
				case 4:
					req.ClusterUid = fmt.Sprint("uid-", r.IntN(2))
				case 5:
					req.RequestId = fmt.Sprint("r", r.IntN(3))
				}
				batch = append(batch, req)
			}
			results := together.Batch(t, batch...)
			for i, req := range batch {
				want, err := apart.Recommendations.Recommend(t.Context(), req)
				if got := results[i]; err != nil {
					if text := status.Convert(err); got.GetError().GetCode() != int32(text.Code()) || got.GetError().GetMessage() != text.Message() {
						t.Fatalf("seed %d, round %d, request %d: %v, want %v", seed, round, i, got, err)
					}
					continue
				} else if !proto.Equal(got.GetResponse(), want) {
					t.Fatalf("seed %d, round %d, request %d:\n%s\nwant\n%s", seed, round, i, protojson.Format(got), protojson.Format(want))
				}
				replicas[req.GetTarget()] = want.GetDesiredReplicas()
			}
			if a, b := together.fleet(t), apart.fleet(t); !proto.Equal(a, b) {
				t.Fatalf("seed %d, round %d: the fleet is\n%s\nwant\n%s", seed, round, protojson.Format(a), protojson.Format(b))
			}
			pause := time.Duration(r.IntN(40)) * time.Second
			together.Clock.Advance(pause)
			apart.Clock.Advance(pause)
		}
		for _, name := range append(names, fleetName) {
			a, b := together.Decisions(t, name), apart.Decisions(t, name)
			if len(a) != len(b) {
				t.Fatalf("seed %d: %d decisions of %s are logged, want %d", seed, len(a), name, len(b))
			}
			for i := range a {
				a[i].RecommendationId, b[i].RecommendationId = "", ""
				servertest.SameMessage(t, a[i], b[i])
			}
		}
	}
}

// countedSwaps counts swaps of fleets' records.
type countedSwaps struct {
	*memory.Store
	swaps atomic.Int32
	// before is called before each; nil: nothing.
	before func()
}

func (c *countedSwaps) Part(part store.Part, ttl time.Duration) (store.PartStore, error) {
	of, err := c.Store.Part(part, ttl)
	if part == store.Fleets {
		of = &countedSwapsPart{of, c}
	}
	return of, err
}

type countedSwapsPart struct {
	store.PartStore
	of *countedSwaps
}

func (c *countedSwapsPart) CompareAndSwap(ctx context.Context, swap store.Swap) (store.SwapResult, error) {
	if c.of.swaps.Add(1); c.of.before != nil {
		c.of.before()
	}
	return c.PartStore.CompareAndSwap(ctx, swap)
}

// The calls of all members in a batch take one swap.
func TestABatchOfAFleetTakesOneSwap(t *testing.T) {
	t.Parallel()
	engine := &countedSwaps{Store: memory.New(memory.Options{})}
	s := start(t, func() store.Engine { return engine })
	names := crowd("c", 0, 64)
	s.set(t, queueFleet(2, 1000, names...))
	var batch []*setpointv1.RecommendRequest
	for _, name := range names {
		batch = append(batch, member(name, 3, 60))
	}
	engine.swaps.Store(0)
	for i, result := range s.Batch(t, batch...) {
		if result.GetResponse() == nil {
			t.Errorf("member %d: %v", i, result)
		}
	}
	if n := engine.swaps.Load(); n != 1 {
		t.Errorf("%d swaps for a batch of 64 members, want 1", n)
	}
	if f := s.fleet(t); f.GetMemberCounts().GetFresh() != 64 {
		t.Errorf("the fleet knows %v", f.GetMemberCounts())
	}
}

// While the calls of one fleet wait for the store, those of others go on, of however many fleets there are.
func TestFleetsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	const others = 2000 // more than any number of locks that they could share
	engine := &countedSwaps{Store: memory.New(memory.Options{})}
	s := start(t, func() store.Engine { return engine })
	s.set(t, queueFleet(2, 100, west, east))
	stalled, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	engine.before = func() {
		once.Do(func() { close(stalled); <-release })
	}
	done := make(chan error, 1)
	go func() { done <- s.try(t, member(west, 3, 60)) }()
	<-stalled
	for some := range others / 500 {
		var batch []*setpointv1.RecommendRequest
		for i := range 500 {
			batch = append(batch, member(east, 3, 60, func(r *setpointv1.RecommendRequest) { r.Fleet = nameOf(fmt.Sprint("other", some*500+i)) }))
		}
		for _, result := range s.Batch(t, batch...) {
			if !strings.Contains(result.GetError().GetMessage(), "there is no fleet") {
				t.Fatalf("another fleet: %v", result)
			}
		}
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
