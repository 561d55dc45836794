// Package limit protects a server from overload: it decides for each call, in some tens of
// nanoseconds, whether it may run now, and why not. It does not depend on the wiring of gRPC or
// HTTP.
//
//	l, err := limit.New(limit.DefaultOptions())
//	…
//	var connection limit.Origin // one for each
//	var ticket limit.Ticket
//	if refusal := l.Enter(&ticket, &connection); refusal.Refused() { // as soon as the headers are read
//		return refusal.Err() // RESOURCE_EXHAUSTED with RetryInfo
//	}
//	defer ticket.Release()
//	ticket.Begin() // where the call's goroutine runs
//	ticket.Wait()  // it reads the call's message, which may take long
//	if refusal := ticket.Arrived(); refusal.Refused() {
//		return refusal.Err()
//	}
//	if refusal := ticket.Identify("agent-7", 1); refusal.Refused() { // the caller is known
//		return refusal.Err()
//	}
//
// There are three kinds of limits:
//
//   - Units in flight, of all callers. A call is one unit, or as many as its weight.
//   - Units in flight, units a second, and streams, of each identity.
//   - The number of running calls while the processors can't keep up (Shedding). It is derived from
//     how long runnable goroutines wait for a processor, as Go's scheduler reports. Waiting for a
//     store or for a slow caller's body is not overload: the processors are free, and the other
//     limits suffice.
//
// A call that waits for a third party or for its turn does not run meanwhile: see Ticket.Pause, and
// package waits, which calls it.
//
// A refusal costs next to nothing before the call's goroutine exists and its body is read, so that
// most of the processor time goes to admitted calls.
//
// Calls that must always be served, above all health checks, do not enter: see Exempt.
package limit
