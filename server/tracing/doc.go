// Package tracing sends traces of calls to an OpenTelemetry collector.
//
//	t, err := tracing.Open(ctx, tracing.Options{Endpoint: "collector:4317", Ratio: 0.01})
//	…
//	srv := grpc.NewServer(grpc.StatsHandler(t.ServerHandler()))
//	…
//	defer t.Close(ctx)
//
// Each call is a span, which continues the caller's trace where the call has a W3C
// traceparent. What the call asks of the store are spans within it. The steps of a
// decision are the span's events: they are what an explanation has, in few words.
//
// Where nothing is traced there is no Tracing, and nothing costs anything. Where it is,
// what is not sampled costs the handler and one look at the span.
package tracing
