package server_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// slowPaths are the counts of requests that left the fast path, by stage and reason;
// those that are 0 left out.
func slowPaths(tb testing.TB, metrics *prometheus.Registry) map[string]float64 {
	tb.Helper()
	families, err := metrics.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "setpoint_requests_slow_path_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if v := m.GetCounter().GetValue(); v > 0 {
				counts[labels["stage"]+" "+labels["reason"]] = v
			}
		}
	}
	return counts
}

func TestRequestsThatDoNotGoTheShortWayAreCounted(t *testing.T) {
	t.Parallel()
	recommend := "/v1/" + web + ":recommend"
	for _, tt := range []struct {
		name string
		ask  func(*testing.T, *service)
		want string // "": none
	}{
		{"usual, over gRPC", func(t *testing.T, s *service) { s.recommend(t, webRequest(t)) }, ""},
		{"usual, over REST", func(t *testing.T, s *service) { s.ask(t, "POST", recommend, webRequest(t, withTarget(""))) }, ""},
		{"a field of another version", func(t *testing.T, s *service) {
			data, err := proto.Marshal(webRequest(t))
			if err != nil {
				t.Fatal(err)
			}
			data = protowire.AppendVarint(protowire.AppendTag(data, 9999, protowire.VarintType), 1)
			if _, err := s.callRaw(t, setpointv1.RecommendationService_Recommend_FullMethodName, data); err != nil {
				t.Fatal(err)
			}
		}, "decode unusual"},
		{"an instant, which callers may not choose", func(t *testing.T, s *service) {
			req := webRequest(t)
			req.EvaluationTime = timestamppb.New(t0)
			_, _ = s.recommendations.Recommend(t.Context(), req)
		}, "decode evaluation_time"},
		{"the target in the body and the path", func(t *testing.T, s *service) { s.ask(t, "POST", recommend, webRequest(t)) }, "rest unusual"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			metrics := prometheus.NewRegistry()
			s := start(t, func(su *setup) { su.options.Registerer, su.options.AllowEvaluationTime = metrics, false })
			tt.ask(t, s)
			got := slowPaths(t, metrics)
			if tt.want == "" && len(got) > 0 || tt.want != "" && got[tt.want] != 1 {
				t.Errorf("got %v, want %q", got, tt.want)
			}
		})
	}
}

func TestRequestsThatAPolicyConfiguresAreCountedToo(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	s := guarded(t, func(su *setup) { su.options.Registerer = metrics })
	if _, err := s.recommendations.Recommend(as(t.Context(), cappedToken), webRequest(t)); err != nil {
		t.Fatal(err)
	}
	if got := slowPaths(t, metrics); got["decode policy"] != 1 {
		t.Errorf("got %v, want one for the policy", got)
	}
}
