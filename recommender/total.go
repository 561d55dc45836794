package recommender

import "math"

// proposeValue proposes for a total that is compared with the target as a whole.
// Upstream: getUsageRatioReplicaCount.
func proposeValue(d *decider, e *MetricEvaluation, usage, target int64) (problem string) {
	ratio := float64(usage) / float64(target)
	e.UsageRatio, e.Compared = ratio, true
	if d.current == 0 {
		e.propose(math.Ceil(ratio), 1, false)
		return ""
	}
	noPods := d.pods() == 0
	onTarget := d.tolerances.within(ratio)
	demandsPods := d.profile.podsBeforeTolerance && e.Spec.Type == ExternalMetric
	switch {
	case noPods && (!onTarget || demandsPods):
		return "unable to calculate ready pods: no pods returned by selector while calculating replica count"
	case onTarget:
		e.hold(d.current, WithinTolerance)
		return ""
	}
	ready := d.ready()
	e.Counts.Ready = int32(ready)
	e.propose(math.Ceil(ratio*float64(ready)), ready, true)
	return ""
}

// proposeAverageValue proposes for a total divided by the observed replicas, and
// returns that average. Within tolerance it proposes the observed replicas, not the
// current ones. Upstream: GetObjectPerPodMetricReplicas and
// GetExternalPerPodMetricReplicas.
func proposeAverageValue(d *decider, e *MetricEvaluation, usage, target int64) (average int64) {
	observed := d.in.Scale.StatusReplicas
	ratio := float64(usage) / (float64(target) * float64(observed))
	e.UsageRatio, e.Compared = ratio, true
	if d.tolerances.within(ratio) || d.tolerances.byDistance && math.IsNaN(ratio) {
		e.hold(observed, WithinTolerance) // NaN has no distance from anything
	} else {
		e.propose(math.Ceil(float64(usage)/float64(target)), int(observed), false)
	}
	return toInt64(math.Ceil(float64(usage) / float64(observed)))
}

// sumForValue sums series for a total target: it saturates at the largest integer;
// negative totals remain.
func sumForValue(values []Value, uncapped bool) int64 {
	var sum int64
	for i := range values {
		v := values[i].Milli
		if v > 0 && sum > math.MaxInt64-v && !uncapped {
			return math.MaxInt64
		}
		sum += v
	}
	return sum
}

// sumForAverageValue sums series for a target per replica: like upstream, it takes any
// sum below zero for an overflow, even if a series is negative.
func sumForAverageValue(values []Value, uncapped bool) int64 {
	var sum int64
	for i := range values {
		if sum += values[i].Milli; sum < 0 && !uncapped {
			return math.MaxInt64
		}
	}
	return sum
}
