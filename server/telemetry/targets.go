package telemetry

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/states"
	"github.com/setpoint-dev/setpoint/store"
)

// DefaultMaxTargets is the default limit of the number of targets.
const DefaultMaxTargets = 10_000

// TargetLifetime is how long a target is shown after its last decision on this
// instance.
const TargetLifetime = time.Hour

// Targets shows the replicas, bounds and states of single targets, as this instance last decided. It has a
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
	key store.Key
	at  time.Time
	// looked is when Quiet last returned it.
	looked time.Time
	shown
}

// shown is what is shown of a target.
type shown struct {
	current, desired int32
	// basis has the bounds and the proposal, as far as they are known.
	basis recommender.Basis
	// states are what is the matter, and conditions the places of their statuses, 0 where there is none.
	states     states.Set
	conditions [len(conditionKinds)]uint8
	// overridden is when the override ends that decides the count; zero: none does, or that is not known.
	overridden time.Time
	// interval is in milliseconds, 0: unknown; turns are in milliseconds since the Unix epoch, newest first.
	interval int64
	turns    []int64
	shadows  []Shadow
	// turned is how many of the turns count, and flaps whether they are many, in a snapshot.
	turned int
	flaps  bool
}

// Shadow is the count that a shadow would have.
type Shadow struct {
	Name    string
	Desired int32
}

// The conditions that are shown, and their statuses as kube-state-metrics has them.
var (
	conditionKinds    = [...]string{recommender.AbleToScale, recommender.ScalingActive, recommender.ScalingLimited, recommender.ScaledToZero}
	conditionStatuses = [...]string{recommender.ConditionTrue, recommender.ConditionFalse, recommender.ConditionUnknown}
	statusLabels      = [...]string{"true", "false", "unknown"}
)

// see takes the parts of a status, and the end of an override.
func (s *shown) see(status *recommender.Status, adjusted *recommender.Adjusted, reason, problem string) {
	s.states, s.conditions, s.overridden = states.OfStatus(status, reason, problem), [len(conditionKinds)]uint8{}, time.Time{}
	if last := adjusted.Last(); last != nil && last.Stage == recommender.StageOverride {
		s.overridden = last.Until
	}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if kind := slices.Index(conditionKinds[:], c.Type); kind >= 0 {
			s.conditions[kind] = uint8(slices.Index(conditionStatuses[:], c.Status) + 1)
		}
	}
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

// Decided records a decision on a target, with the interval of its record in milliseconds, its turns and its shadows.
func (t *Targets) Decided(key store.Key, d *recommender.Decision, interval int64, turns []int64, shadows []Shadow) {
	t.change(key, func(s *shown) {
		s.shadows = shadows
		s.current, s.desired, s.basis, s.interval = d.Current, d.Desired, d.Basis, interval
		s.turns = append(s.turns[:0], turns...)
		s.see(&d.Status, d.Adjusted, d.Reason, d.Error)
	})
}

// Failed records that a change of a target was reported as failed, with the record after that. It may
// be another instance that decided: the bounds are unknown then.
func (t *Targets) Failed(key store.Key, r *record.Record) {
	t.change(key, func(s *shown) {
		s.current, s.desired, s.interval = r.Last.From, r.Last.To, r.Interval
		s.turns = append(s.turns[:0], r.Turns...)
		s.see(&r.Status, r.Adjusted, r.Last.Reason, r.Last.Error)
	})
}

// change changes what is shown of a target, which has a place from then on if there is one.
func (t *Targets) change(key store.Key, change func(*shown)) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if element := t.entries[key]; element != nil {
		entry := element.Value.(*targetEntry)
		entry.at = now
		change(&entry.shown)
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
	entry := &targetEntry{key: key, at: now}
	change(&entry.shown)
	t.entries[key] = t.order.PushBack(entry)
}

// quietFor is how long this instance has neither decided on a target nor looked whether another
// instance has deleted it, when it looks.
const quietFor = time.Minute

// Quiet returns at most n targets of which it is to be seen whether another instance has deleted them.
func (t *Targets) Quiet(n int) []store.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []store.Key
	now := t.now()
	for element := t.order.Front(); element != nil && len(keys) < n; element = element.Next() {
		entry := element.Value.(*targetEntry)
		if now.Sub(entry.at) < quietFor {
			break
		}
		if now.Sub(entry.looked) >= quietFor {
			entry.looked = now
			keys = append(keys, entry.key)
		}
	}
	return keys
}

// Deleted removes a target that was deleted then, unless it was decided later.
func (t *Targets) Deleted(key store.Key, then time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if element := t.entries[key]; element != nil && !element.Value.(*targetEntry).at.After(then) {
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
	targetCurrent   = targetDesc("current_replicas", "The target's replicas at this instance's last decision (--target-metrics).")
	targetDesired   = targetDesc("desired_replicas", "Desired replicas of this instance's last decision (--target-metrics).")
	targetMin       = targetDesc("min_replicas", "The spec's lower bound at this instance's last decision (--target-metrics).")
	targetMax       = targetDesc("max_replicas", "The spec's upper bound at this instance's last decision (--target-metrics).")
	targetProposed  = targetDesc("proposed_replicas", "Replicas that the metrics proposed at this instance's last decision, before windows, policies and bounds; absent if none were computed (--target-metrics).")
	targetCondition = targetDesc("status_condition", "1 for the status that each condition has after this instance's last decision or report (--target-metrics).", "condition", "status")
	targetState     = targetDesc("state", "1 for what is the matter with the target: the states of the API's decisions, OVERRIDDEN no longer than the override, and FLAPPING; absent if nothing is (--target-metrics).", "state")
	targetTurns     = targetDesc("turns", "How often the count turned, up after down or down after up, within the last hour; at most 16 (--target-metrics).")
	targetInterval  = targetDesc("interval_seconds", "The usual time between two decisions for the target; absent after the first (--target-metrics).")
	targetNotAsked  = targetDesc("not_asked_timestamp_seconds", "Unix time from which on the target counts as not asked for unless a call comes: three intervals after the last decision, 15 minutes without an interval (--target-metrics).")
	targetShadow    = targetDesc("shadow_desired_replicas", "Replicas that a shadow would have after this instance's last decision; absent while it is off (--target-metrics).", "shadow")
	targetDecided   = targetDesc("last_decision_timestamp_seconds", "Unix time of this instance's last decision for the target, or report of a failed change; of several instances trust the newest (--target-metrics).")
)

func targetDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("setpoint_target_"+name, help, append([]string{"cluster", "namespace", "target"}, labels...), nil)
}

// flapping is a state that comes and goes with time; the others are a decision's.
const flapping = "FLAPPING"

// targetCollector creates metrics from Targets.
type targetCollector struct{ targets *Targets }

// Describe implements prometheus.Collector.
func (targetCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		targetCurrent, targetDesired, targetMin, targetMax, targetProposed, targetCondition, targetState, targetTurns, targetInterval, targetNotAsked, targetShadow, targetDecided,
	} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c targetCollector) Collect(metrics chan<- prometheus.Metric) {
	for _, e := range c.targets.snapshot() {
		gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{e.key.Cluster, e.key.Namespace, e.key.Target}, labels...)...)
		}
		gauge(targetCurrent, float64(e.current))
		gauge(targetDesired, float64(e.desired))
		if e.basis.Bounded {
			gauge(targetMin, float64(e.basis.Min))
			gauge(targetMax, float64(e.basis.Max))
		}
		if e.basis.Decided {
			gauge(targetProposed, float64(e.basis.Proposal))
		}
		for kind, status := range e.conditions {
			if status > 0 {
				gauge(targetCondition, 1, conditionKinds[kind], statusLabels[status-1])
			}
		}
		for _, word := range e.states.Words() {
			gauge(targetState, 1, word)
		}
		if e.flaps {
			gauge(targetState, 1, flapping)
		}
		for _, shadow := range e.shadows {
			gauge(targetShadow, float64(shadow.Desired), shadow.Name)
		}
		gauge(targetTurns, float64(e.turned))
		if e.interval > 0 {
			gauge(targetInterval, float64(e.interval)/1000)
		}
		gauge(targetNotAsked, float64(record.NotAskedAt(e.at.UnixMilli(), e.interval))/1000)
		gauge(targetDecided, float64(e.at.UnixMilli())/1000)
	}
}

// snapshot copies the current targets, so that no decision waits for a scrape.
func (t *Targets) snapshot() []targetEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.expire(now)
	since := now.Add(-record.TurnsPeriod).UnixMilli()
	entries := make([]targetEntry, 0, len(t.entries))
	for element := t.order.Front(); element != nil; element = element.Next() {
		entry := *element.Value.(*targetEntry)
		first := slices.IndexFunc(entry.turns, func(at int64) bool { return at <= since })
		if entry.turned = first; first < 0 {
			entry.turned = len(entry.turns)
		}
		if !entry.overridden.IsZero() && !now.Before(entry.overridden) {
			entry.states = entry.states.Without(states.Overridden)
		}
		entry.flaps = record.FlappingUntil(entry.turns) > now.UnixMilli()
		entry.turns = nil // the next decision overwrites them
		entries = append(entries, entry)
	}
	return entries
}
