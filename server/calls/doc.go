// Package calls is what happens around each call over gRPC and REST, whatever it is about:
// it gets an id, is counted, logged and traced, has its time bounded, may not take the
// process with it, and is refused or waited for while the server stops.
//
//	observer := calls.NewObserver(counters, log, calls.LogFailed, nil)
//	drain := calls.NewDrain()
//	grpc.ChainUnaryInterceptor(observer.Unary, drain.Unary, calls.RecoverCalls(log), calls.WithDeadline(timeout))
//
// Who calls, what they may do and how much is not decided here.
package calls
