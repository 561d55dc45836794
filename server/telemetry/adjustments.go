package telemetry

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Kinds of rules that have names of users: of a metric, a schedule or a caller's proposal.
const (
	ofMetric   = "metric"
	ofSchedule = "schedule"
	ofProposal = "proposal"
	otherRule  = "other"
)

// rulesOf are the rules of the stages, by the stages' words. What is not here counts as another one, so
// that the labels are a closed set.
var rulesOf = map[string][]string{
	recommender.StageBounds.String():    {ofSchedule, ofProposal},
	recommender.StageFreshness.String(): {ofMetric, "Resource"},
	recommender.StageZeroGuard.String(): {ofMetric},
	recommender.StageIdle.String():      {"cooldown", "activation"},
	recommender.StageSurge.String():     {ofMetric},
	recommender.StageFallback.String():  {ofMetric},
	recommender.StageProposal.String():  {ofProposal},
	recommender.StageSchedule.String():  {ofSchedule},
	recommender.StageCombine.String():   {"MIN", "QUORUM", "WEIGHTED", "SUM"},
	recommender.StageWindow.String():    {"failures"},
	recommender.StageReversals.String(): {"budget"},
	recommender.StageForecast.String():  {"floor"},
	recommender.StageOverride.String():  {"hold", "pin", "floor", "ceiling", "contradiction", "no-scale-down", "no-scale-up"},
}

// adjustments counts what stages changed.
type adjustments map[string]map[string]prometheus.Counter

func newAdjustments() (adjustments, prometheus.Collector) {
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "setpoint_adjustments_total", Help: "Adjustments of recorded decisions by stages and overrides, by stage and rule; names of schedules, proposals and metrics count as their kind.",
	}, []string{"stage", "rule"})
	all := make(adjustments)
	for _, stage := range recommender.StageNames() {
		all[stage] = make(map[string]prometheus.Counter)
		for _, rule := range append([]string{otherRule}, rulesOf[stage]...) {
			all[stage][rule] = vector.WithLabelValues(stage, rule)
		}
	}
	return all, vector
}

func (c adjustments) count(a *recommender.Adjusted) {
	if a == nil {
		return
	}
	for i := range a.Adjustments {
		one := &a.Adjustments[i]
		if one.Stage == recommender.StageForecast && one.After < 0 {
			continue // it is told with each decision
		}
		rules := c[one.Stage.String()]
		counter, known := rules[kindOf(one)]
		if !known {
			counter = rules[otherRule]
		}
		if counter != nil { // a stage of a newer version has none
			counter.Inc()
		}
	}
}

// kindOf is the rule, or what it is the name of.
func kindOf(a *recommender.Adjustment) string {
	if a.Metric != "" && a.Rule == a.Metric {
		return ofMetric
	}
	if kind, _, named := strings.Cut(a.Rule, "/"); named && (kind == ofSchedule || kind == ofProposal) {
		return kind
	}
	return a.Rule
}
