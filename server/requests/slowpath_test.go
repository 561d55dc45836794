package requests_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func TestRequestsThatDoNotGoTheShortWayAreCounted(t *testing.T) {
	t.Parallel()
	recommend := "/v1/" + servertest.Web + ":recommend"
	for _, tt := range []struct {
		name string
		ask  func(*testing.T, *servertest.Service)
		want string // "": none
	}{
		{"usual, over gRPC", func(t *testing.T, s *servertest.Service) { s.Recommend(t, servertest.WebRequest(t)) }, ""},
		{"usual, over REST", func(t *testing.T, s *servertest.Service) {
			s.Ask(t, "POST", recommend, servertest.WebRequest(t, servertest.WithTarget("")))
		}, ""},
		{"a field of another version", func(t *testing.T, s *servertest.Service) {
			data, err := proto.Marshal(servertest.WebRequest(t))
			fatal.If(t, err)
			data = protowire.AppendVarint(protowire.AppendTag(data, 9999, protowire.VarintType), 1)
			if _, err := s.SendRaw(t.Context(), setpointv1.RecommendationService_Recommend_FullMethodName, data); err != nil {
				t.Fatal(err)
			}
		}, "unusual of decode"},
		{"an instant, which callers may not choose", func(t *testing.T, s *servertest.Service) {
			req := servertest.WebRequest(t)
			req.EvaluationTime = timestamppb.New(servertest.T0)
			_, _ = s.Recommendations.Recommend(t.Context(), req)
		}, "evaluation_time of decode"},
		{"the target in the body and the path", func(t *testing.T, s *servertest.Service) { s.Ask(t, "POST", recommend, servertest.WebRequest(t)) }, "unusual of rest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			metrics := prometheus.NewRegistry()
			s := servertest.Start(t, func(su *servertest.Setup) { su.Options.Registerer, su.Options.AllowEvaluationTime = metrics, false })
			tt.ask(t, s)
			want := servertest.Reading{}
			if reason, stage, slow := strings.Cut(tt.want, " of "); slow {
				want["requests_slow_path_total{reason="+reason+",stage="+stage+"}"] = 1
			}
			servertest.Read(t, metrics).Since(servertest.Reading{}, "requests_slow_path_total").Expect(t, want)
		})
	}
}

func TestRequestsThatAPolicyConfiguresAreCountedToo(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	s := servertest.Guarded(t, func(su *servertest.Setup) { su.Options.Registerer = metrics })
	if _, err := s.Recommendations.Recommend(servertest.As(t.Context(), servertest.CappedToken), servertest.WebRequest(t)); err != nil {
		t.Fatal(err)
	}
	servertest.Read(t, metrics).Since(servertest.Reading{}, "requests_slow_path_total").Expect(t, servertest.Reading{"requests_slow_path_total{reason=policy,stage=decode}": 1})
}
