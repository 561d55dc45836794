// Package limit keeps a server up under load: it says of each call, in some tens of
// nanoseconds, whether it may run now, and why not. It knows nothing of gRPC's or
// HTTP's wiring.
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
// Three things bound a call:
//
//   - Units in flight, of all callers. A call is one unit, or as many as its weight.
//   - Units in flight, units a second, and streams, of each identity.
//   - How many calls run at once while the processors can't keep up (Shedding). It is
//     learned from how long goroutines that could run wait for a processor, as Go's
//     scheduler tells. Waiting for a store or for a slow caller's body is no overload: the
//     processors are free, and the other bounds suffice.
//
// A refusal costs next to nothing, if it is done before its goroutine exists and
// its body is read, so that most of the time goes to calls that are answered.
//
// What must answer always, health checks above all, does not enter: see Exempt.
package limit
