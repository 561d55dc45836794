package decision_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// doubling is queue without behavior: recommendations of the last five minutes raise
// the count, which at most doubles.
func doubling(replicas, length int32, changes ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
	req := servertest.With(servertest.Queue(servertest.Web, replicas, length), changes...)
	req.Spec.Behavior = nil
	return req
}

// incarnation sets which of the objects with the target's name calls.
func incarnation(uid string) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.TargetUid = uid }
}

// What was recorded of a target that was deleted and made again does not hold the new
// one: where the recommendations of before would raise the count it stays.
func TestANamesakeBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, ask := range ways {
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
				s := servertest.Start(t)
				if got, _ := ask(t, s, doubling(3, 90, incarnation(tt.first))); got.GetDesiredReplicas() != 6 {
					t.Fatalf("desired %d at first, want 6", got.GetDesiredReplicas())
				}
				s.Clock.Advance(time.Second)
				if got, _ := ask(t, s, doubling(6, 20, incarnation(tt.then))); got.GetDesiredReplicas() != tt.want {
					t.Errorf("desired %d, want %d", got.GetDesiredReplicas(), tt.want)
				}
			})
		}
	}
}

// Neither its answers nor its reports count.
func TestANamesakesAnswersAndReports(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	first := s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), incarnation("a"), servertest.WithID("1")))
	again := s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), incarnation("b"), servertest.WithID("1")))
	if first.GetRecommendationId() == again.GetRecommendationId() {
		t.Error("another one got its namesake's answer")
	}
	_, err := s.Recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: servertest.Web, RecommendationId: first.GetRecommendationId(), Outcome: "APPLIED"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("a namesake's report: %v, want NOT_FOUND", err)
	}
}

// Who was deleted does not take the history of the living one along.
func TestDeleteSparesANamesake(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 50), incarnation("a")))
	_, err := s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web, TargetUid: "b"})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "another targetUid, and is kept") {
		t.Errorf("deleted as another one: %v, want NOT_FOUND of it alone", err)
	}
	s.Ask(t, http.MethodDelete, "/v1/"+servertest.Web+"?targetUid=b", nil).Expect(t, http.StatusNotFound)
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusOK)
	s.Ask(t, http.MethodDelete, "/v1/"+servertest.Web+"?targetUid=a", nil).Expect(t, http.StatusOK)
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusNotFound)
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)) // without an incarnation
	s.Ask(t, http.MethodDelete, "/v1/"+servertest.Web+"?targetUid=b", nil).Expect(t, http.StatusOK)
}
