// Package tracing sends traces of calls to an OpenTelemetry collector.
//
//	t, err := tracing.Open(ctx, tracing.Options{Endpoint: "collector:4317", Ratio: 0.01})
//	…
//	srv := grpc.NewServer(grpc.StatsHandler(t.ServerHandler(known)))
//	…
//	defer t.Close(ctx)
//
// Each call is a span, which continues the caller's trace if the call has a W3C
// traceparent. Operations of the store are child spans. The steps of a decision are the
// span's events: an explanation in brief.
//
// Without tracing there is no Tracing, and no cost. With it, a call that is not sampled
// costs the handler and one check of the span.
package tracing
