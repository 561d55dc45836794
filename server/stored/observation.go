package stored

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/labelselector"
	"github.com/setpoint-dev/setpoint/store"
)

// Report stores what a valid report says was observed. It returns how many bytes all that
// is observed of the target takes now.
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
		observed, err := decodeObservation(record)
		if err != nil {
			observed = &storedv1.Observation{} // it is replaced
		}
		merge(observed, report, at)
		forget(observed, now.Add(-Kept))
		value, err := proto.Marshal(observed)
		if err == nil && len(value) > t.options.MaxObservationBytes {
			return nil, &TooLargeError{"maxObservationBytes", t.options.MaxObservationBytes, len(value)}
		}
		return value, err
	})
	return len(record.Value), err
}

func decodeObservation(record store.Record) (*storedv1.Observation, error) {
	observed := &storedv1.Observation{}
	if err := proto.Unmarshal(record.Value, observed); err != nil {
		return nil, &UnreadableError{"observation", err}
	}
	return observed, nil
}

// merge adds what was observed at an instant, unless something later is known.
func merge(o *storedv1.Observation, report *setpointv1.ReportObservationRequest, at time.Time) {
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
	custom := make(map[string]*storedv1.CustomMetricValues, len(o.GetCustomMetrics()))
	for _, known := range o.GetCustomMetrics() {
		if len(known.GetValues()) > 0 {
			custom[identityOfCustom(known.GetValues()[0])] = known
		}
	}
	fresh := make(map[string]bool)
	for _, value := range report.GetCustomMetrics() {
		identity := identityOfCustom(value)
		known := custom[identity]
		if known == nil {
			known = &storedv1.CustomMetricValues{}
			custom[identity] = known
			o.CustomMetrics = append(o.CustomMetrics, known)
		}
		if !fresh[identity] {
			if !newer(known.GetTime()) {
				continue
			}
			fresh[identity], known.Time, known.Values = true, stamp, nil
		}
		known.Values = append(known.Values, value)
	}
	external := make(map[string]*storedv1.ExternalMetricSeries, len(o.GetExternalMetrics()))
	for _, known := range o.GetExternalMetrics() {
		if len(known.GetSeries()) > 0 {
			external[identityOfMetric(known.GetSeries()[0].GetMetric())] = known
		}
	}
	clear(fresh)
	for _, series := range report.GetExternalMetrics() {
		identity := identityOfMetric(series.GetMetric())
		known := external[identity]
		if known == nil {
			known = &storedv1.ExternalMetricSeries{}
			external[identity] = known
			o.ExternalMetrics = append(o.ExternalMetrics, known)
		}
		if !fresh[identity] {
			if !newer(known.GetTime()) {
				continue
			}
			fresh[identity], known.Time, known.Series = true, stamp, nil
		}
		known.Series = append(known.Series, series)
	}
}

// forget drops what was observed before an instant.
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
	o.CustomMetrics = slices.DeleteFunc(o.GetCustomMetrics(), func(m *storedv1.CustomMetricValues) bool { return old(m.GetTime()) })
	o.ExternalMetrics = slices.DeleteFunc(o.GetExternalMetrics(), func(m *storedv1.ExternalMetricSeries) bool { return old(m.GetTime()) })
}

// identityOfCustom tells which metric a value is of: the values of a metric of pods are one
// metric's, those of an object's one for each object.
func identityOfCustom(v *setpointv1.CustomMetric) string {
	of := v.GetDescribedObject()
	if of.GetKind() == "Pod" {
		return "Pod\x00" + identityOfMetric(v.GetMetric())
	}
	group, _, _ := strings.Cut(of.GetApiVersion(), "/")
	if !strings.Contains(of.GetApiVersion(), "/") {
		group = ""
	}
	return strings.Join([]string{of.GetKind(), group, of.GetName(), identityOfMetric(v.GetMetric())}, "\x00")
}

// identityOfMetric is the same for metrics of one name whose selectors mean the same. One
// that does not parse is itself.
func identityOfMetric(m *setpointv1.MetricIdentifier) string {
	return m.GetName() + "\x00" + identityOfSelector(m.GetSelector())
}

func identityOfSelector(s *setpointv1.LabelSelector) string {
	if s == nil {
		return ""
	}
	selector := &metav1.LabelSelector{MatchLabels: s.GetMatchLabels()}
	for _, e := range s.GetMatchExpressions() {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: e.GetKey(), Operator: metav1.LabelSelectorOperator(e.GetOperator()), Values: e.GetValues(),
		})
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "\x00" + s.String()
	}
	return labelselector.Identity(parsed)
}
