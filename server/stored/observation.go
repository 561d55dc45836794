package stored

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/store"
)

// Report stores the observations of a valid report. It returns the size of all stored
// observations of the target.
func (t *Targets) Report(ctx context.Context, key store.Key, report *setpointv1.ReportObservationRequest) (int, error) {
	if size := proto.Size(report); size > t.options.MaxObservationBytes {
		return 0, &TooLargeError{"maxObservationBytes", t.options.MaxObservationBytes, size}
	}
	now := t.options.Clock()
	at := now
	if report.GetObservationTime() != nil && report.GetObservationTime().AsTime().Before(now) {
		at = report.GetObservationTime().AsTime()
	}
	record, err := t.swap(ctx, store.Observations, key, func(record store.Record) ([]byte, error) {
		observed, err := openObservation(record.Value, report, now.Add(-Kept))
		if err == nil {
			err = observed.report(report, at, now)
		}
		if err != nil { // it will be replaced
			observed = &partial{Observation: &storedv1.Observation{}}
			if err := observed.report(report, at, now); err != nil {
				return nil, err
			}
		}
		value, err := observed.encode()
		if err == nil && len(value) > t.options.MaxObservationBytes {
			return nil, &TooLargeError{"maxObservationBytes", t.options.MaxObservationBytes, len(value)}
		}
		return value, err
	})
	return len(record.Value), err
}

// report adds the observations of an instant, and drops those that are no longer kept now.
func (p *partial) report(report *setpointv1.ReportObservationRequest, at, now time.Time) error {
	withoutFuture(p.Observation, now)
	pods, usage := p.GetPodsTime(), p.GetPodMetricsTime()
	if err := merge(p.Observation, report, at); err != nil {
		return err
	}
	forget(p.Observation, now.Add(-Kept))
	if p.GetPodsTime() != pods { // replaced, or none
		p.pods = nil
	}
	if p.GetPodMetricsTime() != usage {
		p.usage = nil
	}
	return nil
}

func decodeObservation(record store.Record) (*storedv1.Observation, error) {
	observed := &storedv1.Observation{}
	if err := proto.Unmarshal(record.Value, observed); err != nil {
		return nil, &UnreadableError{"observation", err}
	}
	return observed, nil
}

// withoutFuture moves instants after now, which a clock that was ahead has made, to now: reports of now replace what has
// them, and do not wait for that instant.
func withoutFuture(o *storedv1.Observation, now time.Time) {
	latest := timestamppb.New(now)
	clip := func(at **timestamppb.Timestamp) {
		if (*at).AsTime().After(now) {
			*at = latest
		}
	}
	clip(&o.ScaleTime)
	clip(&o.PodsTime)
	clip(&o.PodMetricsTime)
	for _, m := range o.GetCustomMetrics() {
		clip(&m.Time)
	}
	for _, m := range o.GetExternalMetrics() {
		clip(&m.Time)
	}
}

// merge adds the observations of an instant, unless later ones are stored.
func merge(o *storedv1.Observation, report *setpointv1.ReportObservationRequest, at time.Time) error {
	stamp := timestamppb.New(at)
	newer := func(known *timestamppb.Timestamp) bool { return known == nil || !known.AsTime().After(at) }
	if report.GetScale() != nil && newer(o.GetScaleTime()) {
		o.Scale, o.ScaleTime = report.GetScale(), stamp
	}
	if (len(report.GetPods()) > 0 || report.GetNoPods()) && newer(o.GetPodsTime()) {
		o.Pods, o.PodsTime = report.GetPods(), stamp
	}
	if (len(report.GetPodMetrics()) > 0 || report.GetNoPods()) && newer(o.GetPodMetricsTime()) {
		o.PodMetrics, o.PodMetricsTime = report.GetPodMetrics(), stamp
	}
	var names namer
	mergeExternal(o, report.GetExternalMetrics(), stamp, newer, &names)
	mergeProposals(o, report.GetProposals())
	return mergeCustom(o, report.GetCustomMetrics(), stamp, newer, &names)
}

// mostProposals limits the proposals of a target, as those of a request are limited.
const mostProposals = 8

// mergeProposals replaces the proposals of the reported names. Of more than can be kept the last reported
// stay.
func mergeProposals(o *storedv1.Observation, reported []*setpointv1.Proposal) {
	for _, p := range reported {
		o.Proposals = slices.DeleteFunc(o.Proposals, func(known *setpointv1.Proposal) bool { return known.GetName() == p.GetName() })
		o.Proposals = append(o.Proposals, p)
	}
	o.Proposals = o.Proposals[max(0, len(o.Proposals)-mostProposals):]
}

// mergeCustom replaces the values of the reported metrics.
func mergeCustom(o *storedv1.Observation, values []*setpointv1.CustomMetric, stamp *timestamppb.Timestamp, newer func(*timestamppb.Timestamp) bool, names *namer) error {
	if len(values) == 0 {
		return nil
	}
	custom := names.customOf(o)
	fresh := make(map[string]bool)
	var replaced []*storedv1.CustomMetricValues
	for _, value := range values {
		identity := names.custom(value)
		known := custom[identity]
		if known == nil {
			known = &storedv1.CustomMetricValues{Identity: []byte(identity)}
			custom[identity] = known
			o.CustomMetrics = append(o.CustomMetrics, known)
		}
		if !fresh[identity] {
			if !newer(known.GetTime()) {
				continue
			}
			if countValues(known) <= mostPods { // otherwise a Pods metric's
				if err := decodeMetric(known); err != nil {
					return err
				}
				replaced = append(replaced, &storedv1.CustomMetricValues{Time: known.GetTime(), Values: known.GetValues()})
			}
			clearValues(known)
			fresh[identity], known.Time = true, stamp
		}
		known.Values = append(known.Values, value)
		if isPod(value.GetDescribedObject()) {
			// A separately stored value of this pod is outdated.
			if alone := custom[names.object(value.GetDescribedObject(), value.GetMetric())]; alone != nil && newer(alone.GetTime()) {
				clearValues(alone)
			}
		}
	}
	if err := keepPods(o, replaced, custom, names); err != nil {
		return err
	}
	o.CustomMetrics = slices.DeleteFunc(o.GetCustomMetrics(), func(m *storedv1.CustomMetricValues) bool { return countValues(m) == 0 })
	return nil
}

// mostPods limits the pods of a metric that are stored separately.
const mostPods = 16

// keepPods keeps values of pods that are missing in a report of the same metric. They no
// longer belong to a Pods metric, but may belong to an Object metric that describes the pod,
// and callers may report those one by one.
func keepPods(o *storedv1.Observation, replaced []*storedv1.CustomMetricValues, custom map[string]*storedv1.CustomMetricValues, names *namer) error {
	added := false
	for _, before := range replaced {
		for _, value := range before.GetValues() {
			if !isPod(value.GetDescribedObject()) {
				continue
			}
			name := value.GetDescribedObject().GetName()
			has := func(v *setpointv1.CustomMetric) bool { return v.GetDescribedObject().GetName() == name }
			if slices.ContainsFunc(custom[names.custom(value)].GetValues(), has) {
				continue
			}
			identity := names.object(value.GetDescribedObject(), value.GetMetric())
			alone := custom[identity]
			if alone == nil {
				alone = &storedv1.CustomMetricValues{Identity: []byte(identity)}
				custom[identity] = alone
				o.CustomMetrics = append(o.CustomMetrics, alone)
			}
			clearValues(alone)
			alone.Time, alone.Values = before.GetTime(), []*setpointv1.CustomMetric{value}
			added = true
		}
	}
	if !added {
		return nil
	}
	// The latest of all.
	var alone []*storedv1.CustomMetricValues
	for _, m := range o.GetCustomMetrics() {
		if countValues(m) != 1 {
			continue
		}
		if err := decodeMetric(m); err != nil {
			return err
		}
		if isPod(m.GetValues()[0].GetDescribedObject()) && string(m.GetIdentity()) == names.object(m.GetValues()[0].GetDescribedObject(), m.GetValues()[0].GetMetric()) {
			alone = append(alone, m)
		}
	}
	if len(alone) > mostPods {
		slices.SortStableFunc(alone, func(a, b *storedv1.CustomMetricValues) int { return b.GetTime().AsTime().Compare(a.GetTime().AsTime()) })
		for _, m := range alone[mostPods:] {
			m.Values = nil
		}
	}
	return nil
}

// mergeExternal replaces the series of the reported metrics.
func mergeExternal(o *storedv1.Observation, all []*setpointv1.ExternalMetric, stamp *timestamppb.Timestamp, newer func(*timestamppb.Timestamp) bool, names *namer) {
	external := names.externalOf(o)
	fresh := make(map[string]bool)
	for _, series := range all {
		identity := names.series(series.GetMetric())
		known := external[identity]
		if known == nil {
			known = &storedv1.ExternalMetricSeries{Identity: []byte(identity)}
			external[identity] = known
			o.ExternalMetrics = append(o.ExternalMetrics, known)
		}
		if !fresh[identity] {
			if !newer(known.GetTime()) {
				continue
			}
			clearValues(known)
			fresh[identity], known.Time = true, stamp
		}
		known.Series = append(known.Series, series)
	}
}

// forget drops the observations before an instant.
func forget(o *storedv1.Observation, before time.Time) {
	old := func(at *timestamppb.Timestamp) bool { return at.AsTime().Before(before) }
	if old(o.GetScaleTime()) {
		o.Scale, o.ScaleTime = nil, nil
	}
	if old(o.GetPodsTime()) {
		o.Pods, o.PodsTime = nil, nil
	}
	if old(o.GetPodMetricsTime()) {
		o.PodMetrics, o.PodMetricsTime = nil, nil
	}
	o.Proposals = slices.DeleteFunc(o.GetProposals(), func(p *setpointv1.Proposal) bool { return old(p.GetExpireTime()) })
	o.CustomMetrics = slices.DeleteFunc(o.GetCustomMetrics(), func(m *storedv1.CustomMetricValues) bool { return old(m.GetTime()) })
	o.ExternalMetrics = slices.DeleteFunc(o.GetExternalMetrics(), func(m *storedv1.ExternalMetricSeries) bool { return old(m.GetTime()) })
}
