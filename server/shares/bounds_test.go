package shares_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// onEngines runs a test of both engines.
func onEngines(t *testing.T, test func(t *testing.T, start func(changes ...func(*servertest.Setup)) *servertest.Service)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, func(changes ...func(*servertest.Setup)) *servertest.Service { return servertest.Start(t, changes...) })
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		open := servertest.OnRedis(t)
		test(t, func(changes ...func(*servertest.Setup)) *servertest.Service {
			return servertest.Start(t, append([]func(*servertest.Setup){func(su *servertest.Setup) {
				su.Engine, su.Options.MaxClockSkew = open(), 0 // the service's clock is a test's
			}}, changes...)...)
		})
	})
}

func targetIn(cluster string, n int) string {
	return fmt.Sprintf("clusters/%s/namespaces/n/targets/t%d", cluster, n)
}

func sharing(targets, bytes int) func(*servertest.Setup) {
	return func(su *servertest.Setup) { su.Options.ClusterTargets, su.Options.ClusterBytes = targets, bytes }
}

// wantCrowded fails unless that is the error for new targets of a full cluster.
func wantCrowded(t *testing.T, p servertest.Problem, limit string) {
	t.Helper()
	servertest.WantProblem(t, p, codes.ResourceExhausted, "LIMIT_EXCEEDED")
	if p.Metadata["limit"] != limit || p.Metadata["cluster"] != "red" || !strings.Contains(p.Message, "cluster red") {
		t.Errorf("told %q, %v", p.Message, p.Metadata)
	}
}

// A cluster with the maximum number of targets gets no new ones. Its existing ones
// continue, and so do other clusters.
func TestAClusterAtItsBoundGetsNoNewTargets(t *testing.T) {
	t.Parallel()
	const bound = 5
	onEngines(t, func(t *testing.T, start func(...func(*servertest.Setup)) *servertest.Service) {
		registry := prometheus.NewRegistry()
		s := start(sharing(bound, 0), func(su *servertest.Setup) { su.Options.Registerer = registry })
		for n := range bound {
			s.Recommend(t, servertest.Queue(targetIn("red", n), 3, 50))
			s.Recommend(t, servertest.Queue(targetIn("blue", n), 3, 50))
			s.Recommend(t, servertest.Queue(targetIn("redder", n), 3, 50))
		}
		refused := servertest.Queue(targetIn("red", 99), 3, 50)

		_, err := s.Recommendations.Recommend(t.Context(), refused)
		wantCrowded(t, servertest.RPCProblem(err), "cluster_targets")
		wantCrowded(t, s.Ask(t, "POST", servertest.RecommendPath(refused.GetTarget()), refused).Problem(t), "cluster_targets")
		results := s.Batch(t, servertest.Queue(targetIn("red", 0), 3, 50), refused, servertest.Queue(targetIn("green", 1), 3, 50), servertest.Queue(targetIn("red", 4), 3, 50))
		wantCrowded(t, servertest.ProblemOf(results[1].GetError()), "cluster_targets")
		for _, i := range []int{0, 2, 3} {
			if results[i].GetError() != nil {
				t.Errorf("item %d of the batch failed with another: %v", i, results[i].GetError())
			}
		}
		stream, err := s.Recommendations.StreamRecommend(t.Context())
		fatal.If(t, err)
		for i, req := range []*setpointv1.RecommendRequest{refused, servertest.Queue(targetIn("red", 1), 3, 50)} {
			fatal.If(t, stream.Send(&setpointv1.StreamRecommendRequest{Id: fmt.Sprint(i), Request: req}))
			answer, err := stream.Recv()
			fatal.If(t, err)
			if i == 0 {
				wantCrowded(t, servertest.ProblemOf(answer.GetError()), "cluster_targets")
			} else if answer.GetError() != nil {
				t.Errorf("a target that is there is refused: %v", answer.GetError())
			}
		}
		fatal.If(t, stream.CloseSend())
		s.Recommend(t, servertest.With(refused, servertest.DryRun))
		if got := servertest.Read(t, registry)["calls_refused_total{limit=cluster_targets}"]; got != 4 {
			t.Errorf("%v refusals are counted, want 4", got)
		}

		// A deletion makes space at once, for one target.
		if _, err := s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: targetIn("red", 2)}); err != nil {
			t.Fatal(err)
		}
		s.Recommend(t, servertest.With(servertest.Queue(refused.GetTarget(), 3, 50)))
		_, err = s.Recommendations.Recommend(t.Context(), servertest.Queue(targetIn("red", 100), 3, 50))
		wantCrowded(t, servertest.RPCProblem(err), "cluster_targets")
	})
}

// One batch, and one instance that has just been started, stay within the bound.
func TestTheBoundHoldsWithinABatchAndForANewInstance(t *testing.T) {
	t.Parallel()
	const bound = 7
	onEngines(t, func(t *testing.T, start func(...func(*servertest.Setup)) *servertest.Service) {
		s := start(sharing(bound, 0))
		var requests []*setpointv1.RecommendRequest
		for n := range 3 * bound {
			requests = append(requests, servertest.Queue(targetIn("red", n), 3, 50))
		}
		placed := 0
		for _, result := range s.Batch(t, requests...) {
			if result.GetError() == nil {
				placed++
				continue
			}
			wantCrowded(t, servertest.ProblemOf(result.GetError()), "cluster_targets")
		}
		if placed != bound {
			t.Errorf("%d targets of one batch are taken, want %d", placed, bound)
		}
		if !strings.HasSuffix(t.Name(), "Redis") {
			return // its data are its own
		}
		another := start(sharing(bound, 0))
		_, err := another.Recommendations.Recommend(t.Context(), servertest.Queue(targetIn("red", 99), 3, 50))
		wantCrowded(t, servertest.RPCProblem(err), "cluster_targets")
		another.Recommend(t, servertest.Queue(targetIn("red", 0), 3, 50))
		another.Recommend(t, servertest.Queue(targetIn("blue", 0), 3, 50))
	})
}

func TestAClusterWhoseHistoriesTakeTooMuchGetsNoNewTargets(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, start func(...func(*servertest.Setup)) *servertest.Service) {
		s := start(sharing(0, 2000))
		placed := 0
		var err error
		for n := 0; n < 100 && err == nil; n++ {
			if _, err = s.Recommendations.Recommend(t.Context(), servertest.Queue(targetIn("red", n), 3, 50)); err == nil {
				placed++
			}
		}
		wantCrowded(t, servertest.RPCProblem(err), "cluster_bytes")
		if placed == 0 {
			t.Error("no target is taken")
		}
		s.Recommend(t, servertest.Queue(targetIn("red", 0), 3, 50))
		s.Recommend(t, servertest.Queue(targetIn("blue", 0), 3, 50))
	})
}

// What a policy says of a caller counts for what that caller adds.
func TestThePolicyMayBoundAClusterOtherwise(t *testing.T) {
	t.Parallel()
	y := servertest.NewTenancy(t, map[string]string{"sp_many": "many", "sp_few": "few", "sp_bytes": "bytes", "sp_any": "any"}, `
grants:
  - {identities: ["token:*"], clusters: ["*"], verbs: ["*"]}
limits:
  - {identities: ["token:few"], clusterTargets: 2}
  - {identities: ["token:bytes"], clusterBytes: 1}
  - {identities: ["token:any"], clusterTargets: unlimited}
`, sharing(4, 0))
	add := func(token string, n int) error {
		_, err := y.Recommendations.Recommend(servertest.As(t.Context(), token), servertest.Queue(targetIn("red", n), 3, 50))
		return err
	}
	for i, step := range []struct{ token, limit string }{
		{"sp_bytes", "cluster_bytes"}, {"sp_few", ""}, {"sp_few", ""}, {"sp_few", "cluster_targets"},
		{"sp_many", ""}, {"sp_many", ""}, {"sp_many", "cluster_targets"}, {"sp_any", ""}, {"sp_any", ""},
	} {
		err := add(step.token, i)
		if step.limit != "" {
			wantCrowded(t, servertest.RPCProblem(err), step.limit)
		} else if err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
}

// Existing targets cause no count, new ones one every few seconds. If counting fails,
// nothing is refused.
func TestCountsAreRareAndMayFail(t *testing.T) {
	t.Parallel()
	var counts atomic.Int32
	var failing atomic.Bool
	s := servertest.Start(t, sharing(100, 0), func(su *servertest.Setup) {
		su.Store.OnUsage = func() error {
			counts.Add(1)
			if failing.Load() {
				return errors.New("away")
			}
			return nil
		}
	})
	wantCounts := func(what string, want int32) {
		t.Helper()
		if got := counts.Swap(0); got != want {
			t.Errorf("%s: %d counts, want %d", what, got, want)
		}
	}
	for n := range 90 {
		s.Recommend(t, servertest.Queue(targetIn("red", n), 3, 50))
	}
	wantCounts("90 new targets at once", 1)
	s.Clock.Advance(time.Minute)
	s.Recommend(t, servertest.Queue(targetIn("red", 0), 3, 50))
	s.Recommend(t, servertest.With(servertest.Queue(targetIn("red", 300), 3, 50), servertest.DryRun))
	wantCounts("a target that is there, and a dry run", 0)
	failing.Store(true)
	s.Recommend(t, servertest.Queue(targetIn("red", 200), 3, 50))
	wantCounts("a new target later", 1)
	failing.Store(false)
	// Others have filled the cluster meanwhile, and then left it.
	for n := range 9 {
		s.Put(t, targetIn("red", 400+n), s.Stored(t, targetIn("red", 0)))
	}
	s.Recommend(t, servertest.Queue(targetIn("blue", 1), 3, 50))
	s.Clock.Advance(5 * time.Second)
	_, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(targetIn("red", 201), 3, 50))
	wantCrowded(t, servertest.RPCProblem(err), "cluster_targets")
	counts.Store(0)
	for n := range 9 {
		if _, err := s.Memory.Delete(t.Context(), servertest.KeyOf(targetIn("red", 400+n))); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Recommendations.Recommend(t.Context(), servertest.Queue(targetIn("red", 201), 3, 50))
	wantCrowded(t, servertest.RPCProblem(err), "cluster_targets")
	wantCounts("a full cluster within a second", 0)
	s.Clock.Advance(time.Second)
	s.Recommend(t, servertest.Queue(targetIn("red", 201), 3, 50))
}

// kinds are the kinds of records that grow with each call: it makes a target, or makes what is
// stored of it larger by some bytes.
var kinds = map[string]func(s *servertest.Service, target string, call, bytes int) error{
	"history": func(s *servertest.Service, target string, call, bytes int) error {
		for i := range 1 + bytes/1000 { // an answer is kept for each
			req := servertest.Queue(target, 3, 50)
			req.RequestId = fmt.Sprintf("%d-%d", call, i)
			if _, err := s.Recommendations.Recommend(context.Background(), req); err != nil {
				return err
			}
		}
		return nil
	},
	"spec": func(s *servertest.Service, target string, call, bytes int) error {
		spec := servertest.QueueSpec(1, 10)
		spec.Spec.Metrics[0].External.Metric.Selector = &setpointv1.LabelSelector{MatchExpressions: []*setpointv1.LabelSelectorRequirement{{
			Key: "a", Operator: "In", Values: textsOf(bytes),
		}}}
		_, err := s.Targets.SetTargetSpec(context.Background(), &setpointv1.SetTargetSpecRequest{Name: target, TargetSpec: spec})
		return err
	},
	"observation": func(s *servertest.Service, target string, call, bytes int) error {
		report := &setpointv1.ReportObservationRequest{Target: target}
		for range 1 + bytes/26 {
			report.ExternalMetrics = append(report.ExternalMetrics, &setpointv1.ExternalMetric{Value: "1000000000000", Metric: &setpointv1.MetricIdentifier{Name: "queue"}})
		}
		_, err := s.Recommendations.ReportObservation(context.Background(), report)
		return err
	},
	"log": func(s *servertest.Service, target string, call, bytes int) error {
		_, err := s.Recommendations.Recommend(context.Background(), servertest.Queue(target, int32(3+call%2), 50))
		return err
	},
}

// textsOf are that many bytes together.
func textsOf(bytes int) (all []string) {
	for i := range bytes / 25 {
		all = append(all, fmt.Sprintf("v%022d", i))
	}
	return append(all, "v")
}

// At the maximum number of targets the existing ones continue, whatever is stored of them, and
// however much larger it becomes.
func TestExistingTargetsContinueAtTheBoundOfTargets(t *testing.T) {
	t.Parallel()
	const bound = 3
	onEngines(t, func(t *testing.T, start func(...func(*servertest.Setup)) *servertest.Service) {
		for kind, grow := range kinds {
			s := start(sharing(bound, 0))
			for call, bytes := range []int{0, 0, 500, 9000, 20_000} {
				for n := range bound {
					if err := grow(s, targetIn("red", n), call, bytes); err != nil {
						t.Errorf("%s of %d bytes for target %d: %v", kind, bytes, n, err)
					}
				}
				wantCrowded(t, servertest.RPCProblem(grow(s, targetIn("red", 99), call, bytes)), "cluster_targets")
			}
			if err := grow(s, targetIn("blue", 1), 0, 9000); err != nil {
				t.Errorf("%s of another cluster: %v", kind, err)
			}
		}
	})
}

// A cluster's specs, and its observations, take no more than their bytes, in however small steps
// they grow. Decisions on its targets continue.
func TestABoundOfBytesHoldsForSmallSteps(t *testing.T) {
	t.Parallel()
	const bound, step = 60_000, 300
	onEngines(t, func(t *testing.T, start func(...func(*servertest.Setup)) *servertest.Service) {
		for _, kind := range []string{"spec", "observation"} {
			s, stored := start(sharing(0, bound)), [5]int{}
			refused := false
			for call := range 2 * bound / step {
				n := call % len(stored)
				err := kinds[kind](s, targetIn("red", n), call, stored[n]+step)
				if err == nil {
					stored[n] += step
				} else {
					wantCrowded(t, servertest.RPCProblem(err), "cluster_bytes")
					refused = true
				}
				s.Clock.Advance(2 * time.Second)
			}
			sum := 0
			for n, bytes := range stored {
				sum += bytes
				if err := kinds[kind](s, targetIn("red", n), 0, bytes); err != nil {
					t.Errorf("%s that does not grow: %v", kind, err)
				}
				s.Recommend(t, servertest.Queue(targetIn("red", n), 3, 50))
			}
			if !refused || sum > bound || sum < bound/2 {
				t.Errorf("%s: %d bytes are stored, with a maximum of %d; refused: %t", kind, sum, bound, refused)
			}
			if err := kinds[kind](s, targetIn("blue", 1), 0, 5000); err != nil {
				t.Errorf("%s of another cluster: %v", kind, err)
			}
		}
	})
}
