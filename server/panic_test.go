package server_test

import (
	"context"
	"net/http"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/store"
)

// panicky panics on loads of the target named "boom", and records the log.
func panicky(su *setup) *observer.ObservedLogs {
	core, logs := observer.New(zap.ErrorLevel)
	su.options.Log = zap.New(core)
	su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
		if key.Target == "boom" {
			panic("a secret of the server")
		}
		return load(ctx, key)
	}
	return logs
}

const boom = "clusters/demo/namespaces/shop/targets/boom"

// A panic is one call's INTERNAL. It is logged with where it was; the caller does
// not learn of it.
func TestAPanicIsInternalAndTheServerGoesOn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		make func(*testing.T, *service) problem
	}{
		{"Recommend", func(t *testing.T, s *service) problem {
			_, err := s.recommendations.Recommend(t.Context(), queue(boom, 3, 50))
			return rpcProblem(err)
		}},
		{"Recommend over REST", func(t *testing.T, s *service) problem {
			a := s.ask(t, http.MethodPost, recommendPath(boom), queue(boom, 3, 50))
			a.expect(t, http.StatusInternalServerError)
			return a.problem(t)
		}},
		{"BatchRecommend", func(t *testing.T, s *service) problem {
			_, err := s.recommendations.BatchRecommend(t.Context(), &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{queue(boom, 3, 50)}})
			return rpcProblem(err)
		}},
		{"StreamRecommend", func(t *testing.T, s *service) problem {
			stream := s.stream(t)
			send(t, stream, "boom", queue(boom, 3, 50))
			resp := receive(t, stream)
			if resp.GetId() != "boom" {
				t.Errorf("the answer has the id %q, which matches no request", resp.GetId())
			}
			send(t, stream, "after", queue(web, 3, 50))
			if after := receive(t, stream); after.GetResponse() == nil {
				t.Errorf("after the panic the stream answers %v", after)
			}
			return problemOf(resp.GetError())
		}},
		{"ReportScale", func(t *testing.T, s *service) problem {
			_, err := s.recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: boom, RecommendationId: "00000000000000000000000000000001", Outcome: "APPLIED"})
			return rpcProblem(err)
		}},
		{"GetTarget", func(t *testing.T, s *service) problem {
			_, err := s.targets.GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: boom})
			return rpcProblem(err)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var logs *observer.ObservedLogs
			s := start(t, func(su *setup) { logs = panicky(su) })
			got := tt.make(t, s)
			if got.code != codes.Internal || got.message != "internal error" {
				t.Errorf("got %v %q, want INTERNAL and no more", got.code, got.message)
			}
			panics := logs.FilterMessage("panic").All()
			if len(panics) != 1 {
				t.Fatalf("%d panics are logged, want 1", len(panics))
			}
			if stack, _ := panics[0].ContextMap()["stack"].(string); stack == "" {
				t.Error("the log does not say where it was")
			}
			s.recommend(t, queue(web, 3, 50))
		})
	}
}
