package recommender

import "strconv"

// selection is the combined result of several metrics.
type selection struct {
	// replicas is the largest proposal; winner is the index of its metric, -1
	// for none.
	replicas int32
	winner   int
	// name is where the proposal comes from, if that is no single metric; limited reports whether that is a limit.
	name    string
	limited bool
	// problem is set when a metric failed, even if the others decide.
	problem string
	// failed is the first failed metric if it keeps the others from deciding; else nil.
	failed *MetricFailure
}

// firstError comes before the error that the problem quotes.
const firstError = ", first error is: "

// selectProposal takes the largest proposal. A failed metric keeps the others from
// scaling down, because it might have proposed more. Upstream:
// computeReplicasForMetrics.
func selectProposal(metrics []MetricEvaluation, current int32, profile *Profile) selection {
	s := selection{winner: -1}
	var first, last *MetricFailure
	failures, leftOut := 0, 0
	for i := range metrics {
		e := &metrics[i]
		if e.Ignored {
			leftOut++
			continue
		}
		if e.Failure != nil {
			if first == nil {
				first = e.Failure
			}
			last = e.Failure
			failures++
			continue
		}
		// 0 means that there is none yet, so that a later proposal below it wins.
		if s.replicas == 0 || e.Proposal > s.replicas {
			s.replicas, s.winner = e.Proposal, i
		}
	}
	if first == nil {
		return s
	}
	all := len(metrics) - leftOut
	counts := strconv.Itoa(failures) + " invalid out of " + strconv.Itoa(all) + ")"
	blocked := failures == all || s.replicas < current
	switch profile.partialFailure {
	case failureBlocksDown:
		s.problem = "invalid metrics (" + counts + firstError + first.Outer
		if blocked {
			s.failed = first
		}
	case failureIgnored:
		if failures == all {
			s.problem, s.failed = "invalid metrics ("+counts+firstError+first.Outer, first
		}
	case lastFailureBlocksDown:
		if blocked {
			s.problem, s.failed = "Invalid metrics ("+counts+", last error was: "+last.Outer, last
		}
	case failureAborts:
		s.problem, s.failed = first.Outer, first
	}
	return s
}
