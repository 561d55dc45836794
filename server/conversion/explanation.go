package conversion

import (
	"math"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

// The words of an explanation, by the recommender's constants.
var (
	calculations = [...]string{
		recommender.NoCalculation:                     "",
		recommender.UtilizationCalculation:            "Utilization",
		recommender.AverageValueCalculation:           "AverageValue",
		recommender.ValueCalculation:                  "Value",
		recommender.AverageValuePerReplicaCalculation: "AverageValuePerReplica",
	}
	proposalRules = [...]string{
		recommender.NoProposal:              "",
		recommender.Proportional:            "Proportional",
		recommender.Saturated:               "Saturated",
		recommender.WithinTolerance:         "WithinTolerance",
		recommender.DampenedWithinTolerance: "DampenedWithinTolerance",
		recommender.DampenedReversed:        "DampenedReversed",
		recommender.DampenedAgainstCurrent:  "DampenedAgainstCurrent",
	}
	podGroups = [...]string{
		recommender.PodReady:   "Ready",
		recommender.PodUnready: "Unready",
		recommender.PodMissing: "Missing",
		recommender.PodIgnored: "Ignored",
	}
	podRules = [...]string{
		recommender.RuleSampled:              "has a sample",
		recommender.RuleDeleting:             "being deleted",
		recommender.RuleFailed:               "phase Failed",
		recommender.RulePending:              "phase Pending",
		recommender.RuleNoSample:             "no sample",
		recommender.RuleNoReadyCondition:     "no Ready condition",
		recommender.RuleNoStartTime:          "no start time",
		recommender.RuleStartingUnready:      "not ready within the cpu initialization period",
		recommender.RuleStartingSampleTooOld: "sample taken before one window after it became ready, within the cpu initialization period",
		recommender.RuleNeverReady:           "unready since before the initial readiness delay was over",
	}
	directions = [...]string{recommender.NoDirection: "None", recommender.Up: "Up", recommender.Down: "Down"}
)

// explanation converts a decision's trace; nil if there is none.
func explanation(d *recommender.Decision) *setpointv1.Explanation {
	e := d.Explanation
	if e == nil {
		return nil
	}
	out := &setpointv1.Explanation{
		Profile:         e.Profile,
		Path:            d.Path.String(),
		EvaluationTime:  timestamppb.New(d.At),
		DesiredReplicas: d.Desired,
		Withheld:        withheld(e.Withheld),
		Warnings:        e.Warnings,
		History: &setpointv1.HistoryExplanation{
			Recommendations: int32(e.History.Recommendations),
			ScaleUps:        int32(e.History.ScaleUps), ScaleDowns: int32(e.History.ScaleDowns),
			YoungerThanWindow: e.History.Younger,
		},
	}
	out.History.OldestRecommendationTime = nanoseconds(e.History.Oldest)
	out.History.StartTime = nanoseconds(e.History.Since)
	for i := range e.Metrics {
		out.Metrics = append(out.Metrics, metricExplanation(&e.Metrics[i], e.Tolerances))
	}
	if e.Decided {
		out.Proposal = proposal(e)
	}
	if e.Stabilization.WindowsLen > 0 { // absent in a retraced decision whose steps are unknown
		out.Stabilization = stabilization(&e.Stabilization)
		out.RateLimit = rateLimit(e, d.At.UnixNano())
	}
	if e.Bounds.Reason != "" {
		b := &e.Bounds
		out.Bounds = &setpointv1.BoundsExplanation{
			MinReplicas: b.Min, MaxReplicas: b.Max,
			WantedReplicas: b.Wanted, BoundedReplicas: b.Bounded, Reason: string(b.Reason),
		}
	}
	return out
}

func metricExplanation(m *recommender.MetricEvaluation, t recommender.Tolerances) *setpointv1.MetricExplanation {
	out := &setpointv1.MetricExplanation{
		Type:            string(m.Spec.Type),
		Name:            m.Spec.Name(),
		Calculation:     calculations[m.Calculation],
		Target:          metricTarget(&m.Spec.Target, m.Current.Binary),
		Tolerance:       &setpointv1.ToleranceExplanation{ScaleUp: t.ScaleUp, ScaleDown: t.ScaleDown},
		Rule:            proposalRules[m.Rule],
		UnlistedSamples: int32(m.Unlisted),
		Series:          int32(m.Series),
		LeftOutPods:     int32(m.LeftOut),
	}
	if m.Instead == m.Spec.Metric.Name && m.Instead != "" { // a voter, which is no metric
		out.Name = m.Instead
	}
	if m.Failure != nil {
		out.Error = m.Failure.Inner
	} else {
		out.Current = metricValue(&m.Current)
		if !m.Unproposed {
			out.Proposal = &m.Proposal
		}
	}
	if m.Compared {
		out.UsageRatio = ratio(m.UsageRatio)
	}
	if m.Compared && (!m.Recalled || m.Calculation == recommender.ValueCalculation) {
		out.TotalUsage = formatMilli(m.TotalUsage, m.Current.Binary)
	}
	if m.Compared && !m.Recalled && m.Calculation == recommender.UtilizationCalculation {
		out.TotalRequests = formatMilli(m.TotalRequests, m.Current.Binary)
	}
	if m.Dampened {
		out.DampenedUsageRatio = ratio(m.DampenedRatio)
	}
	if m.Multiplied {
		out.ReplicasBase = &m.Base
	}
	if m.Counts != (recommender.PodCounts{}) {
		c := m.Counts
		out.PodCounts = &setpointv1.PodCounts{Ready: c.Ready, Unready: c.Unready, Missing: c.Missing, Ignored: c.Ignored}
	}
	for i := range m.Pods {
		out.Pods = append(out.Pods, podExplanation(&m.Pods[i], m.Current.Binary))
	}
	return out
}

// ratio converts a ratio; one that JSON cannot represent becomes the largest number.
func ratio(f float64) *float64 {
	switch {
	case math.IsInf(f, 1):
		f = math.MaxFloat64
	case math.IsInf(f, -1):
		f = -math.MaxFloat64
	case math.IsNaN(f):
		return nil
	}
	return &f
}

func metricTarget(t *recommender.MetricTarget, binary bool) *setpointv1.MetricTarget {
	out := &setpointv1.MetricTarget{Type: t.Type, AverageUtilization: t.AverageUtilization}
	if t.Value != nil {
		s := formatMilli(*t.Value, binary)
		out.Value = &s
	}
	if t.AverageValue != nil {
		s := formatMilli(*t.AverageValue, binary)
		out.AverageValue = &s
	}
	return out
}

func podExplanation(p *recommender.PodEvaluation, binary bool) *setpointv1.PodExplanation {
	out := &setpointv1.PodExplanation{Name: p.Name, Group: podGroups[p.Group], Reason: podRules[p.Rule]}
	set := func(field **string, milli int64, has bool) {
		if has {
			s := formatMilli(milli, binary)
			*field = &s
		}
	}
	set(&out.Usage, p.Usage, p.HasUsage)
	set(&out.Request, p.Request, p.HasRequest)
	set(&out.AssumedUsage, p.Assumed, p.HasAssumed)
	return out
}

func proposal(e *recommender.Explanation) *setpointv1.ProposalExplanation {
	out := &setpointv1.ProposalExplanation{Replicas: e.Proposal}
	if e.Winner >= 0 {
		index := int32(e.Winner)
		out.MetricIndex, out.Metric = &index, e.Metrics[e.Winner].Spec.Name()
	}
	return out
}

func stabilization(s *recommender.Stabilization) *setpointv1.StabilizationExplanation {
	out := &setpointv1.StabilizationExplanation{
		ProposedReplicas: s.Proposed, StabilizedReplicas: s.Stabilized, Reason: s.Reason,
	}
	for _, w := range s.Windows[:s.WindowsLen] {
		we := &setpointv1.WindowExplanation{
			Direction: directions[w.Direction], WindowSeconds: w.Length.Seconds(),
			Recommendations: w.Counted, Replicas: w.Replicas,
		}
		if w.Held {
			we.RecommendationTime = nanoseconds(w.HeldSince)
			we.ReleaseTime = nanoseconds(w.ReleasedAt)
			we.FullReleaseTime = nanoseconds(w.FullyReleasedAt)
		}
		out.Windows = append(out.Windows, we)
	}
	return out
}

func rateLimit(e *recommender.Explanation, now int64) *setpointv1.RateLimitExplanation {
	r := &e.RateLimit
	out := &setpointv1.RateLimitExplanation{
		Direction:    directions[r.Direction],
		SelectPolicy: string(r.SelectPolicy),
		Limited:      e.Bounds.Reason == recommender.ScaleUpLimit || e.Bounds.Reason == recommender.ScaleDownLimit,
	}
	if r.HasLimit {
		out.Limit = &r.Limit
	}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, &setpointv1.PolicyExplanation{
			Type: string(p.Policy.Type), Value: p.Policy.Value, PeriodSeconds: p.Policy.PeriodSeconds,
			PeriodStart: nanoseconds(now - int64(p.Policy.PeriodSeconds)*1e9),
			ScaledUp:    p.Up, ScaledDown: p.Down, PeriodStartReplicas: p.Start,
			Limit: p.Limit, Selected: p.Selected, ReleaseTime: nanoseconds(p.ReleasedAt),
		})
	}
	return out
}

// withheld converts a withheld scale-down; nil without one.
func withheld(w *recommender.Withheld) *setpointv1.WithheldExplanation {
	if w == nil {
		return nil
	}
	return &setpointv1.WithheldExplanation{Replicas: w.Replicas, Reason: w.Reason}
}
