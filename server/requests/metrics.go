package requests

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/server/telemetry"
)

// metrics count requests. All series exist from the start.
type metrics struct {
	Calls     *telemetry.Calls
	Decisions *telemetry.Decisions
	Slow      slowPaths
	slowPath  *prometheus.CounterVec
}

// slowPaths count recommendations that did not take the fast path, by reason.
type slowPaths struct {
	// Of encoded requests: the policy has settings for the caller, the request sets an
	// instant that may not be allowed, or the decoder does not support the request.
	policy, evaluationTime, unusual prometheus.Counter
	// Of JSON bodies: the transcoder does not support the request, or its path or deadline.
	RestUnusual prometheus.Counter
}

func newSlowPaths(v *prometheus.CounterVec) slowPaths {
	return slowPaths{
		policy: v.WithLabelValues("decode", "policy"), evaluationTime: v.WithLabelValues("decode", "evaluation_time"),
		unusual: v.WithLabelValues("decode", "unusual"), RestUnusual: v.WithLabelValues("rest", "unusual"),
	}
}

func newMetrics(calls *telemetry.Calls) *metrics {
	m := &metrics{Calls: calls, Decisions: telemetry.NewDecisions(), slowPath: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "setpoint_requests_slow_path_total", Help: "Recommendation requests that did not take the fast path, by stage (decode: read as protobuf messages; rest: translated by the gateway) and reason.",
	}, []string{"stage", "reason"})}
	m.Slow = newSlowPaths(m.slowPath)
	return m
}

func (m *metrics) Collectors() []prometheus.Collector {
	return append(append(m.Calls.Collectors(), m.Decisions.Collectors()...), m.slowPath)
}
