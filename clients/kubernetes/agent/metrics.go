package agent

import "github.com/prometheus/client_golang/prometheus"

// metrics are those specific to Kubernetes; the loop has the others.
type metrics struct {
	statusWrites *prometheus.CounterVec
	leading      prometheus.Gauge
	rivalWrites  prometheus.Counter
	rivalObjects prometheus.Gauge
}

// newMetrics registers the metrics; r nil: they are not exported. refused returns the number of namespaces that can't be read.
func newMetrics(r prometheus.Registerer, refused func() int) (*metrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "setpoint_agent_" + name, Help: help})
	}
	m := &metrics{
		statusWrites: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_agent_status_writes_total", Help: "Status updates, by result; unchanged statuses are not written.",
		}, []string{"result"}),
		leading: gauge("leading", "1 while this agent is the elected leader."),
		rivalWrites: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "setpoint_agent_rival_status_writes_total",
			Help: "Times that another controller wrote the status of a HorizontalPodAutoscaler that this agent acts on.",
		}),
		rivalObjects: gauge("rival_objects", "HorizontalPodAutoscalers that another controller acts on as well; alert when above 0."),
	}
	// All series exist from the start, so that events that never happened show as 0.
	for _, result := range []string{"written", "unchanged", "conflict", "failed"} {
		m.statusWrites.WithLabelValues(result)
	}
	if r == nil {
		return m, nil
	}
	refusedNamespaces := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "setpoint_agent_refused_namespaces",
		Help: "Namespaces in which the agent lacks the right to list what it must, so that their objects are held; all count as one if they are listed as one.",
	}, func() float64 { return float64(refused()) })
	for _, c := range []prometheus.Collector{m.statusWrites, m.leading, m.rivalWrites, m.rivalObjects, refusedNamespaces} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
