package recommender

import (
	"math"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/packed"
)

// Bounds of an outlook.
const (
	// OutlookDecisions is how many decisions an outlook makes at most.
	OutlookDecisions = 64
	// OutlookHorizon is how far it looks ahead.
	OutlookHorizon = 24 * time.Hour
)

// Outlook is what comes if the metrics' proposals stay as they were at the last decision.
type Outlook struct {
	// Replicas are those that the outlook starts from: the last decision's, if its change
	// was not reported as failed or dropped.
	Replicas int32
	// Proposal is what the metrics ask for together, at least 0; -1: it is unknown, because
	// metrics fail or were not read.
	Proposal int32
	// Path is that of a decision now.
	Path Path
	// Lowest and Highest are the least and the most replicas that a decision now can come to,
	// whatever those metrics propose that do not fail. Both are Replicas where nothing can change.
	Lowest, Highest int32
	// Hold is what keeps a decision now from the proposal.
	Hold Hold
	// Changes come one after the other, at most OutlookDecisions.
	Changes []OutlookChange
	// Until is the first instant of which the outlook says nothing: a limit of it, or the first
	// decision that depends on an unknown proposal, as that of a target of type Value at another count. The zero time: nothing comes after the changes.
	Until time.Time
	// End is why it says nothing from Until on.
	End OutlookEnd
}

// OutlookEnd is why an outlook ends.
type OutlookEnd uint8

// The ends.
const (
	// EndOfLimit: it looks no further ahead.
	EndOfLimit OutlookEnd = iota
	// EndUnread: a decision depends on metrics that the last one did not read.
	EndUnread
	// EndMultiple: a metric with a target of type Value proposes a multiple of the count, which is another one.
	EndMultiple
)

// OutlookChange is a change that comes.
type OutlookChange struct {
	// At is the instant of the decision.
	At time.Time
	// Replicas are those after it.
	Replicas int32
	// Hold is what keeps it from the proposal.
	Hold Hold
	// Doubtful reports whether the load may be within tolerance before this change, so that
	// neither it nor a later one comes. A proposal is a load rounded up: 90 replicas may be 89.5
	// replicas' worth, which at 99 replicas is within a tolerance of 0.1, or 89.05, which is not.
	Doubtful bool
}

// Hold is the rule that keeps a decision from the metrics' proposal. The zero value: none does, or
// no proposal is known, or (only in the profile "design-2015") it is within tolerance.
type Hold struct {
	// Reason is that of ScalingLimited where a policy or a bound of the spec holds, else that of
	// AbleToScale; a delay of "design-2015" has none.
	Reason string
	// Window is the stabilization window that holds, or the delay in "cooldown" and
	// "design-2015"; nil: neither does.
	Window *Window
	// Rate has the limit of the policies, where they hold, or of one evaluation without behavior;
	// nil: neither does.
	Rate *RateLimit
	// Until is the first instant at which the window lets the count go towards the proposal, or a policy may
	// allow more, in nanoseconds since the Unix epoch; 0: none is known, as for bounds, Disabled, and policies
	// that count no change yet.
	Until int64
}

// Outlook returns what comes if the metrics' proposals stay as they were at the last decision, the
// history's. It decides, on a copy of the history, as Recommend does, and takes each change as
// applied at once: at now, or the history's newest record if that is later, and then whenever
// something can change, at now plus a multiple of period, which is at least 1 ns. Nothing changes
// at the multiples in between. known is false for a target that was never evaluated.
//
// The same proposals mean the same load: of 100 replicas at 50 % of a target of 60 %, 84 are
// proposed, and that is what 84 replicas need however many there are meanwhile. A utilization that
// stayed would shrink or grow the count with each decision, without end, which no load does.
// Tolerance is in the proposals of the count that they were made for; at others see Doubtful.
// A metric with a target of type Value is no load that replicas share: it proposes a multiple of the count, so the outlook
// ends with the first evaluation at another count.
//
// Of in, only Spec, Options and Namespace count; basis is the last decision's, or the zero value: then
// the proposal is the one that the history recorded, which it does in all profiles but "cooldown" and
// "design-2015". Observed replicas are taken as equal to the requested ones, and readings as new.
func (h *History) Outlook(in *Input, basis *Basis, now time.Time, period time.Duration) (o Outlook, known bool) {
	return h.OutlookAround(nil, in, basis, now, period)
}

// Decide decides as Recommend does, with something around the decision, and returns the first instant after it at
// which that may do something else; the zero time: there is none.
type Decide func(at time.Time, in *Input, history *History) (Decision, History, time.Time)

// OutlookAround is Outlook of a target that decide decides, nil for Recommend. What is around a decision must not
// depend on readings.
func (h *History) OutlookAround(decide Decide, in *Input, basis *Basis, now time.Time, period time.Duration) (o Outlook, known bool) {
	if !h.Seen {
		return Outlook{}, false
	}
	if now.Before(h.Updated) {
		now = h.Updated
	}
	last := h.lastKnown(in, basis)
	if decide == nil {
		decide = func(at time.Time, in *Input, history *History) (Decision, History, time.Time) {
			d, next := Recommend(at, in, history)
			return d, next, time.Time{}
		}
	} else if !basis.Decided && last.path != PathScaleUnavailable && last.path != PathScalingDisabled {
		// An override may have replaced what tells of a bound: conditions and recommendations are older then.
		last.Decided, last.path = false, PathMetrics
	}
	o = Outlook{Replicas: h.Last.To, Proposal: failed}
	if h.Last.Outcome == Failed || h.Last.Outcome == Dropped {
		o.Replicas = h.Last.From
	}
	if last.Decided {
		o.Proposal = last.Proposal
	}
	repeated, profile := last.input(in), in.Options.profile()
	unread := !last.Decided && (last.path == PathMetrics || last.path == PathAboveMax || last.path == PathBelowMin || last.path == PathScalingDisabled)
	o.reach(decide, &repeated, now, h, h.possible(&last, profile))
	repeated.proposals = h.proposed(&last, profile)
	o.follow(decide, &repeated, now, max(1, period), h, unread)
	if unread && o.Path == PathMetricsFailed {
		o.Path = PathMetrics // nothing is known to fail
	}
	return o, true
}

// failed is in place of the proposal of a metric that fails.
const failed = -1

// proposals are the metrics' in the order of their evaluation; the last one is that of all further
// ones, too.
type proposals []int32

func (p proposals) evaluate(spec *MetricSpec, index int) MetricEvaluation {
	e := MetricEvaluation{Spec: spec, Proposal: p[min(index, len(p)-1)]}
	if e.Proposal == failed {
		e.Failure = &MetricFailure{Inner: "it failed at the last decision"}
	}
	return e
}

// proposed returns the proposals of the last decision.
func (h *History) proposed(last *lastKnown, profile *Profile) proposals {
	if !last.Decided {
		return proposals{failed}
	}
	all, metrics := append(proposals{}, last.Proposals[:last.ProposalsLen]...), h.readings(last, profile)
	for i := last.ProposalsLen; i < len(metrics); i++ { // the largest proposal stands for these
		if all = append(all, last.Proposal); metrics[i].Type == "" {
			all[i] = failed
		}
	}
	return append(all, last.Proposal)
}

// possible returns which metrics can propose something now: failed for those that can't.
func (h *History) possible(last *lastKnown, profile *Profile) proposals {
	switch {
	case last.Decided:
		return h.proposed(last, profile)
	case last.path != PathMetricsFailed:
		return proposals{0}
	case profile.keepsMetrics: // the status does not tell which ones fail
		return proposals{failed}
	}
	all := proposals{}
	for i := range h.Status.CurrentMetrics {
		if all = append(all, 0); h.Status.CurrentMetrics[i].Type == "" {
			all[i] = failed
		}
	}
	if len(all) == 0 {
		return proposals{failed}
	}
	return all
}

// reach sets Lowest and Highest: what the least and the greatest proposals come to.
func (o *Outlook) reach(decide Decide, in *Input, now time.Time, h *History, possible proposals) {
	in.Scale = Scale{o.Replicas, o.Replicas}
	o.Lowest, o.Highest = math.MaxInt32, math.MinInt32
	extremes := []int32{0, math.MaxInt32}
	if in.Options.profile().oneSidedWindows { // which may lead beyond the count, to the other side
		extremes = append(extremes, max(0, o.Replicas-1), max(0, o.Replicas))
	}
	for _, p := range extremes {
		in.proposals = make(proposals, len(possible))
		for i := range possible {
			if in.proposals[i] = p; possible[i] == failed {
				in.proposals[i] = failed
			}
		}
		d, _, _ := decide(now, in, h)
		o.Lowest, o.Highest = min(o.Lowest, d.Desired), max(o.Highest, d.Desired)
	}
}

// follow makes the decisions that may change something, up to the first one that depends on proposals that were not
// read, and sets the rest of the outlook.
func (o *Outlook) follow(decide Decide, in *Input, now time.Time, period time.Duration, h *History, unread bool) {
	in.Explain = true
	history, count, ahead := *h, o.Replicas, time.Duration(0)
	multiplied := slices.ContainsFunc(in.Spec.Metrics, func(m MetricSpec) bool { return m.calculation() == ValueCalculation })
	for i := 0; i < OutlookDecisions && ahead <= OutlookHorizon; i++ {
		in.Scale, in.ID[0] = Scale{count, count}, byte(i+1)
		at := now.Add(ahead)
		d, next, turn := decide(at, in, &history)
		hold, released := d.hold(&next), d.Explanation.released(at.UnixNano())
		if hold.Window != nil && !d.Changes() {
			released = hold.Until
		}
		if n := turn.UnixNano(); !turn.IsZero() && (released == 0 || n < released) {
			released = n
		}
		if i == 0 {
			o.Path, o.Hold = d.Path, hold
		}
		switch {
		case unread && d.Path == PathMetricsFailed:
			o.Until, o.End = at, EndUnread
			return
		case multiplied && d.Path == PathMetrics && count != h.Status.CurrentReplicas:
			if o.Until, o.End = at, EndMultiple; i == 0 {
				o.Proposal, o.Hold = failed, Hold{}
			}
			return
		case d.Changes():
			// The proposals were made for the count of the last evaluation.
			doubtful := d.Path == PathMetrics && count != h.Status.CurrentReplicas && d.Explanation.Tolerances.mayHold(o.Proposal, count)
			o.Changes = append(o.Changes, OutlookChange{at, d.Desired, hold, doubtful})
			ahead += period
		case released == 0:
			return
		default:
			wait := time.Duration(released - now.UnixNano())
			ahead = (wait-1)/period*period + period
		}
		history, count = next, d.Desired
	}
	o.Until = now.Add(min(ahead, OutlookHorizon+1))
}

// mayHold reports whether a load of more than proposal-1 replicas' worth, and at most proposal, may be
// within tolerance.
func (t Tolerances) mayHold(proposal, count int32) bool {
	if proposal > count {
		return t.within(math.Nextafter(float64(proposal-1)/float64(count), math.Inf(1)))
	}
	return t.within(float64(proposal) / float64(count))
}

// released returns the first instant after now at which a window or the period of a policy has one
// record less, in nanoseconds since the Unix epoch; 0: there is none.
func (e *Explanation) released(now int64) int64 {
	first := e.RateLimit.released(now)
	for _, w := range e.Stabilization.Windows[:e.Stabilization.WindowsLen] {
		if w.ReleasedAt > now && (first == 0 || w.ReleasedAt < first) {
			first = w.ReleasedAt
		}
	}
	return first
}

func (r *RateLimit) released(now int64) (first int64) {
	for i := range r.Policies {
		if at := r.Policies[i].ReleasedAt; at > now && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}

// overridden is the reason of a hold by an override.
const overridden = "Overridden"

// Last returns the last adjustment, nil: there is none.
func (a *Adjusted) Last() *Adjustment {
	if a == nil || len(a.Adjustments) == 0 {
		return nil
	}
	return &a.Adjustments[len(a.Adjustments)-1]
}

// hold returns what keeps the decision from the metrics' proposal; h is the history after it.
func (d *Decision) hold(h *History) Hold {
	if a := d.Adjusted.Last(); a != nil && a.Stage == StageOverride {
		h := Hold{Reason: overridden}
		if !a.Until.IsZero() {
			h.Until = a.Until.UnixNano()
		}
		return h
	}
	s, b, rate := &d.Explanation.Stabilization, &d.Explanation.Bounds, &d.Explanation.RateLimit
	switch {
	case b.Bounded != b.Wanted && b.Bounded == d.Desired:
		if b.Reason == ScaleUpLimit || b.Reason == ScaleDownLimit {
			return Hold{Reason: string(b.Reason), Rate: rate, Until: rate.released(d.At.UnixNano())}
		}
		return Hold{Reason: string(b.Reason)}
	case s.Stabilized != s.Proposed:
		for i := range s.Windows[:s.WindowsLen] {
			if w := &s.Windows[i]; w.Held && (s.WindowsLen == 1 || (w.Direction == Up) == (s.Proposed > d.Current)) {
				return Hold{Reason: s.Reason, Window: w, Until: h.letsGo(w, d.Desired)}
			}
		}
	}
	return Hold{}
}

// letsGo returns when the last recommendation leaves a window that holds a count there. It may be a later and less
// safe one than the window's safest, which leaves at ReleasedAt.
func (h *History) letsGo(w *Window, count int32) int64 {
	list, last := h.Recommendations, w.ReleasedAt
	if last == w.FullyReleasedAt {
		return last // also of a delay, which has no recommendations
	}
	if h.Packed != nil {
		list = packed.All[TimedRecommendation](h.Packed)
	}
	for _, r := range list {
		if r.Replicas == count || w.holds(r.Replicas, count) {
			last = max(last, r.At+w.ReleasedAt-w.HeldSince)
		}
	}
	return last
}
