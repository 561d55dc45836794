package server_test

import (
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// doubling is queue without behavior: recommendations of the last five minutes raise
// the count, which at most doubles.
func doubling(replicas, length int32, changes ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
	req := with(queue(web, replicas, length), changes...)
	req.Spec.Behavior = nil
	return req
}

// incarnation sets which of the objects with the target's name calls.
func incarnation(uid string) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.TargetUid = uid }
}

// asks requests a recommendation in one of the possible ways.
type asks func(tb testing.TB, s *service, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse

var waysToAsk = map[string]asks{
	"call": func(tb testing.TB, s *service, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse {
		return s.recommend(tb, req)
	},
	"call on the slow path": func(tb testing.TB, s *service, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse {
		// No encoder gives a field twice.
		req = with(req)
		req.ProtoReflect().SetUnknown([]byte{15 << 3, 0, 15 << 3, 0})
		return s.recommend(tb, req)
	},
	"batch": func(tb testing.TB, s *service, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse {
		tb.Helper()
		answer, err := s.recommendations.BatchRecommend(tb.Context(), &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{req}})
		if err != nil {
			tb.Fatal(err)
		}
		return answer.GetResults()[0].GetResponse()
	},
	"stream": func(tb testing.TB, s *service, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse {
		stream := s.stream(tb)
		send(tb, stream, "1", req)
		return receive(tb, stream).GetResponse()
	},
	"REST": func(tb testing.TB, s *service, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse {
		tb.Helper()
		answer, overREST := s.ask(tb, http.MethodPost, recommendPath(req.GetTarget()), req), &setpointv1.RecommendResponse{}
		answer.expect(tb, http.StatusOK)
		answer.into(tb, overREST)
		return overREST
	},
}

// What was recorded of a target that was deleted and made again does not hold the new
// one: where the recommendations of before would raise the count it stays.
func TestANamesakeBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, ask := range waysToAsk {
		for _, tt := range []struct {
			name        string
			first, then string
			want        int32
		}{
			{"the same one is held by its history", "a", "a", 9},
			{"another one is not", "a", "b", 6},
			{"one that does not say is taken for the one that is known", "a", "", 9},
			{"what nobody is known to have asked for is taken over", "", "b", 9},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				s := start(t)
				if got := ask(t, s, doubling(3, 90, incarnation(tt.first))).GetDesiredReplicas(); got != 6 {
					t.Fatalf("desired %d at first, want 6", got)
				}
				s.clock.Advance(time.Second)
				if got := ask(t, s, doubling(6, 20, incarnation(tt.then))).GetDesiredReplicas(); got != tt.want {
					t.Errorf("desired %d, want %d", got, tt.want)
				}
			})
		}
	}
}

// Neither its answers nor its reports count.
func TestANamesakesAnswersAndReports(t *testing.T) {
	t.Parallel()
	s := start(t)
	first := s.recommend(t, with(queue(web, 3, 50), incarnation("a"), withID("1")))
	again := s.recommend(t, with(queue(web, 3, 50), incarnation("b"), withID("1")))
	if first.GetRecommendationId() == again.GetRecommendationId() {
		t.Error("another one got its namesake's answer")
	}
	_, err := s.recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: web, RecommendationId: first.GetRecommendationId(), Outcome: "APPLIED"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("a namesake's report: %v, want NOT_FOUND", err)
	}
}

// Who was deleted does not take the history of the living one along.
func TestDeleteSparesANamesake(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.recommend(t, with(queue(web, 3, 50), incarnation("a")))
	_, err := s.targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: web, TargetUid: "b"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("deleted as another one: %v, want NOT_FOUND", err)
	}
	s.ask(t, http.MethodDelete, "/v1/"+web+"?targetUid=b", nil).expect(t, http.StatusNotFound)
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusOK)
	s.ask(t, http.MethodDelete, "/v1/"+web+"?targetUid=a", nil).expect(t, http.StatusOK)
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusNotFound)
	s.recommend(t, queue(web, 3, 50)) // without an incarnation
	s.ask(t, http.MethodDelete, "/v1/"+web+"?targetUid=b", nil).expect(t, http.StatusOK)
}
