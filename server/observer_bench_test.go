package server

import (
	"context"
	"net"
	"testing"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/telemetry"
)

// headers is what gRPC gives an interceptor to answer headers with.
type headers struct{ md metadata.MD }

func (*headers) Method() string                    { return "" }
func (h *headers) SetHeader(md metadata.MD) error  { h.md = metadata.Join(h.md, md); return nil }
func (h *headers) SendHeader(md metadata.MD) error { return h.SetHeader(md) }
func (*headers) SetTrailer(metadata.MD) error      { return nil }

// BenchmarkObserver measures the cost of observing a unary call, without gRPC's cost of
// the header that it sets.
func BenchmarkObserver(b *testing.B) {
	options := DefaultOptions()
	options.Log = zap.NewNop()
	o := calls.NewObserver(telemetry.NewCalls(methods()...), options.Log, options.LogCalls, options.Tracing)
	base := peer.NewContext(b.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}})
	info := &grpc.UnaryServerInfo{FullMethod: setpointv1.RecommendationService_Recommend_FullMethodName}
	answer := &encoded.Message{}
	handler := func(context.Context, any) (any, error) { return answer, nil }
	for name, md := range map[string]metadata.MD{
		"id=none": {"content-type": {"application/grpc"}, "user-agent": {"grpc-go"}, ":authority": {"x"}},
		"id=sent": {"content-type": {"application/grpc"}, "user-agent": {"grpc-go"}, ":authority": {"x"}, calls.RequestIDKey: {"abc"}},
	} {
		b.Run(name, func(b *testing.B) {
			ctx := metadata.NewIncomingContext(base, md)
			b.ReportAllocs()
			for b.Loop() {
				ctx := grpc.NewContextWithServerTransportStream(ctx, &headers{})
				_, _ = o.Unary(ctx, answer, info, handler)
			}
		})
	}
	b.Run("counts only", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m := o.Calls.Of(info.FullMethod)
			m.Begin()
			m.End(0, 1e5)
		}
	})
}

// BenchmarkCountDecision measures what counting a decision costs.
func BenchmarkCountDecision(b *testing.B) {
	counts := telemetry.NewDecisions()
	d := recommender.Decision{Current: 3, Desired: 3, Status: recommender.Status{Conditions: []recommender.Condition{
		{Type: recommender.AbleToScale, Status: recommender.ConditionTrue, Reason: "ScaleDownStabilized"},
		{Type: recommender.ScalingActive, Status: recommender.ConditionTrue, Reason: "ValidMetricFound"},
		{Type: recommender.ScalingLimited, Status: recommender.ConditionTrue, Reason: "TooManyReplicas"},
	}}}
	b.ReportAllocs()
	for b.Loop() {
		counts.Recorded(&d)
	}
}
