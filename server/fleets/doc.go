// Package fleets answers the calls of fleets' members, and keeps the records of fleets and which fleet a target
// belongs to. Package fleet has the rules.
//
//	all, err := fleets.New(targets, engine, fleets.Options{…})
//	targets.Fleets = all
//
// A call is one compare-and-swap on the fleet's record: the spec and the record that this instance knows are used
// until a swap from them fails. The record has the version of the stored spec that it is under, and storing a spec
// changes the record, too, so that a spec that was replaced wins no swap.
package fleets
