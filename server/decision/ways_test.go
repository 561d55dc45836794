package decision_test

import (
	"net/http"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// way makes a request, by one of the possible ways; its answer, or what is wrong.
type way = func(tb testing.TB, s *servertest.Service, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, servertest.Problem)

// ways are all ways of a request to its response or error.
var ways = map[string]way{
	"call": recommendOnce,
	"call on the slow path": func(tb testing.TB, s *servertest.Service, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, servertest.Problem) {
		tb.Helper()
		return recommendOnce(tb, s, servertest.With(req, servertest.TakeSlowPath))
	},
	"batch": func(tb testing.TB, s *servertest.Service, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, servertest.Problem) {
		tb.Helper()
		result := s.Batch(tb, req)[0]
		return result.GetResponse(), servertest.ProblemOf(result.GetError())
	},
	"stream": func(tb testing.TB, s *servertest.Service, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, servertest.Problem) {
		tb.Helper()
		stream := s.Stream(tb)
		servertest.Send(tb, stream, "1", req)
		resp := servertest.Receive(tb, stream)
		return resp.GetResponse(), servertest.ProblemOf(resp.GetError())
	},
	"REST": func(tb testing.TB, s *servertest.Service, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, servertest.Problem) {
		tb.Helper()
		a, resp := s.Ask(tb, http.MethodPost, servertest.RecommendPath(req.GetTarget()), req), &setpointv1.RecommendResponse{}
		if a.Code != http.StatusOK {
			return nil, a.Problem(tb)
		}
		a.Into(tb, resp)
		return resp, servertest.Problem{}
	},
}

func recommendOnce(tb testing.TB, s *servertest.Service, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, servertest.Problem) {
	tb.Helper()
	resp, err := s.Recommendations.Recommend(tb.Context(), req)
	return resp, servertest.RPCProblem(err)
}
