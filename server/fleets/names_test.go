package fleets_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// nameOf names a fleet of the tests in cluster all.
func nameOf(target string) string { return "clusters/all/namespaces/shop/targets/" + target }

// Of a fleet's own name nothing is decided or reported, on whichever way it is asked, and nothing is written.
func TestAFleetsOwnNameIsNoTarget(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open)
		s.set(t, queueFleet(2, 100, west, east))
		known := s.Recommend(t, servertest.Queue(nameOf("single"), 3, 60))
		plain := func(changes ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
			return servertest.With(servertest.Queue(fleetName, 3, 60), changes...)
		}
		unary := func(changes ...func(*setpointv1.RecommendRequest)) func() servertest.Problem {
			return func() servertest.Problem { return servertest.RPCProblem(s.try(t, plain(changes...))) }
		}
		overREST := func(changes ...func(*setpointv1.RecommendRequest)) func() servertest.Problem {
			return func() servertest.Problem {
				return s.Ask(t, http.MethodPost, servertest.RecommendPath(fleetName), servertest.JSON(t, plain(changes...))).Problem(t)
			}
		}
		for way, ask := range map[string]func() servertest.Problem{
			"unary":              unary(),
			"unary, slow path":   unary(servertest.TakeSlowPath),
			"unary, dry run":     unary(servertest.DryRun),
			"unary, a requestId": unary(servertest.WithID("once")),
			"REST":               overREST(),
			"REST, slow path":    overREST(servertest.TakeSlowPath),
			"batch": func() servertest.Problem {
				results := s.Batch(t, servertest.Queue(nameOf("single"), 3, 60), plain(), plain(), member(west, 3, 60))
				if results[0].GetResponse() == nil || results[3].GetResponse() == nil || !proto.Equal(results[1].GetError(), results[2].GetError()) {
					t.Errorf("batch: the others of the batch: %v", results)
				}
				return servertest.ProblemOf(results[1].GetError())
			},
			"stream": func() servertest.Problem {
				stream := s.Stream(t)
				servertest.Send(t, stream, "1", plain())
				fatal.If(t, stream.CloseSend())
				answers, err := servertest.ReceiveAll(t, stream)
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				return servertest.ProblemOf(answers["1"].GetError())
			},
			"ReportScale": func() servertest.Problem {
				_, err := s.Recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: fleetName, RecommendationId: known.GetRecommendationId(), Outcome: "APPLIED"})
				return servertest.RPCProblem(err)
			},
			"ReportObservation": func() servertest.Problem {
				_, err := s.Recommendations.ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{Target: fleetName, Scale: &setpointv1.Scale{SpecReplicas: 1}})
				return servertest.RPCProblem(err)
			},
			"a poll": func() servertest.Problem {
				_, err := s.Recommendations.GetRecommendation(t.Context(), &setpointv1.GetRecommendationRequest{Target: fleetName})
				return servertest.RPCProblem(err)
			},
		} {
			problem := ask()
			servertest.WantProblem(t, problem, codes.FailedPrecondition, "IS_FLEET")
			for _, part := range []string{fleetName + " is a fleet", "members call Recommend with fleet", "GetFleet"} {
				if !strings.Contains(problem.Message, part) {
					t.Errorf("%s: %q does not say %q", way, problem.Message, part)
				}
			}
		}
		if _, err := s.Targets.GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: fleetName}); status.Code(err) != codes.NotFound {
			t.Errorf("a history was written: %v", err)
		}
		// Its own members, and targets beside it, are answered.
		s.call(t, member(west, 3, 60))
	})
}

// A target that is decided for alone does not become a fleet in silence: who stored that would lose its history, or both
// would be answered. Once it is deleted it may, also for instances that have the history in their cache.
func TestATargetWithAHistoryBecomesNoFleet(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		caching := func(su *servertest.Setup) { su.Options.CacheBytes = 32 << 20 }
		a, b := start(t, open), start(t, open, caching)
		b.Recommend(t, servertest.Queue(fleetName, 3, 60))
		err := a.trySet(t, fleetName, queueFleet(2, 100, west, east))
		if want(t, "with a history", err, codes.FailedPrecondition, "HAS_HISTORY"); !strings.Contains(err.Error(), "DeleteTarget") {
			t.Errorf("the error does not say what to do: %v", err)
		}
		if _, err := a.Targets.GetTargetSpec(t.Context(), &setpointv1.GetTargetSpecRequest{Name: fleetName}); status.Code(err) != codes.NotFound {
			t.Errorf("stored all the same: %v", err)
		}
		if err := a.trySet(t, nameOf("second"), queueFleet(2, 100, west, north)); err != nil {
			t.Errorf("its members are claimed: %v", err)
		}
		if _, err := a.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: fleetName}); err != nil {
			t.Fatal(err)
		}
		a.set(t, queueFleet(2, 100, east, "clusters/south/namespaces/shop/targets/web"))
		for range 2 {
			want(t, "from the cache", b.try(t, servertest.Queue(fleetName, 3, 60)), codes.FailedPrecondition, "IS_FLEET")
		}
		if _, err := a.Targets.DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: fleetName}); err != nil {
			t.Fatal(err)
		}
		b.Recommend(t, servertest.Queue(fleetName, 3, 60)) // again a target like others
	})
}

// A history beside a fleet, of a call that was decided while its spec was stored, or by an earlier version, goes with
// the next look at the fleet: while it is there such calls are answered.
func TestAHistoryBesideAFleetGoes(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		engine, logs := open(), (*observer.ObservedLogs)(nil)
		failing := &undeleted{Engine: engine}
		s := start(t, func() store.Engine { return failing }, servertest.Logged(zap.WarnLevel, server.LogNoCalls, &logs))
		s.Recommend(t, servertest.Queue(nameOf("other"), 3, 60))
		s.set(t, queueFleet(2, 100, west, east))
		history, err := engine.Load(t.Context(), servertest.KeyOf(nameOf("other")))
		fatal.If(t, err)
		if _, err := engine.CompareAndSwap(t.Context(), store.Swap{Key: servertest.KeyOf(fleetName), Value: history.Value}); err != nil {
			t.Fatal(err)
		}
		told := func() (deleted, not int) {
			return logs.FilterMessageSnippet("own name deleted").Len(), logs.FilterMessageSnippet("own name not deleted").Len()
		}
		failing.fails.Store(true)
		s.fleet(t)
		if deleted, not := told(); deleted != 0 || not != 1 {
			t.Errorf("of a failed deletion the log says %v", logs.All())
		}
		failing.fails.Store(false)
		s.fleet(t)
		if deleted, not := told(); deleted != 1 || not != 1 {
			t.Errorf("of a deletion the log says %v", logs.All())
		}
		want(t, "a plain call", s.try(t, servertest.Queue(fleetName, 3, 60)), codes.FailedPrecondition, "IS_FLEET")
	})
}

// undeleted is an engine whose deletions may fail.
type undeleted struct {
	store.Engine
	fails atomic.Bool
}

func (u *undeleted) Delete(ctx context.Context, key store.Key) (bool, error) {
	if u.fails.Load() {
		return false, store.ErrUnavailable
	}
	return u.Engine.Delete(ctx, key)
}

// Of two fleets of which one names the other, stored at the same time on two instances, at most one is stored.
func TestFleetsNeverNest(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		instances := []*service{start(t, open), start(t, open)}
		outer, inner := nameOf("outer"), nameOf("inner")
		begin := time.Now()
		won := 0
		for round := 0; round < 200 && time.Since(begin) < 5*time.Second; round++ {
			var storing sync.WaitGroup
			var stored atomic.Int32
			for i, name := range []string{outer, inner} {
				members := [][]string{{inner, west}, {east, north}}[i]
				storing.Go(func() {
					if err := instances[i].trySet(t, name, queueFleet(2, 100, members...)); err == nil {
						stored.Add(1)
					} else if problem := servertest.RPCProblem(err); problem.Reason != "IS_FLEET" && problem.Reason != "FLEET_MEMBER_TAKEN" {
						t.Errorf("round %d: %v", round, err)
					}
				})
			}
			storing.Wait()
			there := 0
			for _, name := range []string{outer, inner} {
				switch _, err := instances[0].Targets.DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: name}); {
				case err == nil:
					there++
				case status.Code(err) != codes.NotFound:
					t.Fatal(err)
				}
			}
			if stored.Load() > 1 || there != int(stored.Load()) {
				t.Fatalf("round %d: %d were stored, %d are there", round, stored.Load(), there)
			}
			won += there
		}
		t.Logf("%d stored", won)
	})
}

// A fleet is one by its stored spec: its record may have expired, or was never written by a caller that died.
func TestAFleetWithoutARecordIsOne(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		engine := open()
		s := start(t, func() store.Engine { return engine })
		s.set(t, queueFleet(2, 100, west, east))
		records, err := engine.(store.Parts).Part(store.Fleets, 0)
		fatal.If(t, err)
		if existed, err := records.Delete(t.Context(), servertest.KeyOf(fleetName)); err != nil || !existed {
			t.Fatal(existed, err)
		}
		want(t, "as a member", s.trySet(t, nameOf("second"), queueFleet(2, 100, fleetName, north)), codes.FailedPrecondition, "IS_FLEET")
		_, err = s.Recommendations.ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{Target: fleetName, Scale: &setpointv1.Scale{SpecReplicas: 1}})
		want(t, "a report", err, codes.FailedPrecondition, "IS_FLEET")
		want(t, "a plain call", s.try(t, servertest.Queue(fleetName, 3, 60)), codes.FailedPrecondition, "IS_FLEET")
		_, err = s.Targets.GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: fleetName})
		if want(t, "GetTarget", err, codes.NotFound, "TARGET_NOT_FOUND"); !strings.Contains(err.Error(), "GetFleet") {
			t.Errorf("GetTarget: %v", err)
		}
	})
}

// countedSpecs counts how often specs are looked at.
type countedSpecs struct {
	*memory.Store
	looks atomic.Int32
}

func (c *countedSpecs) Part(part store.Part, ttl time.Duration) (store.PartStore, error) {
	of, err := c.Store.Part(part, ttl)
	if part == store.Specs {
		of = &countedSpecsPart{of, c}
	}
	return of, err
}

type countedSpecsPart struct {
	store.PartStore
	of *countedSpecs
}

func (c *countedSpecsPart) LoadVersions(ctx context.Context, keys []store.Key) ([]store.Version, error) {
	c.of.looks.Add(1)
	return c.PartStore.LoadVersions(ctx, keys)
}

// Whether a target is a fleet is asked for before its first record only, of all targets of a batch together.
func TestOrdinaryTargetsCostNoLookAtFleets(t *testing.T) {
	t.Parallel()
	engine := &countedSpecs{Store: memory.New(memory.Options{})}
	for what, cache := range map[string]int{"with a cache": 32 << 20, "without": 0} {
		s := start(t, func() store.Engine { return engine }, func(su *servertest.Setup) { su.Options.CacheBytes = cache })
		wants := func(step string, want int32) {
			t.Helper()
			if got := engine.looks.Swap(0); got != want {
				t.Errorf("%s, %s: %d looks, want %d", what, step, got, want)
			}
		}
		var batch []*setpointv1.RecommendRequest
		for _, name := range []string{"a", "b", "c"} {
			batch = append(batch, servertest.Queue(nameOf(name+strings.ReplaceAll(what, " ", "-")), 3, 60))
		}
		s.Batch(t, batch...)
		wants("new targets of a batch", 1)
		s.Batch(t, batch...)
		first := s.Recommend(t, batch[0])
		s.Recommend(t, servertest.With(batch[1], servertest.DryRun))
		s.Report(t, batch[0].GetTarget(), first.GetRecommendationId(), "APPLIED", "")
		wants("existing ones", 0)
	}
}
