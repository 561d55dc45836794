package replay

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/stages"
)

// Summer is a backend that decides on sums in place of pods and readings.
type Summer interface {
	// Sum sets what the target's next request reads in place of what the recorded one did; nil: the request has it
	// itself.
	Sum(target string, recorded *setpointv1.RecommendRequest, sums *recording.Sums)
	// BeginState sets the record of a new target, as the service encodes it.
	BeginState(target string, state []byte) error
}

// ErrSums is wrapped in the error for a step with sums in place of pods, if the backend can't decide on them.
var ErrSums = errors.New("the service keeps sums in place of pods, which a server does not accept; replay it without --server")

// sums are what a request reads.
type sums struct {
	recorded *setpointv1.RecommendRequest
	*recording.Sums
}

// Sum implements Summer.
func (e *Engine) Sum(target string, recorded *setpointv1.RecommendRequest, of *recording.Sums) {
	if of == nil {
		delete(e.sums, target)
		return
	}
	e.sums[target] = sums{recorded, of}
}

// BeginState implements Summer.
func (e *Engine) BeginState(target string, state []byte) error {
	before, err := record.Decode(state)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if before.Seen {
		e.histories[target] = encoding.AppendHistory(nil, &before.History)
	} else {
		delete(e.histories, target)
		if before.Status.Conditions != nil || before.Status.DesiredReplicas != 0 || !before.Status.LastScaleTime.IsZero() {
			e.seeds[target] = &before.Status
		}
	}
	e.kept[target] = keptBy(&before)
	return nil
}

// keptBy is what a record keeps for stages.
func keptBy(r *record.Record) *stages.Kept {
	return stages.KeptOf(r.Stages, r.Adjusted != nil, r.Turns, int(r.LastChange))
}

// stateOf is the record before a scenario; nil: it has none.
func stateOf(scenario *recording.Scenario) (*record.Record, error) {
	if scenario.State == nil {
		return nil, nil
	}
	before, err := record.Decode(scenario.State)
	if err != nil {
		return nil, fmt.Errorf("%s: state: %w", scenario.Name, err)
	}
	return &before, nil
}

// notRecorded is the error of a metric that the recorded spec does not have.
const notRecorded = "the recording has no readings of this metric"

// give sets what the input reads.
func (s *sums) give(in *recommender.Input) error {
	recorded, _, violations := conversion.Spec(s.recorded.GetSpec(), nil, recommender.DefaultOptions())
	if len(violations) > 0 {
		return fmt.Errorf("the recorded spec: %s", violations[0])
	}
	if len(recorded.Metrics) != len(s.Metrics) {
		return fmt.Errorf("sums of %d metrics, but the recorded spec has %d", len(s.Metrics), len(recorded.Metrics))
	}
	in.Sums = &recommender.Sums{Pods: int(s.Pods), Ready: int(s.Ready), Metrics: make([]recommender.MetricSums, len(in.Spec.Metrics))}
	in.Readings = make([]recommender.Readings, len(in.Spec.Metrics))
	for i := range in.Spec.Metrics {
		m, readings := &in.Spec.Metrics[i], &in.Readings[i]
		k := like(recorded.Metrics, m, i)
		if k < 0 {
			readings.Error = notRecorded
			continue
		}
		from := &s.Metrics[k]
		readings.Error, readings.SelectorError = from.Error, from.SelectorError
		if fleet.IsTotal(m) {
			readings.Values = valuesOf(m, from)
			continue
		}
		of := metricSums(from)
		was, is := recorded.Metrics[k].Target.AverageUtilization, m.Target.AverageUtilization
		switch {
		case is != nil && was == nil:
			readings.Error = "the recording has no requests of this metric's pods, since its spec has another kind of target"
		case is != nil && *is != *was:
			for _, g := range []*recommender.GroupSums{&of.Ready, &of.Missing} {
				g.Filled = filled(g, *is)
			}
		}
		in.Sums.Metrics[i] = of
	}
	return nil
}

// past is the past for a forecast by what the recorded one said; nil: that says nothing of it.
func (s *sums) past(of *stages.Forecast) *stages.Past {
	var in recommender.Input
	in.Spec, in.Options, _ = conversion.Spec(s.recorded.GetSpec(), s.recorded.GetOptions(), recommender.DefaultOptions())
	plan, _ := conversion.Stages(s.recorded.GetSpec(), s.recorded.GetStages(), &in)
	if s.Forecast == nil || plan == nil || plan.Forecast == nil {
		return nil
	}
	return plan.Forecast.Beside(*s.Forecast, of)
}

// like returns the index of the metric that reads the same, that at the same place first; -1: there is none.
func like(metrics []recommender.MetricSpec, m *recommender.MetricSpec, place int) int {
	of := *m
	of.Target = recommender.MetricTarget{}
	same := func(k int) bool {
		other := metrics[k]
		other.Target = recommender.MetricTarget{}
		return reflect.DeepEqual(of, other)
	}
	if place < len(metrics) && same(place) {
		return place
	}
	for k := range metrics {
		if same(k) {
			return k
		}
	}
	return -1
}

// filled is what the pods of a group are assumed to use with another target: exact if their requests are equal.
func filled(g *recommender.GroupSums, target int32) int64 {
	if g.Pods == 0 {
		return 0
	}
	each := g.Requests / int64(g.Pods)
	return each*max(100, int64(target))/100*int64(g.Pods) + (g.Requests-each*int64(g.Pods))*max(100, int64(target))/100
}

func metricSums(m *recording.MetricSums) recommender.MetricSums {
	group := func(g *recording.GroupSums) recommender.GroupSums {
		return recommender.GroupSums{Pods: g.Pods, Usage: g.Usage, Requests: g.Requests, Filled: g.Filled}
	}
	return recommender.MetricSums{
		Ready: group(&m.Ready), Missing: group(&m.Missing), Unready: group(&m.Unready), Ignored: m.Ignored,
		Unlisted: m.Unlisted, UnlistedUsage: m.UnlistedUsage, Sampled: m.Sampled, Unusable: m.Unusable, NoRequest: m.NoRequest,
		UsageWraps: m.UsageWraps, RequestsWrap: m.RequestsWrap,
	}
}

// valuesOf are values with the sums of an Object or External metric.
func valuesOf(m *recommender.MetricSpec, of *recording.MetricSums) []recommender.Value {
	switch {
	case of.Series == 0:
		return nil
	case m.Type == recommender.ObjectMetric && of.Series == 1:
		return []recommender.Value{{Milli: of.Sum}}
	case m.Type == recommender.ObjectMetric:
		return make([]recommender.Value, min(of.Series, math.MaxInt16)) // it fails, whatever they are
	}
	t := fleet.Total{Series: of.Series, Sum: of.Sum, Low: of.Low, High: of.High, Beyond: of.Beyond}
	t.Low, t.High = min(t.Low, 0, t.Sum), max(t.High, 0, t.Sum)
	return t.Values(nil)
}

// windowOf is the window of samples and the time until a new pod has one, which sums don't say: twice the usual time
// between decisions, at most the 30 s of metrics-server.
func windowOf(scenario *recording.Scenario) time.Duration {
	const most = 30 * time.Second
	var between []time.Duration
	for i := 1; i < len(scenario.Steps); i++ {
		between = append(between, scenario.Steps[i].Time.Sub(scenario.Steps[i-1].Time))
	}
	if len(between) == 0 {
		return most
	}
	slices.Sort(between)
	return min(most, 2*between[len(between)/2])
}

// list gives an input pods that have its sums, for a closed loop, in which they share the load of other counts. They
// are alike, and all older than the recording, but for those without a sample: they have served since there were last
// more pods than before.
func list(at, rose time.Time, window time.Duration, in *recommender.Input) {
	s := in.Sums
	in.Pods = make([]recommender.Pod, min(s.Pods, math.MaxInt16))
	unready, ignored := 0, 0
	for i := range s.Metrics {
		unready, ignored = max(unready, int(s.Metrics[i].Unready.Pods)), max(ignored, int(s.Metrics[i].Ignored))
	}
	unready = max(unready, len(in.Pods)-ignored-s.Ready)
	for i := range in.Pods {
		p := &in.Pods[i]
		*p = recommender.Pod{Name: fmt.Sprintf("%s-%d", in.Spec.ScaleTargetRef.Name, i), Phase: recommender.PhaseRunning, Ready: recommender.ReadyTrue}
		switch from := len(in.Pods) - i; {
		case from <= ignored:
			p.Phase, p.Ready = recommender.PhaseFailed, recommender.ReadyFalse
		case from <= ignored+unready:
			p.Ready = recommender.ReadyFalse
		}
		p.StartTime, p.ReadyTransition = at.Add(-24*time.Hour), at.Add(-24*time.Hour)
	}
	in.PodMetrics = nil
	samples := make([]recommender.PodMetrics, len(in.Pods))
	for i := range in.Spec.Metrics {
		m, of := &in.Spec.Metrics[i], &s.Metrics[i]
		counted := int(of.Ready.Pods)
		if counted == 0 || !of.Sampled {
			continue
		}
		requested := int64(of.Ready.Pods) + int64(of.Missing.Pods) + int64(of.Unready.Pods)
		request := (of.Ready.Requests + of.Missing.Requests + of.Unready.Requests) / requested
		container, perPod := m.Container, of.Ready.Usage/int64(counted)
		if m.Type == recommender.ResourceMetric { // what is left of the containers that have metrics of their own
			container = "others"
			for j := range in.Spec.Metrics {
				if c, its := &in.Spec.Metrics[j], &s.Metrics[j]; c.Type == recommender.ContainerResourceMetric && c.Resource == m.Resource && its.Ready.Pods > 0 {
					perPod = max(0, perPod-its.Ready.Usage/int64(its.Ready.Pods))
					request = max(0, request-its.Ready.Requests/int64(its.Ready.Pods))
				}
			}
		}
		for k := counted; k < min(counted+int(of.Missing.Pods), len(in.Pods)); k++ {
			in.Pods[k].ReadyTransition = rose
		}
		for k := range min(counted, len(in.Pods)) {
			usage := perPod
			if k == 0 {
				usage += of.Ready.Usage % int64(counted)
			}
			if m.Type == recommender.PodsMetric {
				in.Readings[i].Values = append(in.Readings[i].Values, recommender.Value{Pod: in.Pods[k].Name, Milli: usage})
				continue
			}
			samples[k].Containers = withUsage(samples[k].Containers, container, m.Resource, usage)
		}
		if m.Type != recommender.PodsMetric {
			for k := range in.Pods {
				in.Pods[k].Containers = withRequest(in.Pods[k].Containers, container, m.Resource, request)
			}
		}
	}
	for k := range samples {
		if len(samples[k].Containers) > 0 {
			samples[k].Pod, samples[k].Timestamp, samples[k].Window = in.Pods[k].Name, at, window
			in.PodMetrics = append(in.PodMetrics, samples[k])
		}
	}
}

func withUsage(list []recommender.ContainerMetrics, container, resource string, milli int64) []recommender.ContainerMetrics {
	usage := recommender.ResourceUsage{Resource: resource, Milli: milli}
	for i := range list {
		if list[i].Name == container {
			list[i].Usage = append(list[i].Usage, usage)
			return list
		}
	}
	return append(list, recommender.ContainerMetrics{Name: container, Usage: []recommender.ResourceUsage{usage}})
}

func withRequest(list []recommender.Container, container, resource string, milli int64) []recommender.Container {
	request := recommender.ResourceRequest{Resource: resource, Quantity: quantity.FromMilli(milli)}
	for i := range list {
		if list[i].Name == container {
			list[i].Requests = append(list[i].Requests, request)
			return list
		}
	}
	return append(list, recommender.Container{Name: container, Requests: []recommender.ResourceRequest{request}})
}
