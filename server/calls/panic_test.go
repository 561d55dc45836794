package calls_test

import (
	"context"
	"net/http"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

// panicky panics on loads of the target named "boom", and records the log.
func panicky(su *servertest.Setup) *observer.ObservedLogs {
	core, logs := observer.New(zap.ErrorLevel)
	su.Options.Log = zap.New(core)
	su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
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
		make func(*testing.T, *servertest.Service) servertest.Problem
	}{
		{"Recommend", func(t *testing.T, s *servertest.Service) servertest.Problem {
			_, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(boom, 3, 50))
			return servertest.RPCProblem(err)
		}},
		{"Recommend over REST", func(t *testing.T, s *servertest.Service) servertest.Problem {
			a := s.Ask(t, http.MethodPost, servertest.RecommendPath(boom), servertest.Queue(boom, 3, 50))
			a.Expect(t, http.StatusInternalServerError)
			return a.Problem(t)
		}},
		{"BatchRecommend", func(t *testing.T, s *servertest.Service) servertest.Problem {
			_, err := s.Recommendations.BatchRecommend(t.Context(), &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{servertest.Queue(boom, 3, 50)}})
			return servertest.RPCProblem(err)
		}},
		{"StreamRecommend", func(t *testing.T, s *servertest.Service) servertest.Problem {
			stream := s.Stream(t)
			servertest.Send(t, stream, "boom", servertest.Queue(boom, 3, 50))
			resp := servertest.Receive(t, stream)
			if resp.GetId() != "boom" {
				t.Errorf("the answer has the id %q, which matches no request", resp.GetId())
			}
			servertest.Send(t, stream, "after", servertest.Queue(servertest.Web, 3, 50))
			if after := servertest.Receive(t, stream); after.GetResponse() == nil {
				t.Errorf("after the panic the stream answers %v", after)
			}
			return servertest.ProblemOf(resp.GetError())
		}},
		{"ReportScale", func(t *testing.T, s *servertest.Service) servertest.Problem {
			_, err := s.Recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: boom, RecommendationId: "00000000000000000000000000000001", Outcome: "APPLIED"})
			return servertest.RPCProblem(err)
		}},
		{"GetTarget", func(t *testing.T, s *servertest.Service) servertest.Problem {
			_, err := s.Targets.GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: boom})
			return servertest.RPCProblem(err)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var logs *observer.ObservedLogs
			s := servertest.Start(t, func(su *servertest.Setup) { logs = panicky(su) })
			got := tt.make(t, s)
			if got.Code != codes.Internal || got.Message != "internal error" {
				t.Errorf("got %v %q, want INTERNAL and no more", got.Code, got.Message)
			}
			panics := logs.FilterMessage("panic").All()
			if len(panics) != 1 {
				t.Fatalf("%d panics are logged, want 1", len(panics))
			}
			if stack, _ := panics[0].ContextMap()["stack"].(string); stack == "" {
				t.Error("the log does not say where it was")
			}
			s.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
		})
	}
}
