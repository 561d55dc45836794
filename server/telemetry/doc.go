// Package telemetry has counters for Prometheus: calls, results, decisions, and
// optionally the replicas of each target.
//
//	calls := telemetry.NewCalls(telemetry.MethodsOf(grpcServer.GetServiceInfo())...)
//	…
//	call, began := calls.Of(info.FullMethod), time.Now()
//	call.Begin()
//	defer func() { call.End(status.Code(err), time.Since(began)) }()
//
// Labels have few values, all known in advance, and every series exists from the start:
// a series that appears with its first event hides that event from rate(). Only Targets
// has labels that callers choose; it limits their number.
//
// Counting allocates nothing.
package telemetry
