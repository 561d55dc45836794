//go:build !js

package conversion

import (
	"context"
	"fmt"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// ObservationViolations returns all violations that the report would cause as part of a
// request at that instant, so that every stored observation can be decided on. A value that the controller would read
// as another one is one of them: whoever polls sees no warnings.
func ObservationViolations(report *setpointv1.ReportObservationRequest, now time.Time) []validation.Violation {
	r := &requestReader{ctx: context.Background()}
	r.strict = true
	r.pods(report.GetPods())
	r.podMetrics(report.GetPodMetrics())
	identity := func(m *setpointv1.MetricIdentifier, object *setpointv1.CrossVersionObjectReference, place string) {
		r.identified(m, object, func() string { return place })
		if _, err := metricSelector(labelSelector(m.GetSelector())); err != nil {
			r.refuse(place+".metric.selector", "Invalid value: "+err.Error())
		}
	}
	for i, m := range report.GetCustomMetrics() {
		identity(m.GetMetric(), m.GetDescribedObject(), fmt.Sprintf("customMetrics[%d]", i))
		r.quantity(m.GetValue(), func() string { return fmt.Sprintf("customMetrics[%d].value", i) })
		r.time(m.GetTimestamp(), func() string { return fmt.Sprintf("customMetrics[%d].timestamp", i) })
	}
	for i, m := range report.GetExternalMetrics() {
		identity(m.GetMetric(), nil, fmt.Sprintf("externalMetrics[%d]", i))
		r.quantity(m.GetValue(), func() string { return fmt.Sprintf("externalMetrics[%d].value", i) })
		r.time(m.GetTimestamp(), func() string { return fmt.Sprintf("externalMetrics[%d].timestamp", i) })
	}
	staged := &stagesReader{now: now}
	staged.proposals(report.GetProposals())
	return append(r.violations, staged.violations...)
}
