package recommender

import "time"

// BasisProposals is the capacity of Basis.Proposals.
const BasisProposals = 4

// Basis is what limited a decision, in numbers, for later analysis. An Explanation has the
// details, but only for requests that ask for one. No decision depends on it. The zero value:
// nothing is known.
type Basis struct {
	// Min and Max are the spec's bounds, where Bounded.
	Min, Max int32
	Bounded  bool
	// Proposal is the replicas that the metrics propose, before stabilization, policies
	// and bounds, where Decided.
	Proposal int32
	Decided  bool
	// Limit is the replicas that policies allowed, upwards or downwards; HasLimit
	// reports whether a policy applied.
	Limit     int32
	Direction Direction
	HasLimit  bool
	// UpWindow and DownWindow are the stabilization windows in whole seconds, rounded
	// down, where Windowed.
	UpWindow, DownWindow int32
	Windowed             bool
	// Proposals are those of the first metrics, in the spec's order, -1 where one could
	// not be computed; ProposalsLen is their number. None unless Decided, and none in
	// the profile design-2015.
	Proposals    [BasisProposals]int32
	ProposalsLen int
}

// setBasis records the basis of the decision.
func (d *decider) setBasis() {
	b := &d.decision.Basis
	b.Min, b.Max, b.Bounded = d.in.Spec.MinReplicas, d.in.Spec.MaxReplicas, true
	if d.profile.algorithm == controllerAlgorithm {
		up, down := time.Duration(0), d.in.Options.DownscaleStabilization
		if d.behavior != nil {
			up, down = d.windows()
		}
		b.UpWindow, b.DownWindow, b.Windowed = seconds(up), seconds(down), true
	}
	t := &d.trace
	if !t.Decided {
		return
	}
	b.Proposal, b.Decided = t.Proposal, true
	b.Limit, b.Direction, b.HasLimit = t.RateLimit.Limit, t.RateLimit.Direction, t.RateLimit.HasLimit
	if d.profile.algorithm == designAlgorithm {
		return // it has only one proposal, stored elsewhere
	}
	for i := range min(len(d.scratch.metrics), len(d.in.Spec.Metrics), BasisProposals) {
		b.Proposals[i] = -1
		if m := &d.scratch.metrics[i]; m.Failure == nil {
			b.Proposals[i] = max(0, m.Proposal)
		}
		b.ProposalsLen++
	}
}

func seconds(length time.Duration) int32 { return toInt32(length.Seconds()) }
