// Package telemetry counts what the server does, for Prometheus: calls, answers,
// decisions, and, where that is wanted, the replicas of each target.
//
//	calls := telemetry.NewCalls(telemetry.MethodsOf(grpcServer.GetServiceInfo())...)
//	…
//	call := calls.Of(info.FullMethod).Begin()
//	defer func() { call.End(status.Code(err)) }()
//
// Labels take few values, all known beforehand, and what can be counted is there from
// the start: a series that appears with its first event hides that event from rate().
// Only Targets has labels that callers choose; it takes so many targets and no more.
//
// Counting allocates nothing.
package telemetry
