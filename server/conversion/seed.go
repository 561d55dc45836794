//go:build !js

package conversion

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// Limits of a previous status. Those of texts are in bytes.
const (
	// MaxSeedMetrics limits the readings, and MaxSeedMetricBytes their encodings. Beyond
	// them all readings are ignored.
	MaxSeedMetrics = 1000
	// MaxSeedMetricBytes limits all readings together.
	MaxSeedMetricBytes = 64 << 10
	// MaxSeedConditions limits the conditions; the rest is ignored.
	MaxSeedConditions = 16
	// MaxSeedType limits a condition's type. A condition with a longer one is ignored.
	MaxSeedType = 316
	// MaxSeedStatus limits a condition's status in the same way.
	MaxSeedStatus = 16
	// MaxSeedReason limits a reason. A longer one is clipped.
	MaxSeedReason = 1024
	// MaxSeedMessage limits a message in the same way.
	MaxSeedMessage = 32 << 10
)

// PreviousStatus reads a previous status as Input reads that of a request. noted reports
// whether an explanation would have notes on it.
func PreviousStatus(s *setpointv1.HorizontalPodAutoscalerStatus) (status *recommender.Status, noted bool) {
	r := &reader{noting: true}
	status = r.status(s)
	return status, len(r.notes) > 0
}

// status reads a status that another controller wrote. Anyone who may write the status
// of an object can write anything into it, and that must not make the object's requests
// fail: parts that no evaluation would write are ignored or clipped.
func (r *reader) status(s *setpointv1.HorizontalPodAutoscalerStatus) *recommender.Status {
	out := &recommender.Status{
		LastScaleTime:   instantOrNone(s.GetLastScaleTime()),
		CurrentReplicas: max(0, s.GetCurrentReplicas()),
		DesiredReplicas: max(0, s.GetDesiredReplicas()),
	}
	if s.GetObservedGeneration() >= 0 {
		out.ObservedGeneration = s.ObservedGeneration
	}
	if fitMetrics(s.GetCurrentMetrics()) {
		for i, m := range s.GetCurrentMetrics() {
			out.CurrentMetrics = append(out.CurrentMetrics, r.metricStatus(m, i))
		}
	}
	for _, c := range s.GetConditions() {
		if len(out.Conditions) == MaxSeedConditions {
			break
		}
		if len(c.GetType()) > MaxSeedType || len(c.GetStatus()) > MaxSeedStatus {
			continue
		}
		out.Conditions = append(out.Conditions, recommender.Condition{
			Type: c.GetType(), Status: c.GetStatus(),
			Reason: cut(c.GetReason(), MaxSeedReason), Message: cut(c.GetMessage(), MaxSeedMessage),
			LastTransitionTime: instantOrNone(c.GetLastTransitionTime()),
		})
	}
	return out
}

// cut shortens a text by a copy, so that the original can be freed.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(strings.Clone(s[:most]), "")
}

// instantOrNone reads an instant; the zero time if it is absent or invalid.
func instantOrNone(t *timestamppb.Timestamp) time.Time {
	if t == nil || !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime()
}

// fitMetrics reports whether readings are within their limits.
func fitMetrics(metrics []*setpointv1.MetricStatus) bool {
	if len(metrics) > MaxSeedMetrics {
		return false
	}
	size := 0
	for _, m := range metrics {
		size += proto.Size(m)
	}
	return size <= MaxSeedMetricBytes
}

// metricStatus reads a reading. An empty one belongs to a metric that could not be
// computed.
func (r *reader) metricStatus(m *setpointv1.MetricStatus, index int) recommender.MetricStatus {
	out := recommender.MetricStatus{Type: recommender.MetricType(m.GetType())}
	var current *setpointv1.MetricValueStatus
	var source string
	switch out.Type {
	case recommender.ResourceMetric:
		out.Resource = m.GetResource().GetName()
		current, source = m.GetResource().GetCurrent(), "resource"
	case recommender.ContainerResourceMetric:
		out.Resource, out.Container = m.GetContainerResource().GetName(), m.GetContainerResource().GetContainer()
		current, source = m.GetContainerResource().GetCurrent(), "containerResource"
	case recommender.PodsMetric:
		out.Metric = metricIdentifier(m.GetPods().GetMetric())
		current, source = m.GetPods().GetCurrent(), "pods"
	case recommender.ObjectMetric:
		out.Metric = metricIdentifier(m.GetObject().GetMetric())
		out.DescribedObject = objectReference(m.GetObject().GetDescribedObject())
		current, source = m.GetObject().GetCurrent(), "object"
	case recommender.ExternalMetric:
		out.Metric = metricIdentifier(m.GetExternal().GetMetric())
		current, source = m.GetExternal().GetCurrent(), "external"
	default:
		return recommender.MetricStatus{}
	}
	v, sound := &out.Current, true
	v.Binary = out.Resource == "memory"
	read := func(text, field string) int64 {
		milli, inRange, err := quantity.ParseMilli(text)
		switch {
		case err != nil:
			sound = false
		case !inRange:
			r.noteRange(fmt.Sprintf("previousStatus.currentMetrics[%d].%s.current.%s", index, source, field), text, milli)
		}
		return milli
	}
	if current != nil && current.Value != nil {
		v.Value, v.HasValue = read(current.GetValue(), "value"), true
	}
	if current != nil && current.AverageValue != nil {
		v.AverageValue, v.HasAverageValue = read(current.GetAverageValue(), "averageValue"), true
	}
	if current != nil && current.AverageUtilization != nil {
		v.AverageUtilization, v.HasAverageUtilization = current.GetAverageUtilization(), true
	}
	if !sound {
		return recommender.MetricStatus{}
	}
	return out
}
