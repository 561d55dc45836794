package telemetry

import (
	"container/list"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/store"
)

// DefaultMaxTargets is the default limit of the number of targets.
const DefaultMaxTargets = 10_000

// TargetLifetime is how long a target is shown after its last decision on this
// instance.
const TargetLifetime = time.Hour

// Targets shows the replicas of single targets, as this instance last decided. It has a
// maximum number of targets; further ones are counted and left out until a place is
// free. It does not replace those without recent decisions: with more targets than
// places each scrape would show others, and all of them would be new series each time.
// It is safe for concurrent use.
type Targets struct {
	limit   int
	now     func() time.Time
	dropped prometheus.Counter

	mu      sync.Mutex
	entries map[store.Key]*list.Element // guarded by mu; of *targetEntry
	order   *list.List                  // guarded by mu; least recently decided first
}

type targetEntry struct {
	key              store.Key
	current, desired int32
	at               time.Time
}

// NewTargets returns Targets for at most that many.
func NewTargets(limit int, now func() time.Time) *Targets {
	return &Targets{
		limit: limit, now: now, entries: make(map[store.Key]*list.Element), order: list.New(),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "setpoint_target_metrics_dropped_total",
			Help: "Decisions of targets beyond --target-metrics-limit.",
		}),
	}
}

// Decided records a decision on a target.
func (t *Targets) Decided(key store.Key, current, desired int32) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if element := t.entries[key]; element != nil {
		entry := element.Value.(*targetEntry)
		entry.current, entry.desired, entry.at = current, desired, now
		t.order.MoveToBack(element)
		return
	}
	if len(t.entries) >= t.limit {
		t.expire(now)
	}
	if len(t.entries) >= t.limit {
		t.dropped.Inc()
		return
	}
	t.entries[key] = t.order.PushBack(&targetEntry{key, current, desired, now})
}

// Forget removes a deleted target.
func (t *Targets) Forget(key store.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if element := t.entries[key]; element != nil {
		t.remove(element)
	}
}

// expire removes targets without a recent decision. The caller has locked mu.
func (t *Targets) expire(now time.Time) {
	for element := t.order.Front(); element != nil; element = t.order.Front() {
		if now.Sub(element.Value.(*targetEntry).at) < TargetLifetime {
			return
		}
		t.remove(element)
	}
}

// remove removes a target. The caller has locked mu.
func (t *Targets) remove(element *list.Element) {
	t.order.Remove(element)
	delete(t.entries, element.Value.(*targetEntry).key)
}

// Collectors returns the collectors to register.
func (t *Targets) Collectors() []prometheus.Collector {
	return []prometheus.Collector{targetCollector{t}, t.dropped}
}

var (
	targetLabels  = []string{"cluster", "namespace", "target"}
	targetCurrent = prometheus.NewDesc("setpoint_target_current_replicas", "The target's replicas at this instance's last decision (--target-metrics).", targetLabels, nil)
	targetDesired = prometheus.NewDesc("setpoint_target_desired_replicas", "Desired replicas of this instance's last decision (--target-metrics).", targetLabels, nil)
	targetDecided = prometheus.NewDesc("setpoint_target_last_decision_timestamp_seconds", "Unix time of this instance's last decision for the target; of several instances trust the newest (--target-metrics).", targetLabels, nil)
)

// targetCollector creates metrics from Targets.
type targetCollector struct{ targets *Targets }

// Describe implements prometheus.Collector.
func (targetCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- targetCurrent
	descs <- targetDesired
	descs <- targetDecided
}

// Collect implements prometheus.Collector.
func (c targetCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, e := range c.targets.snapshot() {
		labels := []string{e.key.Cluster, e.key.Namespace, e.key.Target}
		metrics <- prometheus.MustNewConstMetric(targetCurrent, prometheus.GaugeValue, float64(e.current), labels...)
		metrics <- prometheus.MustNewConstMetric(targetDesired, prometheus.GaugeValue, float64(e.desired), labels...)
		metrics <- prometheus.MustNewConstMetric(targetDecided, prometheus.GaugeValue, float64(e.at.UnixMilli())/1000, labels...)
	}
}

// snapshot copies the current targets, so that no decision waits for a scrape.
func (t *Targets) snapshot() []targetEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(t.now())
	entries := make([]targetEntry, 0, len(t.entries))
	for element := t.order.Front(); element != nil; element = element.Next() {
		entries = append(entries, *element.Value.(*targetEntry))
	}
	return entries
}
