package recommender

import (
	"fmt"
	"math"
)

// The controller's integers wrap and its conversions overflow silently; an explanation
// says where that happened. All of it is computed again here, in floating point, and
// only for explanations.

func (d *decider) warn(format string, args ...any) {
	d.trace.Warnings = append(d.trace.Warnings, fmt.Sprintf(format, args...))
}

// warnOf warns where the computation of a metric overflowed. The samples of the metric
// must still be in the scratch space.
func (d *decider) warnOf(index int, e *MetricEvaluation) {
	name := e.Spec.Name()
	switch e.Calculation {
	case UtilizationCalculation, AverageValueCalculation:
		d.warnOfPods(index, e, name)
	case ValueCalculation, AverageValuePerReplicaCalculation:
		d.warnOfTotal(e, name)
	}
	switch {
	case e.Rule != Saturated:
	case e.Proposal < 0:
		d.warn("%s: the proposal is far below 0 and stays at the smallest number, as the Kubernetes controller's does", name)
	case d.capsProposal(e):
		d.warn("%s: the proposal is beyond the range of a count and stays at the largest, as the Kubernetes controller's does", name)
	default:
		d.warn("%s: the proposal is beyond the range of a count and saturates at %d; the Kubernetes controller's result depends on the processor", name, e.Proposal)
	}
}

// capsProposal reports whether upstream itself caps the proposal of a metric.
func (d *decider) capsProposal(e *MetricEvaluation) bool {
	if d.profile.uncappedSums || math.IsNaN(e.UsageRatio) {
		return false
	}
	switch e.Calculation {
	case ValueCalculation:
		return d.current != 0
	case AverageValuePerReplicaCalculation:
		return e.Spec.Type == ExternalMetric
	}
	return false
}

func (d *decider) warnOfPods(index int, e *MetricEvaluation, name string) {
	if !e.Compared {
		return
	}
	var usage, requests float64
	for i := range d.scratch.samples.pods {
		if s := &d.scratch.samples.pods[i]; s.group == PodReady {
			usage += float64(s.value)
			requests += float64(s.request)
		}
	}
	if e.Calculation == AverageValueCalculation {
		for _, v := range d.scratch.samples.unlisted {
			usage += float64(v)
		}
	}
	var sums MetricSums
	if d.in.Sums != nil {
		sums = *d.sumsOf(index)
	}
	switch {
	case outOfInt64(usage) || sums.UsageWraps:
		d.warn("%s: the sum of the usages is beyond 64 bits of milli-units and wrapped, as the Kubernetes controller's does", name)
	case e.Calculation != UtilizationCalculation:
	case outOfInt64(requests) || sums.RequestsWrap:
		d.warn("%s: the sum of the requests is beyond 64 bits of milli-units and wrapped, as the Kubernetes controller's does", name)
	case e.TotalUsage > math.MaxInt64/100 || e.TotalUsage < math.MinInt64/100:
		d.warn("%s: 100 times the usage is beyond 64 bits of milli-units and wrapped, as the Kubernetes controller's does", name)
	case e.TotalUsage*100/e.TotalRequests != int64(e.Current.AverageUtilization):
		d.warn("%s: the percentage is beyond 32 bits and lost its upper ones, as the Kubernetes controller's does", name)
	}
}

func (d *decider) warnOfTotal(e *MetricEvaluation, name string) {
	if e.Compared && e.Calculation == AverageValuePerReplicaCalculation {
		switch observed := d.in.Scale.StatusReplicas; {
		case observed == 0:
			d.warn("%s: no replicas are observed, so the average shown is that of a division by 0", name)
		case e.Spec.Type == ExternalMetric && float64(e.TotalUsage) >= math.MaxInt64 && !d.profile.uncappedSums:
			// Upstream caps the sum, and shows it undivided.
		case outOfInt64(math.Ceil(float64(e.TotalUsage) / float64(observed))):
			d.warn("%s: the average shown is beyond 64 bits of milli-units and saturates; the Kubernetes controller's result depends on the processor", name)
		}
	}
	if e.Spec.Type != ExternalMetric || e.TotalUsage != math.MaxInt64 || d.profile.uncappedSums {
		return
	}
	if e.Calculation == AverageValuePerReplicaCalculation {
		d.warn("%s: the sum of the series fell below 0 or beyond 64 bits of milli-units; both count as the largest number, as in the Kubernetes controller", name)
		return
	}
	d.warn("%s: the sum of the series is beyond 64 bits of milli-units and stays at the largest number, as the Kubernetes controller's does", name)
}

// warnOfHistoryLimit warns of records that may count for longer since a list of the
// history exceeded its limit.
func (d *decider) warnOfHistoryLimit(list, holder string) {
	if d.in.Explain {
		d.warn("more %s than the history's limit of %d came within the longest window: %s may hold the count for longer than in the Kubernetes controller",
			list, d.in.Options.historyLimit(), holder)
	}
}

// warnOfGrowth warns of a growth limit that overflowed.
func (d *decider) warnOfGrowth() {
	if d.in.Explain && outOfInt32(scaleUpLimitFactor*float64(d.current)) {
		d.warn("the limit of growth is beyond the range of a count and saturates; the Kubernetes controller's result depends on the processor")
	}
}

// warnOfLimit warns of a policy whose limit overflowed.
func (d *decider) warnOfLimit(direction Direction, l *PolicyLimit) {
	start, value := float64(l.Start), float64(l.Policy.Value)
	limit := start + value
	switch {
	case l.Policy.Type == PercentPolicy && direction == Up:
		limit = start * (1 + value/100)
	case l.Policy.Type == PercentPolicy:
		limit = start * (1 - value/100)
	case direction == Down:
		limit = start - value
	}
	switch {
	case !outOfInt32(limit):
	case l.Policy.Type == PercentPolicy:
		d.warn("policy %s %d/%ds: its limit is beyond the range of a count and saturates; the Kubernetes controller's result depends on the processor",
			l.Policy.Type, l.Policy.Value, l.Policy.PeriodSeconds)
	default:
		d.warn("policy %s %d/%ds: its limit is beyond the range of a count and wrapped to %d, as the Kubernetes controller's does",
			l.Policy.Type, l.Policy.Value, l.Policy.PeriodSeconds, l.Limit)
	}
}

func outOfInt64(f float64) bool { return f >= math.MaxInt64 || f < math.MinInt64 }
