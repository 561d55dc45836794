package staged

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	externalmetrics "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/conformance/cluster"
	"github.com/setpoint-dev/setpoint/conformance/generate"
)

// told is what the real controller tells of one metric of a spec alone.
type told struct {
	// failed is nil if the metric has a proposal.
	failed   *recording.Event
	proposal int32
	status   autoscalingv2.MetricStatus
}

// unlimited has rules let every proposal through.
func unlimited(spec *autoscalingv2.HorizontalPodAutoscalerSpec, current int32) {
	rules := func(tolerance *resource.Quantity) *autoscalingv2.HPAScalingRules {
		window, most := int32(0), autoscalingv2.MaxChangePolicySelect
		return &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: &window, SelectPolicy: &most, Tolerance: tolerance,
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: math.MaxInt32 - current, PeriodSeconds: 1}},
		}
	}
	var up, down *resource.Quantity
	if b := spec.Behavior; b != nil {
		if b.ScaleUp != nil {
			up = b.ScaleUp.Tolerance
		}
		if b.ScaleDown != nil {
			down = b.ScaleDown.Tolerance
		}
	}
	none := int32(0)
	spec.MinReplicas, spec.MaxReplicas = &none, math.MaxInt32
	spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(up), ScaleDown: rules(down)}
}

// probe asks the real controller for the proposal of each metric: it runs the scenario once for each, with
// that metric alone, without windows, policies and bounds, and with a scale that can't be written, so that no
// change counts later.
func (e *editor) probe(ask func([]step) ([]recording.Expect, error)) error {
	most := 0
	for i := range e.steps {
		if e.steps[i].hpa != nil {
			most = max(most, len(e.steps[i].HPA.Spec.Metrics))
		}
	}
	for metric := range most {
		alone := slices.Clone(e.steps)
		for i := range alone {
			s := &alone[i]
			s.ScaleUpdateError, s.ScaleUpdates = "", &cluster.Counts{Least: 1, Most: 0}
			if s.hpa == nil {
				continue
			}
			s.HPA = s.HPA.DeepCopy()
			current := int32(0)
			if s.Scale != nil {
				current = s.Scale.Spec.Replicas
			}
			unlimited(&s.HPA.Spec, current)
			which := min(metric, len(s.HPA.Spec.Metrics)-1)
			s.HPA.Spec.Metrics = s.HPA.Spec.Metrics[which : which+1]
		}
		expects, err := ask(alone)
		if err != nil {
			return err
		}
		for i := range expects {
			if s := &e.steps[i]; s.hpa != nil && metric < len(s.HPA.Spec.Metrics) && s.evaluates() {
				if t, ok := tells(&expects[i], s.Scale.Spec.Replicas); ok {
					s.metrics = append(s.metrics, t)
				}
			}
		}
	}
	return nil
}

// evaluates reports whether the bounds let the metrics decide.
func (s *step) evaluates() bool {
	if s.unreadable || s.hpa == nil {
		return false
	}
	current := s.Scale.Spec.Replicas
	return current > 0 && current >= minOf(&s.HPA.Spec) && current <= s.HPA.Spec.MaxReplicas
}

// tells reads what became of the one metric; ok is false if it was not evaluated.
func tells(e *recording.Expect, current int32) (t told, ok bool) {
	for _, c := range e.Conditions {
		if c.Type != "ScalingActive" {
			continue
		}
		switch {
		case c.Reason == "InvalidSelector" || c.Reason == "AmbiguousSelector" || c.Reason == "ScalingDisabled":
			return t, false
		case c.Status == "True":
			if t.proposal, _, ok = attempted(e); !ok {
				t.proposal, ok = current, true
			}
			if len(e.CurrentMetrics) > 0 {
				t.status = e.CurrentMetrics[0]
			}
		case len(e.Events) > 0:
			t.failed, ok = &e.Events[0], true
		}
	}
	return t, ok
}

// fallenMetric is what a fallback knows of a metric.
type fallenMetric struct {
	since time.Time
	last  int32
	at    time.Time
}

// propose replaces proposals: in the place of a metric comes an External one with that proposal.
func (e *editor) propose() {
	for i := range e.steps {
		s := &e.steps[i]
		if s.hpa == nil {
			e.forget()
			continue
		}
		for name := range e.fallen {
			if metricNamed(&s.HPA.Spec, name) == nil {
				delete(e.fallen, name)
			}
		}
		if len(s.metrics) > 0 {
			s.propose(e.fallen, e.names)
			continue
		}
		for _, f := range e.fallen {
			if !s.unreadable && s.Scale.Spec.Replicas == 0 { // nobody asks for what is off
				f.since = time.Time{}
			}
		}
	}
}

// value is a metric among those that are combined.
type value struct {
	proposal   int32
	failed     bool
	ignored    bool
	fallenBack bool
	// isLeast reports whether it is a paced minimum, which is not combined.
	isLeast bool
	weight  *big.Rat // nil: it is no metric of the spec
}

func (s *step) propose(fallen map[string]*fallenMetric, names map[string]string) {
	spec, current := &s.HPA.Spec, s.Scale.Spec.Replicas
	values := make([]value, len(s.metrics))
	for i := range s.metrics {
		values[i] = value{proposal: s.metrics[i].proposal, failed: s.metrics[i].failed != nil, weight: new(big.Rat)}
		if text, ok := s.Stages.GetCombine().GetWeights()[generate.MetricName(&spec.Metrics[i])]; ok {
			values[i].weight.SetString(text)
		}
	}
	s.fall(values, fallen)
	metrics := slices.Clone(spec.Metrics)
	var external []externalmetrics.ExternalMetricValue
	isLimited := false
	put := func(name string, replicas int32, isCombined bool) autoscalingv2.MetricSpec {
		m, series := proposes(fmt.Sprintf("%d-%d", s.of, len(external)), replicas, s.Time)
		external = append(external, series)
		its := "external metric " + m.External.Metric.Name + "(nil)"
		names[its] = name
		switch {
		case !isCombined: // it has no target
			names[its+" above target"] = name + " proposes more"
		case isLimited:
			s.reason = name + " limits the proposal"
			names[its+" above target"] = s.reason
		default:
			s.reason = name + " below target"
		}
		return m
	}
	method := s.Stages.GetCombine().GetMethod()
	for _, v := range s.voters {
		values = append(values, value{proposal: v.replicas, isLeast: method != "" && method != "MAX" && strings.HasPrefix(v.rule, "schedule/")})
	}
	combined, name, limited, isCombined := s.combined(values)
	isLimited = limited
	failed, left, inTruth := 0, 0, false
	largest := int32(0)
	for i, v := range values {
		switch {
		case v.ignored:
			continue
		case v.failed:
			failed++
			inTruth = inTruth || !s.suspect[generate.MetricName(&metrics[i])]
		case largest == 0 || v.proposal > largest:
			largest = v.proposal
		}
		left++
	}
	var now []autoscalingv2.MetricSpec
	isHeld := failed == left || failed > 0 && largest < current
	if isCombined && failed < left {
		isHeld = failed > 0 && combined < current
	}
	for i, v := range values {
		switch {
		case v.ignored:
			s.replaced = true
			continue
		case v.failed:
			s.retained++
			now = append(now, metrics[i])
			continue
		}
		switch {
		case isCombined && isHeld: // any that would take replicas away
			now = append(now, put(name, 0, true))
		case isCombined:
			now = append(now, put(name, combined, true))
		case i >= len(metrics):
			now = append(now, put(s.voters[i-len(metrics)].rule, v.proposal, false))
		case v.fallenBack:
			now = append(now, put("the fallback of "+generate.MetricName(&metrics[i]), v.proposal, false))
		default:
			now = append(now, metrics[i])
			continue
		}
		s.replaced = true
	}
	if s.replaced {
		spec.Metrics = now
		s.add(external)
	}
	if isHeld && inTruth && s.Stages.GetWindowThroughFailures() { // a doubt alone is not remembered
		s.remembers = true
	}
}

// add adds series that the external metrics API has whatever fails there.
func (s *step) add(series []externalmetrics.ExternalMetricValue) {
	s.ExternalMetrics = append(slices.Clone(s.ExternalMetrics), series...)
	text, fails := s.Errors["external"]
	if !fails {
		return
	}
	errors := map[string]string{}
	for _, m := range s.hpa.Spec.Metrics {
		if m.External != nil {
			errors["external:"+m.External.Metric.Name] = text
		}
	}
	for k, v := range s.Errors {
		if k != "external" {
			errors[k] = v
		}
	}
	s.Errors = errors
}

// inPlace begins the names of External metrics that are in the place of something else.
const inPlace = "in-place-"

// proposes is an External metric that proposes a count, where there is no tolerance.
func proposes(id string, replicas int32, at time.Time) (autoscalingv2.MetricSpec, externalmetrics.ExternalMetricValue) {
	name := inPlace + id
	m := autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: name},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: resource.NewQuantity(1, resource.DecimalSI)},
	}}
	series := externalmetrics.ExternalMetricValue{MetricName: name, Value: *resource.NewQuantity(int64(replicas), resource.DecimalSI)}
	series.Timestamp.Time = at
	return m, series
}

// fall lets fallbacks propose for the metrics that have failed for long enough.
func (s *step) fall(values []value, fallen map[string]*fallenMetric) {
	now := time.UnixMilli(s.Time.UnixMilli())
	by := map[string]*setpointv1.MetricFallback{}
	for _, f := range s.Stages.GetFallbacks() {
		by[f.GetMetric()] = f
	}
	var ignored []int
	for i := range values {
		name := generate.MetricName(&s.HPA.Spec.Metrics[i])
		f := by[name]
		if f == nil {
			delete(fallen, name)
			continue
		}
		k := fallen[name]
		if k == nil {
			k = &fallenMetric{}
			fallen[name] = k
		}
		v := &values[i]
		if !v.failed {
			*k = fallenMetric{}
			if f.GetLastGood() != nil {
				k.last, k.at = v.proposal, now
			}
			continue
		}
		if k.since.IsZero() {
			if s.suspect[name] {
				continue
			}
			k.since = now
		}
		after := 180 * time.Second
		if f.GetFailureDuration() != nil {
			after = f.GetFailureDuration().AsDuration()
		}
		if now.Sub(k.since) < after {
			continue
		}
		instead := f.GetReplicas()
		switch {
		case f.GetIgnore():
			ignored = append(ignored, i)
			continue
		case f.GetLastGood() != nil && (k.at.IsZero() || now.Sub(k.at) > f.GetLastGood().GetMaxAge().AsDuration()):
			continue
		case f.GetLastGood() != nil:
			instead = k.last
		}
		if f.GetDirection() == "UP_ONLY" {
			instead = max(instead, s.Scale.Spec.Replicas)
		}
		v.proposal, v.failed, v.fallenBack = instead, false, true
	}
	if len(ignored) < len(values) {
		for _, i := range ignored {
			values[i].ignored = true
		}
	}
}

// combined is the one proposal of all, and where it comes from; ok is false where the largest counts, which
// the real controller finds itself. isLimited reports whether it is a cap.
func (s *step) combined(all []value) (n int32, name string, isLimited, ok bool) {
	var proposals []int32
	largest, others, least := int32(0), int32(0), int32(-1)
	weights, weighted := new(big.Rat), new(big.Rat)
	failed := 0
	for _, v := range all {
		if v.isLeast {
			least = v.proposal
		}
		if v.ignored || v.isLeast {
			continue
		}
		p := v.proposal
		if v.failed {
			p = 0
			failed++
		} else if largest == 0 || p > largest {
			largest = p
		}
		proposals = append(proposals, p)
		if v.weight == nil {
			others = max(others, p)
			continue
		}
		weights.Add(weights, v.weight)
		weighted.Add(weighted, new(big.Rat).Mul(v.weight, new(big.Rat).SetInt64(int64(p))))
	}
	if failed == len(proposals) && least < 0 {
		return 0, "", false, false
	}
	c := s.Stages.GetCombine()
	n, name = largest, ""
	switch method := c.GetMethod(); method {
	case "MIN":
		n, name = slices.Min(proposals), method
	case "QUORUM":
		slices.SortFunc(proposals, func(a, b int32) int { return int(b) - int(a) })
		n, name = proposals[min(int(c.GetQuorum()), len(proposals))-1], fmt.Sprintf("QUORUM %d", c.GetQuorum())
	case "SUM":
		sum := int64(0)
		for _, p := range proposals {
			sum += int64(p)
		}
		n, name = int32(min(sum, math.MaxInt32)), method
	case "WEIGHTED":
		if weights.Sign() > 0 {
			mean := new(big.Rat).Quo(weighted, weights)
			whole, rest := new(big.Int).QuoRem(mean.Num(), mean.Denom(), new(big.Int))
			if rest.Sign() > 0 {
				whole.Add(whole, big.NewInt(1))
			}
			n, name = max(int32(whole.Int64()), others), method
		}
	}
	if name != "" {
		name, ok = fmt.Sprintf("%s of %d proposals", name, len(proposals)), true
	}
	if least > n {
		n, name, ok = least, s.voters[0].rule, true
	}
	for _, limit := range s.caps {
		if limit.replicas < n {
			n, name, isLimited, ok = limit.replicas, limit.rule, true, true
		}
	}
	return n, name, isLimited, ok
}

// remember adds one more reconcile after each step whose failing metrics hold the count: at the same instant,
// with one metric that proposes the current count.
func (e *editor) remember() {
	var all []step
	for i := range e.steps {
		s := e.steps[i]
		all = append(all, s)
		if !s.remembers {
			continue
		}
		again := s
		again.of, again.HPA = -1, s.HPA.DeepCopy()
		m, series := proposes("again", s.Scale.Spec.Replicas, s.Time)
		again.HPA.Spec.Metrics = []autoscalingv2.MetricSpec{m}
		again.add([]externalmetrics.ExternalMetricValue{series})
		again.ScaleUpdates, again.ScaleUpdateError = &cluster.Counts{Least: 1, Most: 0}, ""
		all = append(all, again)
	}
	e.steps = all
}

// named puts what Setpoint calls them in the place of the metrics that the real controller got, and
// reports whether the text names one.
func (e *editor) named(text *recording.Text) bool {
	if !strings.Contains(text.Value, inPlace) {
		return false
	}
	for _, from := range slices.Backward(slices.Sorted(maps.Keys(e.names))) { // the longer of two first
		text.Value = strings.ReplaceAll(text.Value, from, e.names[from])
	}
	return true
}
