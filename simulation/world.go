package simulation

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// world is the state of one run.
type world struct {
	scenario   *Scenario
	autoscaler *Autoscaler
	engine     Engine
	figures    figures
	name       string

	now                       time.Duration
	syncPeriod, resolution    time.Duration
	nextSync, nextScrape      time.Duration
	nextPod, nextProbe        time.Duration
	nextEvent, nextProblemEnd time.Duration
	nextPoint                 time.Duration
	events                    []Event // future events
	problems                  []*Event
	writesFailUntil           time.Duration
	// work counts the evaluations of pods; looksAtAStep is how often each pod is
	// evaluated per step, metricsAtAStep what metrics that are not of pods cost per step in
	// evaluations of a pod, and keptOfAPod the most numbers stored for each.
	work           int64
	mostWork       int64
	mostKept       int64
	looksAtAStep   int
	metricsAtAStep int64
	keptOfAPod     int64
	// ctx ends the run; keepsActions reports whether its result has the actions. action is that of the pending
	// write, which is one of them once it is written.
	ctx          context.Context
	keepsActions bool
	action       Action
	actions      []Action

	// replicas is the desired count.
	replicas              int32
	pods, serving, open   []*pod
	serial                uint64
	slotsTaken            int32
	ready, runningPods    int
	podCapacity, capacity float64
	generation            int
	surge, unavailable    int32
	containers            []recommender.Container
	resources             []resource
	metrics               []metricState
	besideUsages          int
	service               service
	lateness              time.Duration
	probes                []time.Duration // their phases in the sync period
	log                   []logEntry
	logFrom, logLength    int
	logsPods              bool // for Pods metrics
	spareUsage            [][]int64
	input                 recommender.Input
	usages                []recommender.ResourceUsage
	containerMetrics      []recommender.ContainerMetrics
	stamp                 shownInstant // timestamp of the samples, the same for most pods
	counter               uint64
	pending               *write
	pendingWrite          write
	needs                 []need

	// part of the scenario's load arrives here, and own besides; nil: none.
	part float64
	own  *Trace
	// A member of a fleet may be down, silent, or late.
	down, silent          trouble
	callsLate, writesLate trouble
	mostPods              int
}

// trouble lasts for a while.
type trouble struct{ until, by time.Duration }

func (t *trouble) begin(e *Event) {
	if until := e.At + e.For; until >= t.until {
		t.until, t.by = until, e.By
	}
}

// is reports whether it lasts.
func (t *trouble) is(now time.Duration) bool { return now < t.until }

// now is its delay, 0 when it is over.
func (t *trouble) now(now time.Duration) time.Duration {
	if t.is(now) {
		return t.by
	}
	return 0
}

// write is a pending write of the count.
type write struct {
	at       time.Duration
	id       recommender.ID
	replicas int32
}

func newWorld(s *Scenario, a *Autoscaler, engine Engine) *world {
	return newWorldOf(s, a, engine, 1, nil, s.replicas(a))
}

// newWorldOf is a world in which a part of the load arrives, and some of its own.
func newWorldOf(s *Scenario, a *Autoscaler, engine Engine, part float64, own *Trace, replicas int32) *world {
	w := &world{
		part: part, own: own, mostPods: MaxPods,
		scenario: s, autoscaler: a, engine: engine, name: a.Spec.ScaleTargetRef.Name,
		syncPeriod: defaulted(s.Loop.SyncPeriod),
		resolution: defaulted(s.Loop.Resolution),
		nextSync:   s.Loop.Offset, nextScrape: s.Loop.ScrapeOffset,
		mostWork: MaxWork, mostKept: MaxKept, ctx: context.Background(),
		nextProblemEnd: never, writesFailUntil: -never,
		containers: templateOf(&s.Workload), service: newService(&s.Workload),
	}
	w.name = cmp.Or(w.name, "pod")
	w.events = slices.Clone(s.Events)
	for _, e := range s.Events {
		switch e.Kind {
		case ClusterDown:
			w.events = append(w.events, Event{At: e.At + e.For, Kind: clusterUp})
		case MetricsFrozen:
			w.lateness = max(w.lateness, e.For+w.resolution+w.syncPeriod)
		case MetricsLate:
			w.lateness = max(w.lateness, e.By+w.resolution+w.syncPeriod)
		}
	}
	slices.SortStableFunc(w.events, func(a, b Event) int { return int(sign(a.At - b.At)) })
	w.nextEvent = never
	if len(w.events) > 0 {
		w.nextEvent = w.events[0].At
	}
	for i := range s.Workload.Containers {
		if i > 0 {
			w.besideUsages += len(s.Workload.Containers[i].Usage)
		}
	}
	w.prepareMetrics()
	w.podCapacity = s.Workload.PodCapacity()
	w.needs = needsOf(s, a)
	w.input = recommender.Input{
		Namespace: a.Namespace, Spec: a.Spec, Options: a.Options,
		Explain: true, ExplainLimit: recommender.ExplainNoPods,
	}
	if replicas == 0 && a.Spec.MinReplicas == 0 { // the autoscaler has scaled it so; with a minimum somebody has switched it off
		w.input.PreviousStatus = &recommender.Status{Conditions: []recommender.Condition{{Type: recommender.ScaledToZero, Status: recommender.ConditionTrue, Reason: recommender.ScaledToZero}}}
	}
	w.nextPoint = w.loadChanges(0)
	w.replicas = replicas
	for range w.replicas {
		w.pods = append(w.pods, w.newPod(true))
	}
	w.podsChanged()
	w.nextProbe = w.probeAfter(-1)
	if w.nextScrape > 0 {
		w.scrapeBefore(w.nextScrape - w.resolution)
	}
	return w
}

func sign(d time.Duration) time.Duration {
	switch {
	case d < 0:
		return -1
	case d > 0:
		return 1
	}
	return 0
}

func defaulted(d time.Duration) time.Duration {
	if d == 0 {
		return DefaultPeriod
	}
	return d
}

// replicas is the initial number.
func (s *Scenario) replicas(a *Autoscaler) int32 {
	if s.Workload.Replicas != nil {
		return *s.Workload.Replicas
	}
	return max(1, a.Spec.MinReplicas)
}

// Bounded reports whether there is a load that a pod can't serve. Else nothing is ever short.
func (w *Workload) Bounded() bool { return !math.IsInf(w.PodCapacity(), 1) }

// PodCapacity is what a pod serves, units per second; +Inf: any load.
func (w *Workload) PodCapacity() float64 {
	if w.Capacity > 0 {
		return w.Capacity
	}
	if len(w.Containers) == 0 {
		return math.Inf(1)
	}
	cpu := w.usageOf("cpu")
	if cpu == nil || cpu.PerLoad <= 0 {
		return math.Inf(1)
	}
	for _, limit := range w.Containers[0].Limits {
		if limit.Resource == "cpu" {
			return max(0, float64(limit.Milli)-cpu.Idle) / cpu.PerLoad
		}
	}
	return math.Inf(1)
}

func (w *Workload) usageOf(metric string) *Usage {
	for i := range w.Usage {
		if w.Usage[i].Metric == metric {
			return &w.Usage[i]
		}
	}
	return nil
}

// MetricName is the name under which a workload's usage has a metric of a spec.
func MetricName(m *recommender.MetricSpec) string {
	switch m.Type {
	case recommender.ResourceMetric, recommender.ContainerResourceMetric:
		return m.Resource
	}
	return m.Metric.Name
}

// prepareMetrics determines what has to be measured, and when.
func (w *world) prepareMetrics() {
	longest := time.Duration(0)
	for i := range w.autoscaler.Spec.Metrics {
		spec := &w.autoscaler.Spec.Metrics[i]
		usage := w.scenario.Workload.usageOf(MetricName(spec))
		w.metrics = append(w.metrics, metricState{spec: spec, usage: *usage})
		switch spec.Type {
		case recommender.ResourceMetric, recommender.ContainerResourceMetric:
			if !slices.ContainsFunc(w.resources, func(r resource) bool { return r.name == spec.Resource }) {
				w.resources = append(w.resources, resource{name: spec.Resource, usage: *usage})
			}
		default:
			if usage.Recorded {
				break // nothing is averaged
			}
			phase := func(d time.Duration) time.Duration {
				return ((w.scenario.Loop.Offset-d)%w.syncPeriod + w.syncPeriod) % w.syncPeriod
			}
			w.probes = append(w.probes, phase(usage.Delay), phase(usage.Delay+usage.window()))
			longest = max(longest, usage.Delay+usage.window())
		}
	}
	slices.Sort(w.probes)
	w.probes = slices.Compact(w.probes)
	w.logLength = (int(longest/w.syncPeriod) + 2) * (len(w.probes) + 1)
	w.countCosts()
	if len(w.probes) == 0 {
		w.nextProbe = never
	}
}

// countCosts determines the cost of each pod: its evaluations per step, one for each metric
// and container, and the numbers stored for it.
func (w *world) countCosts() {
	late := min(w.lateness, w.scenario.Duration)
	w.looksAtAStep = 2 + len(w.resources) + len(w.containers)
	if len(w.resources) > 0 && late > 0 {
		w.keptOfAPod += int64(late/w.resolution+2) * int64(len(w.resources)+6)
	}
	for i := range w.metrics {
		switch w.metrics[i].spec.Type {
		case recommender.ResourceMetric, recommender.ContainerResourceMetric:
			w.looksAtAStep += len(w.containers)
		case recommender.ObjectMetric, recommender.ExternalMetric:
			w.metricsAtAStep += looksToMeasure
		case recommender.PodsMetric:
			w.looksAtAStep += 2
			w.logsPods = true
			if late > 0 {
				w.keptOfAPod += int64(late/w.syncPeriod+2) * 3
			}
		}
	}
	if w.logsPods {
		w.keptOfAPod += 2 * int64(w.logLength)
	}
}

// probeAfter returns the next instant after another at which an averaging window of a
// metric begins or ends. The start is one, for windows that would begin before it.
func (w *world) probeAfter(at time.Duration) time.Duration {
	if len(w.probes) == 0 {
		return never
	}
	if at < 0 {
		return 0
	}
	period := at / w.syncPeriod * w.syncPeriod
	i, passed := slices.BinarySearch(w.probes, at-period)
	if passed {
		i++
	}
	if i == len(w.probes) {
		return period + w.syncPeriod + w.probes[0]
	}
	return period + w.probes[i]
}

// next returns the next instant of an event or a change of rates.
func (w *world) next() time.Duration {
	at := min(w.scenario.Duration, w.nextSync, w.nextScrape, w.nextPod, w.nextProbe, w.nextEvent, w.nextProblemEnd, w.nextPoint)
	if w.pending != nil {
		at = min(at, w.pending.at)
	}
	from, to := w.loadAt(w.now), w.loadBefore(at)
	back := w.service.backRate(w.now)
	if w.service.busy() || (max(from, to)+back > w.capacity && (w.scenario.Workload.Queue.Size > 0 || w.scenario.Workload.Retries.Count > 0)) {
		if second := (w.now/time.Second + 1) * time.Second; second < at {
			at, to = second, w.loadBefore(second)
		}
	}
	// No stretch has rates both above and below the capacity.
	for _, level := range [...]float64{w.capacity, w.capacity - back} {
		if crossing := w.crossing(from, to, level, at); crossing < at {
			at, to = crossing, w.loadBefore(crossing)
		}
	}
	return at
}

// asked is the count asked for: none, where nobody is to ask.
func (w *world) asked() int32 {
	if w.down.is(w.now) {
		return 0
	}
	return w.replicas
}

// loadAt is the load at an instant, loadBefore that just before it, and loadChanges the next instant at which
// its slope changes.
func (w *world) loadAt(at time.Duration) float64 {
	load := mul(w.part, w.scenario.Load.At(at))
	if w.own != nil {
		load += w.own.At(at)
	}
	return load
}

func (w *world) loadBefore(at time.Duration) float64 {
	load := mul(w.part, w.scenario.Load.before(at))
	if w.own != nil {
		load += w.own.before(at)
	}
	return load
}

func (w *world) loadChanges(after time.Duration) time.Duration {
	at := w.scenario.Load.next(after)
	if w.own != nil {
		at = min(at, w.own.next(after))
	}
	return at
}

// crossing is when the line from the current rate to that at an instant crosses a
// level.
func (w *world) crossing(from, to, level float64, at time.Duration) time.Duration {
	if from == to || (from-level > 0) == (to-level > 0) || from == level || to == level || math.IsInf(level, 0) {
		return at
	}
	part := (level - from) / (to - from)
	when := w.now + time.Duration(mul(part, float64(at-w.now)))
	if when <= w.now || when >= at {
		return at
	}
	return when
}

// advance lets time pass until an instant before which no rate changes its slope.
func (w *world) advance(to time.Duration) {
	if to <= w.now {
		return
	}
	from, before := w.loadAt(w.now), w.loadBefore(to)
	seconds := (to - w.now).Seconds()
	served := w.service.advance(w.now, to, area(from, before, to-w.now), mul(w.capacity, seconds))
	w.share(served, seconds)
	w.figures.pass(w, from, before, to-w.now)
	w.looked(1)
	w.now = to
}

// settle does everything due at this instant except the evaluation.
func (w *world) settle() error {
	for len(w.events) > 0 && w.events[0].At <= w.now {
		event := w.events[0]
		w.events = w.events[1:]
		w.happen(&event)
		if err := w.tooMuch(); err != nil {
			return err
		}
	}
	w.nextEvent = never
	if len(w.events) > 0 {
		w.nextEvent = w.events[0].At
	}
	if w.nextProblemEnd <= w.now {
		w.endProblems()
	}
	if w.nextPod <= w.now {
		w.updatePods()
	}
	if w.nextPoint <= w.now {
		w.nextPoint = w.loadChanges(w.now)
	}
	if w.pending != nil && w.pending.at <= w.now {
		if err := w.write(); err != nil {
			return err
		}
	}
	if w.nextScrape <= w.now {
		w.scrape()
		w.nextScrape += w.resolution
	}
	if w.nextProbe <= w.now {
		w.note()
		w.nextProbe = w.probeAfter(w.now)
	}
	return nil
}

// endProblems ends expired problems.
func (w *world) endProblems() {
	w.nextProblemEnd = never
	w.problems = slices.DeleteFunc(w.problems, func(e *Event) bool {
		if e.At+e.For <= w.now {
			return true
		}
		w.nextProblemEnd = min(w.nextProblemEnd, e.At+e.For)
		return false
	})
	w.problemsChanged()
}

// happen executes an event.
func (w *world) happen(e *Event) {
	switch e.Kind {
	case KillPods:
		for i, p := range w.victims(e) {
			if i < e.Pods {
				p.deleted, p.drained, p.gone = w.now, w.now, w.now
			}
		}
		w.reconcile()
	case CrashPods:
		victims := w.victims(e)
		// A rounding error above a whole number is not another pod.
		for _, p := range victims[:int(math.Ceil(mul(float64(len(victims)), e.Share)-1e-9))] {
			p.restarts++
			p.crashedUntil = max(p.crashedUntil, w.now+e.For) // one crash does not end another
		}
		w.updatePods()
	case MetricsGone, MetricsFrozen, MetricsZero, MetricsLate:
		w.problems = append(w.problems, e)
		w.problemsChanged()
		w.nextProblemEnd = min(w.nextProblemEnd, e.At+e.For)
	case WritesFail:
		w.writesFailUntil = max(w.writesFailUntil, e.At+e.For)
	case SetReplicas:
		w.replicas = e.Replicas
		w.reconcile()
	case Rollout:
		w.generation++
		w.surge, w.unavailable = e.Surge, e.Unavailable
		w.reconcile()
	case ClusterDown:
		w.down.begin(e)
		w.pending = nil
		for _, p := range w.pods {
			p.deleted, p.drained, p.gone = w.now, w.now, w.now
		}
		w.reconcile()
	case clusterUp:
		w.reconcile()
	case CallsGone:
		w.silent.begin(e)
	case CallsLate:
		w.callsLate.begin(e)
	case WritesLate:
		w.writesLate.begin(e)
	}
}

// victims are the running pods in the order in which an event hits them, by the seed.
func (w *world) victims(e *Event) []*pod {
	pods := slices.DeleteFunc(w.active(), func(p *pod) bool { return !p.isRunning(w.now) })
	w.sorted(pods)
	for _, p := range pods {
		p.fate = draw(w.scenario.Seed, victimStream, mix(uint64(e.At))^p.serial)
	}
	slices.SortFunc(pods, func(a, b *pod) int { return cmp.Compare(a.fate, b.fate) })
	return pods
}

// writeFailed is the API server's error while writes of the count fail.
const writeFailed = "the API server is unavailable"

// write performs the pending write.
func (w *world) write() error {
	p := w.pending
	w.pending = nil
	if w.now < w.writesFailUntil {
		w.figures.failedWrites++
		return w.engine.Settle(p.id, recommender.Failed, writeFailed)
	}
	if int(p.replicas) > w.mostPods { // before that many pods are created
		left := ""
		if w.mostPods < MaxPods {
			left = fmt.Sprintf(", of which the other members leave %d", w.mostPods)
		}
		return fmt.Errorf("%w: at %s the count would be %d, the maximum is %d pods%s", ErrTooMuch, w.now, p.replicas, MaxPods, left)
	}
	w.figures.wrote(w.now, w.replicas, p.replicas)
	if w.keepsActions && w.replicas != p.replicas {
		w.actions = append(w.actions, w.action)
	}
	w.replicas = p.replicas
	if err := w.engine.Settle(p.id, recommender.Applied, ""); err != nil {
		return err
	}
	w.reconcile()
	return nil
}
