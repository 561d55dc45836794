// Package flight is the Kubernetes form of flight recordings: API objects, as `setpoint replay`
// reads them from recordings of any controller.
//
//	recorder, err := flight.Open(flight.Options{File: "flight.jsonl.gz", Format: kubernetesflight.Format, Targets: client})
//
// The recorder is package clients/agent/flight.
package flight
