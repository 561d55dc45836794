// Package calls wraps each call over gRPC and REST: it gives the call an id, counts, logs and
// traces it, bounds its time, recovers from panics, and while the server stops refuses the call or
// waits for its end.
//
//	observer := calls.NewObserver(counters, log, calls.LogFailed, nil)
//	drain := calls.NewDrain()
//	grpc.ChainUnaryInterceptor(observer.Unary, drain.Unary, calls.RecoverCalls(log), calls.WithDeadline(timeout))
//
// Authentication, authorization and limits are not part of it.
package calls
