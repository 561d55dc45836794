// Package counterfactual runs a spec against a recording in a closed loop: its decisions
// change what it observes next.
//
//	var meter counterfactual.Meter // has been shown all steps
//	loop := counterfactual.New(namespace, meter.Starts(), counterfactual.Options{})
//	for i := range steps {
//		outcome, err := loop.Step(&steps[i])
//	}
//
// The load is the measured usage of all pods together, which does not depend on their number.
// While the spec's count equals the recorded one, it observes exactly the recording, so that a
// recording's own spec reproduces the recorded counts. From the first different count on, its
// pods are modelled: additional ones start as the recorded ones did, and all ready pods share
// the load. Every decision is package recommender's.
//
// Each step reports what a recording can't show ([Outcome]): the load at instants without
// samples, and load that pods at their limit did not serve. Object and External metrics are
// used as recorded, whatever the count.
//
// Everything here is a pure function of its arguments.
package counterfactual
