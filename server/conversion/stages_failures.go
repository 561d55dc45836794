package conversion

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

// Defaults of the stages of failing metrics.
const (
	defaultFutureTolerance = 10 * time.Second
	defaultConfirm         = 5 * time.Minute
)

// failures reads freshness, fallbacks and zero guards. Ranges are violations of the message, which
// validation.Structure finds.
func (r *stagesReader) failures(p *stages.Plan, s *setpointv1.Stages) {
	if f := s.GetFreshness(); f != nil {
		p.Freshness = &stages.Freshness{
			MaxAge:          f.GetMaxSampleAge().AsDuration(),
			FutureTolerance: durationOr(f.GetFutureTolerance(), defaultFutureTolerance),
		}
	}
	once := make(map[int]bool)
	for i, f := range upTo(mostOfMetrics, s.GetFallbacks()) {
		at := fmt.Sprintf("stages.fallbacks[%d]", i)
		metric, ok := r.onceEach(p, once, f.GetMetric(), at+".metric")
		r.exactlyOne(f, at)
		if !ok {
			continue
		}
		p.Fallbacks = append(p.Fallbacks, stages.Fallback{
			Metric: metric, After: durationOr(f.GetFailureDuration(), stages.DefaultFailureDuration), Replicas: f.GetReplicas(),
			LastGood: f.GetLastGood().GetMaxAge().AsDuration(), UpOnly: f.GetDirection() == "UP_ONLY",
		})
	}
	once = make(map[int]bool)
	for i, g := range upTo(mostOfMetrics, s.GetZeroGuards()) {
		at := fmt.Sprintf("stages.zeroGuards[%d]", i)
		metric, ok := r.onceEach(p, once, g.GetMetric(), at+".metric")
		drop := g.GetDropPercent()
		if drop == 0 {
			drop = 100
		}
		if drop > 0 && drop < 50 {
			r.refuse(at+".dropPercent", "Invalid value: %d: must be between 50 and 100, or 0 for 100", drop)
		}
		if !ok {
			continue
		}
		if t := r.in.Spec.Metrics[metric].Type; t != recommender.ObjectMetric && t != recommender.ExternalMetric {
			r.refuse(at+".metric", "Invalid value: %q: must be an Object or External metric", clip(g.GetMetric()))
			continue
		}
		p.ZeroGuards = append(p.ZeroGuards, stages.ZeroGuard{Metric: metric, DropPercent: drop, Confirm: durationOr(g.GetConfirm(), defaultConfirm)})
	}
}

// HasFallback reports whether a metric of a spec has a fallback of its own, as KEP-5679 has it.
func HasFallback(spec *setpointv1.HorizontalPodAutoscalerSpec) bool {
	for _, m := range spec.GetMetrics() {
		if m.GetExternal().GetFallback() != nil {
			return true
		}
	}
	return false
}

func fallbackField(metric int) string {
	return fmt.Sprintf("spec.metrics[%d].external.fallback", metric)
}

// ofSpec adds the fallbacks of the spec's metrics. validation.Spec knows their ranges.
func (r *stagesReader) ofSpec(p *stages.Plan, spec *setpointv1.HorizontalPodAutoscalerSpec) {
	for i, m := range spec.GetMetrics() {
		f := m.GetExternal().GetFallback()
		if f == nil || i >= len(r.in.Spec.Metrics) || r.in.Spec.Metrics[i].Type != recommender.ExternalMetric {
			continue
		}
		if slices.ContainsFunc(p.Fallbacks, func(other stages.Fallback) bool { return other.Metric == i }) {
			r.refuse(fallbackField(i), "Forbidden: stages.fallbacks has one for %s, too: keep one of the two", clip(p.Metrics[i]))
			continue
		}
		if len(p.Fallbacks) == mostOfMetrics {
			r.refuse(fallbackField(i), "Forbidden: at most %d metrics may have a fallback, with those of stages.fallbacks", mostOfMetrics)
			return
		}
		after := stages.DefaultFailureDuration
		if f.FailureDurationSeconds != nil {
			after = time.Duration(f.GetFailureDurationSeconds()) * time.Second
		}
		p.Fallbacks = append(p.Fallbacks, stages.Fallback{Metric: i, After: after, Replicas: f.GetReplicas(), OfSpec: true})
	}
}

// exactlyOne refuses a fallback with none or several of its three kinds.
func (r *stagesReader) exactlyOne(f *setpointv1.MetricFallback, at string) {
	kinds := 0
	for _, set := range []bool{f != nil && f.Replicas != nil, f.GetLastGood() != nil, f.GetIgnore()} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		r.refuse(at, "Required value: must set one of replicas, lastGood and ignore")
	case kinds > 1:
		r.refuse(at, "Invalid value: must set only one of replicas, lastGood and ignore")
	case f.GetIgnore() && f.GetDirection() == "UP_ONLY":
		r.refuse(at+".direction", "Forbidden: an ignored metric proposes nothing")
	}
}

// onceEach returns the index of a metric that was not named before.
func (r *stagesReader) onceEach(p *stages.Plan, once map[int]bool, name, field string) (metric int, ok bool) {
	if metric = r.metric(p, name, field); metric < 0 {
		return -1, false
	}
	if once[metric] {
		r.refuse(field, "Duplicate value: %q", clip(name))
		return -1, false
	}
	once[metric] = true
	return metric, true
}

// durationOr returns a duration, or what its absence means.
func durationOr(d *durationpb.Duration, absent time.Duration) time.Duration {
	if d == nil {
		return absent
	}
	return d.AsDuration()
}
