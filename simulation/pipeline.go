package simulation

import (
	"slices"
	"sort"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// resource is a resource with samples of pods.
type resource struct {
	name  string
	usage Usage
	// problem is its current problem, nil: none.
	problem *Event
}

// reading is one total at an instant, kept for delayed metrics.
type reading struct {
	at    time.Duration
	value int64
}

// metricState is the pipeline's state of one metric of the spec.
type metricState struct {
	spec  *recommender.MetricSpec
	usage Usage
	// worlds are the clusters whose parts make it up; nil: this one.
	worlds []*world
	// problem is its current problem, nil: none.
	problem *Event
	// past totals, and past values of pods with their instants; for delayed and frozen
	// metrics.
	past       []reading
	pastValues []podReadings
	// values is memory for the values of one instant, and taken for when they were measured.
	values []recommender.Value
	taken  []time.Time
}

type podReadings struct {
	at     time.Duration
	values []podValue
}

// podValue is a pod's value, and the pod's place in the order of creation.
type podValue struct {
	recommender.Value
	serial uint64
}

// logEntry is the totals at one instant.
type logEntry struct {
	at                                  time.Duration
	offered, served, queueArea, ageArea float64
}

// scrape measures what the running pods used since the previous scrape.
func (w *world) scrape() {
	w.looked(1 + len(w.resources))
	for _, p := range w.pods {
		if !p.isRunning(w.now) {
			continue
		}
		if p.scrapes > 0 {
			p.samples = append(p.samples, w.measure(p))
			w.forget(p)
		} else if p.created < 0 && p.running < 0 {
			// Pods of the start have been scraped before: their usage was the same as now.
			p.samples = append(p.samples, w.measureFirst(p))
		}
		p.scrapes++
		p.scrapedAt, p.scrapedServed = w.now, p.served
	}
}

// scrapeBefore is the last scrape before the start.
func (w *world) scrapeBefore(at time.Duration) {
	w.now = at
	w.scrape()
	w.now = 0
	for _, p := range w.pods {
		p.scrapedServed = -mul(w.rateBefore(), -at.Seconds())
	}
}

// rateBefore is the rate each pod served before the start: its part of the initial load.
func (w *world) rateBefore() float64 {
	return min(w.loadAt(0)/float64(max(1, w.ready)), w.podCapacity)
}

// measureFirst is the sample of a pod that existed before the simulation, for one resolution.
func (w *world) measureFirst(p *pod) sample {
	p.scrapedAt = w.now - w.resolution
	p.scrapedServed = p.served - mul(w.rateBefore(), w.resolution.Seconds())
	return w.measure(p)
}

func (w *world) measure(p *pod) sample {
	s := sample{at: w.now, window: w.now - p.scrapedAt}
	if n := len(w.spareUsage); n > 0 {
		s.usage, w.spareUsage = w.spareUsage[n-1][:0], w.spareUsage[:n-1]
	}
	seconds := s.window.Seconds()
	for i := range w.resources {
		used := w.used(p, &w.resources[i].usage, p.scrapedAt, w.now) + mul(w.resources[i].usage.PerLoad, p.served-p.scrapedServed)
		s.usage = append(s.usage, milli(used/seconds))
	}
	return s
}

// used is what a pod used between two instants while it ran, without the usage due to
// load, milli-units times seconds.
func (w *world) used(p *pod, u *Usage, from, to time.Duration) float64 {
	area := mul(u.Idle, (to - from).Seconds())
	if u.Warmup > 0 {
		if warm := min(to, p.running+w.scenario.Workload.Warmup) - max(from, p.running); warm > 0 {
			area += mul(u.Warmup, warm.Seconds())
		}
	}
	return area
}

// forget drops samples that are no longer needed: all but the newest, and those that delayed
// metrics need.
func (w *world) forget(p *pod) {
	if w.lateness == 0 && len(p.samples) == 2 { // the usual case
		w.spareUsage = append(w.spareUsage, p.samples[0].usage)
		p.samples[0] = p.samples[1]
		p.samples = p.samples[:1]
		return
	}
	drop := 0
	for len(p.samples)-drop > 1 && p.samples[drop+1].at <= w.now-w.lateness {
		w.spareUsage = append(w.spareUsage, p.samples[drop].usage)
		drop++
	}
	p.samples = slices.Delete(p.samples, 0, drop)
}

// note adds the totals of this instant to the log.
func (w *world) note() {
	if n := len(w.log); n > 0 && w.log[n-1].at == w.now {
		return
	}
	s := &w.service
	w.log = append(w.log, logEntry{at: w.now, offered: s.offered, served: s.served, queueArea: s.queueArea, ageArea: s.ageArea})
	w.looked(1)
	if w.logsPods {
		for _, p := range w.pods {
			p.log = append(p.log, p.served)
		}
	}
	if len(w.log) > 2*w.logLength {
		w.cutLog(len(w.log) - w.logLength)
	}
}

// cutLog drops the first n entries.
func (w *world) cutLog(n int) {
	w.log = w.log[:copy(w.log, w.log[n:])]
	w.logFrom += n
	for _, p := range w.pods {
		if drop := w.logFrom - p.logFrom; drop > 0 {
			p.log = p.log[:copy(p.log, p.log[min(drop, len(p.log)):])]
			p.logFrom = w.logFrom
		}
	}
}

// entryAt returns the index of the log's entry for an instant at which one was added; the
// first one for an earlier instant.
func (w *world) entryAt(at time.Duration) int {
	i := sort.Search(len(w.log), func(i int) bool { return w.log[i].at >= at })
	return min(i, len(w.log)-1)
}

// servedAt is the volume a pod had served at an entry of the log.
func (w *world) servedAt(p *pod, entry int) float64 {
	if i := entry + w.logFrom - p.logFrom; i >= 0 && i < len(p.log) {
		return p.log[i]
	}
	return 0
}

// window is the interval over which a metric read now is averaged.
func (w *world) window(u *Usage) (from, to time.Duration) {
	to = max(0, w.now-u.Delay)
	return max(0, to-u.window()), to
}

func (u *Usage) window() time.Duration {
	if u.Window == 0 {
		return DefaultWindow
	}
	return u.Window
}

// total is the value of an Object or External metric.
func (w *world) total(m *metricState) int64 {
	u, level := &m.usage, 0.0
	if m.worlds == nil {
		level = w.level(u)
	}
	for _, of := range m.worlds {
		if one := of.level(u); u.Follows == QueueAge {
			level = max(level, one)
		} else {
			level += one
		}
	}
	return milli(u.Idle + mul(u.PerLoad, level))
}

// level is what a metric follows, averaged over its window.
func (w *world) level(u *Usage) float64 {
	from, to := w.window(u)
	if u.Recorded {
		return w.loadAt(to)
	}
	if from == to { // at the start: the load of that instant
		switch u.Follows {
		case Served, Offered:
			return w.loadAt(0)
		}
		return 0
	}
	area := 0.0
	a, b := &w.log[w.entryAt(from)], &w.log[w.entryAt(to)]
	switch u.Follows {
	case Served:
		area = b.served - a.served
	case Offered:
		area = b.offered - a.offered
	case QueueLength:
		area = b.queueArea - a.queueArea
	case QueueAge:
		area = b.ageArea - a.ageArea
	}
	if b.at == a.at {
		return 0
	}
	return area / (b.at - a.at).Seconds() // that of other clusters may be measured at other instants
}

// podValues returns the values of a Pods metric, in the order in which pods were
// created.
func (w *world) podValues(u *Usage, give func(*pod, recommender.Value)) {
	start, end := w.window(u)
	if u.Recorded {
		w.podShares(u, end, give)
		return
	}
	a, b := w.entryAt(start), w.entryAt(end)
	for _, p := range w.pods {
		from := max(start, p.running)
		switch {
		case p.running > end || !p.isRunning(w.now):
			continue
		case from == end && p.created >= 0:
			continue // it has not run within the window
		case from == end: // at the start: the load of that instant
			give(p, recommender.Value{Pod: p.name, Milli: milli(u.Idle + mul(u.PerLoad, w.rateBefore()))})
			continue
		}
		used := w.used(p, u, from, end) + mul(u.PerLoad, w.servedAt(p, b)-w.servedAt(p, a))
		give(p, recommender.Value{Pod: p.name, Milli: milli(used / (end - from).Seconds())})
	}
}

// podShares returns the values of a recorded Pods metric: the load of an instant, by the weights of the pods that serve.
func (w *world) podShares(u *Usage, at time.Duration, give func(*pod, recommender.Value)) {
	weights := 0.0
	for _, p := range w.serving {
		weights += p.weight
	}
	for _, p := range w.pods {
		if p.running > at || !p.isRunning(w.now) {
			continue
		}
		value := w.used(p, u, at-time.Second, at) // of one second
		if p.serves(w.now) {
			value += mul(u.PerLoad, mul(w.loadAt(at), p.weight/weights))
		}
		give(p, recommender.Value{Pod: p.name, Milli: milli(value)})
	}
}

// problemsChanged updates the current problem of each metric.
func (w *world) problemsChanged() {
	for i := range w.resources {
		w.resources[i].problem = w.problemOf(w.resources[i].name)
	}
	for i := range w.metrics {
		w.metrics[i].problem = w.problemOf(w.metrics[i].usage.Metric)
	}
}

// problemOf returns a metric's current problem, and since when; nil: none. The latest one
// counts.
func (w *world) problemOf(metric string) *Event {
	w.work += int64(len(w.problems))
	for i := len(w.problems) - 1; i >= 0; i-- {
		if e := w.problems[i]; e.Metric == "" || e.Metric == metric {
			return e
		}
	}
	return nil
}

// metricGone is the error of a metrics API that is unavailable, through the aggregation
// layer.
const metricGone = "the server is currently unable to handle the request"

// observe fills in the input as the API would show the cluster at this instant. The input
// is reused at the next one.
func (w *world) observe() *recommender.Input {
	in := &w.input
	in.Scale = recommender.Scale{SpecReplicas: w.replicas, StatusReplicas: w.activeCount()}
	in.Pods = in.Pods[:0]
	for _, p := range w.pods {
		in.Pods = append(in.Pods, w.shown(p))
	}
	w.observeResources(in)
	in.Readings = in.Readings[:0]
	for i := range w.metrics {
		in.Readings = append(in.Readings, w.read(&w.metrics[i]))
	}
	w.counter++
	in.ID = recommender.ID{}
	for i := range 8 {
		in.ID[15-i] = byte(w.counter >> (8 * i))
	}
	return in
}

// shown returns a pod as the API shows it, in whole seconds.
func (w *world) shown(p *pod) recommender.Pod {
	out := recommender.Pod{
		Name: p.name, Phase: recommender.PhasePending, Deleting: p.isDeleting(w.now),
		Ready: recommender.ReadyFalse, Containers: w.containers,
	}
	if p.isRunning(w.now) {
		out.Phase = recommender.PhaseRunning
		out.StartTime = p.shownStart.of(w, p.running)
		out.ReadyTransition = p.shownReady.of(w, p.readyChanged)
	}
	if p.ready {
		out.Ready = recommender.ReadyTrue
	}
	return out
}

// instant is an instant as the API shows it.
func (w *world) instant(at time.Duration) time.Time {
	return w.scenario.Start.Add(at).Truncate(time.Second)
}

// shownInstant caches an instant as the API shows it: computing it for each pod at each
// evaluation took a fifth of a run.
type shownInstant struct {
	at    time.Duration
	shown time.Time // zero: none yet
}

func (s *shownInstant) of(w *world, at time.Duration) time.Time {
	if s.at != at || s.shown.IsZero() {
		s.at, s.shown = at, w.instant(at)
	}
	return s.shown
}

// observeResources fills in the samples of metrics-server.
func (w *world) observeResources(in *recommender.Input) {
	in.PodMetrics = in.PodMetrics[:0]
	w.usages, w.containerMetrics = w.usages[:0], w.containerMetrics[:0]
	if len(w.resources) == 0 {
		return
	}
	if need := len(w.pods) * (len(w.resources) + w.besideUsages); cap(w.usages) < need {
		w.usages = make([]recommender.ResourceUsage, 0, 2*need)
	}
	if need := len(w.pods) * len(w.containers); cap(w.containerMetrics) < need {
		w.containerMetrics = make([]recommender.ContainerMetrics, 0, 2*need)
	}
	for _, p := range w.pods {
		s := w.sampleOf(p, nil)
		if s == nil {
			continue
		}
		first := len(w.usages)
		stamp := s
		for i := range w.resources {
			value := s.usage[i]
			if problem := w.resources[i].problem; problem != nil {
				switch problem.Kind {
				case MetricsZero:
					value = 0
				case MetricsFrozen, MetricsLate:
					old := w.sampleOf(p, problem)
					if old == nil {
						continue
					}
					value, stamp = old.usage[i], old
				}
			}
			w.usages = append(w.usages, recommender.ResourceUsage{Resource: w.resources[i].name, Milli: value})
		}
		if len(w.usages) == first {
			continue
		}
		containers := len(w.containerMetrics)
		w.containerMetrics = append(w.containerMetrics, recommender.ContainerMetrics{Name: w.containers[0].Name, Usage: w.usages[first:len(w.usages):len(w.usages)]})
		for i := range w.containers[1:] {
			w.containerMetrics = append(w.containerMetrics, recommender.ContainerMetrics{
				Name: w.containers[i+1].Name, Usage: w.scenario.Workload.Containers[i+1].Usage,
			})
		}
		in.PodMetrics = append(in.PodMetrics, recommender.PodMetrics{
			Pod: p.name, Timestamp: w.stamp.of(w, stamp.at), Window: stamp.window,
			Containers: w.containerMetrics[containers:len(w.containerMetrics):len(w.containerMetrics)],
		})
	}
}

// sampleOf returns the newest sample of a pod that the problem lets through, nil: none.
func (w *world) sampleOf(p *pod, problem *Event) *sample {
	newest := w.now
	if problem != nil {
		switch problem.Kind {
		case MetricsFrozen:
			newest = problem.At
		case MetricsLate:
			newest = w.now - problem.By
		}
	}
	n := len(p.samples)
	if n > 0 && p.samples[n-1].at > newest {
		n = sort.Search(n, func(i int) bool { return p.samples[i].at > newest })
	}
	if n == 0 {
		return nil
	}
	return &p.samples[n-1]
}

// read reads one metric of the spec.
func (w *world) read(m *metricState) recommender.Readings {
	problem := m.problem
	if problem != nil && problem.Kind == MetricsGone {
		return recommender.Readings{Error: metricGone}
	}
	var out recommender.Readings
	var at time.Duration
	switch m.spec.Type {
	case recommender.PodsMetric:
		out.Values, at = w.readPods(m, problem)
	case recommender.ObjectMetric, recommender.ExternalMetric:
		var total int64
		total, at = w.readTotal(m, problem)
		out.Values = []recommender.Value{{Milli: total}}
	}
	if plan := w.autoscaler.Stages; plan != nil && plan.Freshness != nil {
		m.taken = m.taken[:0]
		for range out.Values {
			m.taken = append(m.taken, w.instant(at-m.usage.Delay))
		}
		out.Taken = m.taken
	}
	return out
}

func (w *world) readTotal(m *metricState, problem *Event) (total int64, at time.Duration) {
	m.past = append(m.past, reading{w.now, w.total(m)})
	for len(m.past) > 1 && m.past[1].at <= w.now-w.lateness {
		m.past = m.past[1:]
	}
	if problem != nil && problem.Kind == MetricsZero {
		return 0, w.now
	}
	newest := w.newest(problem)
	n := sort.Search(len(m.past), func(i int) bool { return m.past[i].at > newest })
	of := &m.past[max(0, n-1)]
	return of.value, of.at
}

// newest is the instant up to which the problem lets readings through.
func (w *world) newest(problem *Event) time.Duration {
	switch {
	case problem == nil:
	case problem.Kind == MetricsFrozen:
		return problem.At
	case problem.Kind == MetricsLate:
		return w.now - problem.By
	}
	return w.now
}

// readPods returns the values of pods, and when they were read.
func (w *world) readPods(m *metricState, problem *Event) (values []recommender.Value, at time.Duration) {
	if w.lateness == 0 {
		m.values = m.values[:0]
		w.podValues(&m.usage, func(_ *pod, v recommender.Value) {
			if problem != nil && problem.Kind == MetricsZero {
				v.Milli = 0
			}
			m.values = append(m.values, v)
		})
		return m.values, w.now
	}
	now := podReadings{w.now, make([]podValue, 0, len(w.pods))}
	w.podValues(&m.usage, func(p *pod, v recommender.Value) { now.values = append(now.values, podValue{v, p.serial}) })
	m.pastValues = append(m.pastValues, now)
	for len(m.pastValues) > 1 && m.pastValues[1].at <= w.now-w.lateness {
		m.pastValues = m.pastValues[1:]
	}
	newest := w.newest(problem)
	n := sort.Search(len(m.pastValues), func(i int) bool { return m.pastValues[i].at > newest })
	// The API has no values of pods that are gone. Pods are in the order of creation, then
	// and now.
	values, pods, of := m.values[:0], w.pods, &m.pastValues[max(0, n-1)]
	for _, v := range of.values {
		i := slices.IndexFunc(pods, func(p *pod) bool { return p.serial >= v.serial })
		if i < 0 {
			break
		}
		if pods = pods[i:]; pods[0].serial != v.serial {
			continue
		}
		shown := v.Value
		if problem != nil && problem.Kind == MetricsZero {
			shown.Milli = 0
		}
		values = append(values, shown)
	}
	m.values = values
	return values, of.at
}

// templateOf returns the containers of the pods as the API shows them.
func templateOf(w *Workload) []recommender.Container {
	containers := []recommender.Container{}
	for _, c := range w.Containers {
		out := recommender.Container{Name: c.Name}
		for _, r := range c.Requests {
			out.Requests = append(out.Requests, recommender.ResourceRequest{Resource: r.Resource, Quantity: quantity.FromMilli(r.Milli)})
		}
		containers = append(containers, out)
	}
	if len(containers) == 0 {
		containers = append(containers, recommender.Container{Name: "app"})
	}
	return containers
}
