package services_test

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// postOver makes a successful REST call, through the gateway or not.
func postOver(t *testing.T, s *servertest.Service, gateway bool, req *setpointv1.RecommendRequest) any {
	t.Helper()
	r := s.Request(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.JSON(t, req))
	if gateway {
		r.Header.Set(servertest.OverGateway, "30S")
	}
	answer := s.MustSend(t, r)
	return answer.Expect(t, http.StatusOK)
}

// The generation comes back with v1.37, by gRPC and REST, on the fast path and on the slow one.
func TestObservedGenerationIsAnswered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		profile string
		given   *int64
		want    string
	}{
		{"v1.37", new(int64(7)), "7"}, {"v1.37", new(int64(0)), "0"}, {"v1.37", new(int64(math.MaxInt64)), "9223372036854775807"},
		{"v1.37", nil, ""}, {"v1.36", new(int64(7)), ""},
	} {
		req := servertest.With(servertest.Queue(servertest.Web, 3, 30), func(r *setpointv1.RecommendRequest) {
			r.Generation, r.Options = tt.given, &setpointv1.RecommendOptions{Profile: tt.profile}
		})
		t.Run(fmt.Sprintf("%s gives %q", tt.profile, tt.want), func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			for path, changes := range map[string][]func(*setpointv1.RecommendRequest){"fast": nil, "slow": {servertest.TakeSlowPath}} {
				got := ""
				if status := s.Recommend(t, servertest.With(req, changes...)).GetStatus(); status.ObservedGeneration != nil {
					got = fmt.Sprint(status.GetObservedGeneration())
				}
				if got != tt.want {
					t.Errorf("gRPC, the %s path: %q, want %q", path, got, tt.want)
				}
			}
			for _, gateway := range []bool{false, true} {
				got := ""
				answer := postOver(t, s, gateway, req)
				status, _ := servertest.At(answer, "status").(map[string]any)
				if generation, there := status["observedGeneration"]; there {
					got = fmt.Sprint(generation)
				}
				if got != tt.want {
					t.Errorf("REST, gateway %t: %q, want %q", gateway, got, tt.want)
				}
			}
		})
	}
}

// Samples that no kubelet would report count as in the controller, and don't make the
// request fail: by gRPC and REST, on the fast path and the slow path.
func TestOddSamplesAreCounted(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(m *setpointv1.PodMetrics){
		"a negative window":                 func(m *setpointv1.PodMetrics) { m.WindowSeconds = -30 },
		"eleven years":                      func(m *setpointv1.PodMetrics) { m.WindowSeconds = (11 * 366 * 24 * time.Hour).Seconds() },
		"the longest window of Kubernetes":  func(m *setpointv1.PodMetrics) { m.WindowSeconds = time.Duration(math.MaxInt64).Seconds() },
		"the longest window there is":       func(m *setpointv1.PodMetrics) { m.WindowSeconds = math.MaxFloat64 },
		"the longest negative one there is": func(m *setpointv1.PodMetrics) { m.WindowSeconds = -math.MaxFloat64 },
		"no name of a pod":                  func(m *setpointv1.PodMetrics) { m.Pod = "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			req := servertest.WebRequest(t, func(r *setpointv1.RecommendRequest) {
				r.DryRun = true
				change(r.PodMetrics[0])
			})
			want := s.Recommend(t, req)
			if condition := want.GetStatus().GetConditions()[1]; condition.GetStatus() != "True" {
				t.Errorf("the metric is not read: %v", condition)
			}
			servertest.SameMessage(t, s.Recommend(t, servertest.With(req, servertest.TakeSlowPath)), want)
			for _, gateway := range []bool{false, true} {
				answer := postOver(t, s, gateway, req)
				if got := servertest.At(answer, "desiredReplicas"); got != float64(want.GetDesiredReplicas()) {
					t.Errorf("REST, gateway %t: %v, want %d", gateway, got, want.GetDesiredReplicas())
				}
			}
		})
	}
}
