package stages

import (
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Fallback is what counts in place of a metric that fails.
type Fallback struct {
	// Metric is the index of the metric.
	Metric int
	// After is for how long it must have failed.
	After time.Duration
	// Replicas is the proposal; 0: LastGood for that long, or if that is 0, the metric is left out.
	Replicas int32
	LastGood time.Duration
	// UpOnly takes the current count where the proposal is below it.
	UpOnly bool
	// OfSpec reports whether it is the metric's own in the spec, as KEP-5679 has it, and not one of the stages.
	OfSpec bool
}

// DefaultFailureDuration is Fallback.After where a spec sets none, as in KEP-5679.
const DefaultFailureDuration = 180 * time.Second

// fallbacks gives failed metrics a proposal, and remembers since when they fail and what they proposed.
func (r *run) fallbacks(c *recommender.Combining) {
	var ignored []*Fallback
	for i := range r.plan.Fallbacks {
		f := &r.plan.Fallbacks[i]
		if f.Metric >= len(r.state.Metrics) {
			continue
		}
		e := r.evaluationOf(c, f.Metric)
		if e == nil || !r.failsFor(f, e) {
			continue
		}
		if f.Replicas == 0 && f.LastGood == 0 {
			ignored = append(ignored, f)
			continue
		}
		r.substitute(c, f, e)
	}
	if len(ignored) < len(c.Metrics) { // where none is left all fail, as in HPA
		for _, f := range ignored {
			e := r.evaluationOf(c, f.Metric)
			if r.least(f.Metric) > 0 && (r.plan.Combine == nil || r.plan.Combine.Method == Max) { // what is known still counts
				r.substitute(c, f, e)
				continue
			}
			e.Ignored, c.Edited = true, true
			r.inFallback(e, r.plan.Metrics[f.Metric])
			a := r.ofFallback(f)
			a.Message += "the decision is made without it"
			r.tell(a)
		}
	}
	for i := range r.state.Metrics {
		if !slices.ContainsFunc(r.plan.Fallbacks, func(f Fallback) bool { return f.Metric == i }) {
			m := &r.state.Metrics[i]
			m.FailingSince, m.Proposal, m.ProposedAt = 0, 0, 0
		}
	}
}

// failsFor reports whether a metric has failed for as long as its fallback waits.
func (r *run) failsFor(f *Fallback, e *recommender.MetricEvaluation) bool {
	m := &r.state.Metrics[f.Metric]
	if e.Failure == nil {
		m.FailingSince, m.Proposal, m.ProposedAt = 0, 0, 0
		if f.LastGood > 0 && f.Replicas == 0 {
			m.Proposal, m.ProposedAt = e.Proposal, r.now.UnixMilli()
		}
		return false
	}
	if m.FailingSince == 0 {
		if r.suspects != nil && r.suspects[f.Metric] {
			return false // the value may be true: the zero guard decides
		}
		m.FailingSince = r.now.UnixMilli()
	}
	return r.since(m.FailingSince) >= f.After
}

// since returns the time since an instant of the state.
func (r *run) since(at int64) time.Duration {
	return time.Duration(r.now.UnixMilli()-at) * time.Millisecond
}

// ofFallback is the adjustment of a metric in fallback; its message is to be continued.
func (r *run) ofFallback(f *Fallback) recommender.Adjustment {
	a := r.ofMetric(recommender.StageFallback, f.Metric)
	a.Message = fmt.Sprintf("%s has failed for %s, at least %s; ", a.Metric, r.since(r.state.Metrics[f.Metric].FailingSince), f.After)
	return a
}

// substitute gives a failed metric its fallback's proposal.
func (r *run) substitute(c *recommender.Combining, f *Fallback, e *recommender.MetricEvaluation) {
	a := r.ofFallback(f)
	proposal, what := f.Replicas, fmt.Sprintf("%d replicas are proposed instead", f.Replicas)
	switch {
	case f.Replicas > 0:
	case f.LastGood == 0:
		what = "the decision is made without what is not known of it"
	default:
		m := &r.state.Metrics[f.Metric]
		age := r.since(m.ProposedAt)
		if m.ProposedAt == 0 || age > f.LastGood {
			return
		}
		proposal = m.Proposal
		what = fmt.Sprintf("its last %d replicas, proposed %s ago, are proposed again", proposal, age)
		a.Until = time.UnixMilli(m.ProposedAt).UTC().Add(f.LastGood)
	}
	if least := r.least(f.Metric); proposal < least { // a scale-down below what is known to be needed helps nobody
		what += fmt.Sprintf(", but at least the %d that its known part asks for", least)
		proposal = least
	}
	if f.UpOnly && proposal < c.Current {
		what += fmt.Sprintf(", but at least the current %d", c.Current)
		proposal = c.Current
	}
	e.Failure, e.Proposal, e.Rule, c.Edited = nil, proposal, recommender.NoProposal, true
	e.Instead = "the fallback of " + a.Metric
	r.inFallback(e, a.Metric)
	a.After, a.Message = proposal, a.Message+what
	r.tell(a)
}

// inFallback notes a metric in fallback, for its condition.
func (r *run) inFallback(e *recommender.MetricEvaluation, name string) {
	of := &r.others
	if e.Spec.Type == recommender.ExternalMetric {
		of = &r.external
	}
	if *of != "" {
		*of += ", "
	}
	*of += name
}

// evaluationOf returns the evaluation of a metric of the plan, nil if there is none. Old versions of
// the controller have the metrics in another order.
func (r *run) evaluationOf(c *recommender.Combining, metric int) *recommender.MetricEvaluation {
	if metric >= len(r.plan.Metrics) {
		return nil
	}
	name, nth := r.plan.Metrics[metric], nthOf(r.plan.Metrics, metric)
	if nth == 0 && metric < len(c.Metrics) && !slices.Contains(r.plan.Metrics[metric+1:], name) && MetricName(c.Metrics[metric].Spec) == name {
		return &c.Metrics[metric]
	}
	for i := range c.Metrics {
		if MetricName(c.Metrics[i].Spec) != name {
			continue
		}
		if nth == 0 {
			return &c.Metrics[i]
		}
		nth--
	}
	return nil
}

// nthOf counts the metrics of the same name before one: their selectors tell them apart.
func nthOf(names []string, metric int) (nth int) {
	for _, name := range names[:metric] {
		if name == names[metric] {
			nth++
		}
	}
	return nth
}

// MetricName is the name of a metric as stages and queries know it: its type, its name, and its container.
func MetricName(m *recommender.MetricSpec) string {
	switch m.Type {
	case recommender.ResourceMetric:
		return string(m.Type) + ":" + m.Resource
	case recommender.ContainerResourceMetric:
		return string(m.Type) + ":" + m.Resource + ":" + m.Container
	}
	return string(m.Type) + ":" + m.Metric.Name
}
