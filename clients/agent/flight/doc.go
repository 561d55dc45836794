// Package flight records an agent's observations and decisions for `setpoint replay`: a
// scenario is a sequence of reconciles of one object.
//
//	recorder, err := flight.Open(flight.Options{File: "flight.jsonl.gz", Targets: client})
//	// … agent.Options{Observers: []agent.Observer{recorder}}
//	err = recorder.Close() // flushes
//
// A scenario begins with the service's history of the target, so that earlier reconciles do not
// matter. A reconcile that can't be replayed exactly is left out and ends its scenario: a
// request without an answer, a change without a known outcome, a shadow's change. A recording
// assumes that the service decides with its default settings, or those of the object.
//
// A scenario stores requests and answers as in REST, whatever the platform.
//
// The recorder never blocks a reconcile: when its queue is full it drops decisions and counts
// them.
package flight
