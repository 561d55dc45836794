// Package flight is the form that flight recordings of Kubernetes have: the objects of the
// API, as `setpoint replay` takes them of any recorded controller.
//
//	recorder, err := flight.Open(flight.Options{File: "flight.jsonl.gz", Format: kubernetesflight.Format, Targets: client})
//
// Package clients/agent/flight is the recorder.
package flight
