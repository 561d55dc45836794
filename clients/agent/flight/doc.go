// Package flight records what an agent sees and what comes of it, as recordings that
// `setpoint replay` takes: a scenario holds a row of reconciles of one object.
//
//	recorder, err := flight.Open(flight.Options{File: "flight.jsonl.gz", Targets: client})
//	// … agent.Options{Observers: []agent.Observer{recorder}}
//	err = recorder.Close() // what is in memory is written
//
// A scenario begins with the history that the service had of the target then, so that
// what was before does not matter. What can't be replayed exactly is left out, and ends
// its scenario: a request without an answer, a change without a known outcome, a
// shadow's change, which others settle. What is recorded assumes that
// the service decides with its default settings, or those that the object names.
//
// By default a scenario has the requests and answers as REST has them, whatever the
// platform. A platform whose recordings have a form of their own, as Kubernetes' have its
// objects, brings a [Format].
//
// The recorder never holds up a reconcile: what it can't take in is dropped and counted.
package flight
