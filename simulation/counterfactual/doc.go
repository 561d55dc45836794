// Package counterfactual runs a spec against a recording in a closed loop: what it decides
// changes what it sees next.
//
//	var meter counterfactual.Meter // has been shown all steps
//	loop := counterfactual.New(namespace, meter.Starts(), counterfactual.Options{})
//	for i := range steps {
//		outcome, err := loop.Step(&steps[i])
//	}
//
// The load is what was measured: the usage of all pods together, which does not depend on how
// many there are. As long as the spec has the count that was recorded it sees what was
// recorded, to the bit, so that a recording's own spec comes to what was recorded. From the
// first other count on its pods are modelled: more of them start as the recorded ones did, and
// all that are ready share the load. Every decision is package recommender's.
//
// What a recording can't tell stays unknown, and each step says so ([Outcome]): the load of
// instants without samples, and what pods at their limit left undone. Object and External
// metrics are taken as they were recorded, whatever the count.
//
// Everything here is a pure function of its arguments.
package counterfactual
