package recommender

import (
	"slices"
	"strings"
	"time"
)

// Sums are all that a decision needs of pods and their samples, for callers that have no list of them:
// the sums of several workloads, added up, decide as the list of all their pods does. Only profiles that
// add up have them, see Profile.AddsUp.
type Sums struct {
	// Pods is how many pods there are, and Ready how many of them a total is multiplied with: those that
	// run and are ready.
	Pods, Ready int
	// Metrics belong to Spec.Metrics by index; those of metrics without pods are empty.
	Metrics []MetricSums
}

// MetricSums are the sums of one metric of pods.
type MetricSums struct {
	// Ready, Missing and Unready are the groups of pods that count.
	Ready, Missing, Unready GroupSums
	// Ignored is how many pods do not count.
	Ignored int32
	// Unlisted is how many samples there are of pods that are not listed, with that usage.
	Unlisted      int32
	UnlistedUsage int64
	// Sampled reports whether there are any samples at all, of whatever resource.
	Sampled bool
	// Unusable is why the samples can't be used, and NoRequest the first pod that lacks a request; empty:
	// neither is the case.
	Unusable, NoRequest string
	// UsageWraps and RequestsWrap report sums beyond 64 bits, for warnings.
	UsageWraps, RequestsWrap bool
}

// GroupSums are the sums of one group of pods, in milli-units. They wrap as the engine's do.
type GroupSums struct {
	Pods            int32
	Usage, Requests int64
	// Filled is what the pods are assumed to use where they have no sample and the others use less than
	// the target: for targets of utilization. It is 0 for unready pods, of which that is never assumed.
	Filled int64
}

// AddsUp reports whether decisions of the profile can be made from Sums: the versions before v1.20 and
// the other algorithms need the pods themselves.
func (p *Profile) AddsUp() bool {
	return p == nil || p.algorithm == controllerAlgorithm && !p.storedAsV1
}

// SumsAt returns the sums of the input's pods, as a decision for that instant makes them. Texts name a
// pod owner/name, without an owner name.
func (in *Input) SumsAt(now time.Time, owner string) (sums Sums) {
	in.SumsIn(&sums, now, owner)
	return sums
}

// SumsIn is SumsAt that uses the capacity of sums.Metrics.
func (in *Input) SumsIn(sums *Sums, now time.Time, owner string) {
	d := decider{in: in, profile: in.Options.profile(), scratch: scratchPool.Get().(*scratch)}
	d.initializing = now.Add(-in.Options.CPUInitializationPeriod)
	d.initializingSeconds = d.initializing.Unix()
	if owner != "" {
		owner += "/"
	}
	sums.ResetFor(in)
	for i := range in.Spec.Metrics {
		d.sum(i, &sums.Metrics[i], owner)
	}
	scratchPool.Put(d.scratch)
}

// sum sums up the metric with that index. Texts name a pod by prefix and name.
func (d *decider) sum(index int, sums *MetricSums, prefix string) {
	spec := &d.in.Spec.Metrics[index]
	var readings Readings
	if index < len(d.in.Readings) {
		readings = d.in.Readings[index]
	}
	c, ok := d.perPodOf(spec)
	if !ok {
		return
	}
	c.samples.reset(len(d.in.Pods))
	switch {
	case readings.Error != "" || readings.SelectorError != "":
		clear(c.samples.pods)
	case spec.Type == PodsMetric:
		sums.Sampled = c.samples.customSamples(d.in, readings.Values) == ""
	default:
		sums.Sampled = len(d.in.PodMetrics) > 0
		c.metrics = d.in.PodMetrics
		if sums.Sampled {
			if sums.Unusable = resourceProblem(d.in, d.profile, c.container); sums.Unusable != "" {
				renamed := Input{Namespace: strings.TrimSuffix(d.in.Namespace+"/"+prefix, "/"), PodMetrics: d.in.PodMetrics}
				sums.Unusable = resourceProblem(&renamed, d.profile, c.container)
			}
		}
	}
	if !sums.Sampled {
		clear(c.samples.pods)
	}
	first, problem := c.group(d)
	if problem != "" {
		sums.NoRequest = d.renamedProblem(&c, prefix)
	}
	usage, requests := c.collect(sums)
	sums.Ready.Usage, sums.Ready.Requests = first.usage, first.requests
	sums.UsageWraps, sums.RequestsWrap = outOfInt64(usage), outOfInt64(requests)
}

// perPodOf returns the computation of a metric of pods; ok is false for other metrics.
func (d *decider) perPodOf(spec *MetricSpec) (c perPod, ok bool) {
	c = perPod{resource: spec.Resource, container: spec.Container, samples: &d.scratch.samples, profile: d.profile}
	switch calculation := spec.calculation(); {
	case calculation == UtilizationCalculation:
		c.target, c.utilization = int64(*spec.Target.AverageUtilization), true
	case calculation != AverageValueCalculation:
		return c, false
	case spec.Target.AverageValue != nil:
		c.target = *spec.Target.AverageValue
	}
	switch spec.Type {
	case ResourceMetric:
		c.container = ""
	case PodsMetric:
		c.resource, c.container = "", ""
	}
	return c, true
}

// renamedProblem is the problem of the first pod without a request, named by prefix and name.
func (d *decider) renamedProblem(c *perPod, prefix string) string {
	for i := range d.in.Pods {
		pod := d.in.Pods[i]
		pod.Name = prefix + pod.Name
		if _, problem := c.request(&pod); problem != "" {
			return problem
		}
	}
	return ""
}

// collect sums up the groups of the samples. It returns the sums that may have wrapped.
func (c *perPod) collect(sums *MetricSums) (usage, requests float64) {
	sums.Ignored = c.samples.counts.Ignored
	for i := range c.samples.pods {
		s := &c.samples.pods[i]
		group := &sums.Ready
		switch s.group {
		case PodReady:
			usage += float64(s.value)
			requests += float64(s.request)
		case PodMissing:
			group = &sums.Missing
		case PodUnready:
			group = &sums.Unready
		default:
			continue
		}
		group.Pods++
		group.Requests += s.request
		if c.utilization && s.group != PodUnready {
			group.Filled += c.filled(s.request)
		}
	}
	sums.Unlisted = int32(len(c.samples.unlisted))
	for _, v := range c.samples.unlisted {
		sums.UnlistedUsage += v
		if !c.utilization {
			usage += float64(v)
		}
	}
	return usage, requests
}

// sumUp gives the sums of a metric to who asks for them.
func (c *perPod) sumUp(in *Input, spec *MetricSpec, first *pass) {
	for i := range in.Summed.Metrics {
		if i >= len(in.Spec.Metrics) || &in.Spec.Metrics[i] != spec {
			continue
		}
		sums := &in.Summed.Metrics[i]
		*sums = MetricSums{Sampled: true}
		usage, requests := c.collect(sums)
		sums.Ready.Usage, sums.Ready.Requests = first.usage, first.requests
		sums.UsageWraps, sums.RequestsWrap = outOfInt64(usage), outOfInt64(requests)
	}
}

// ResetFor prepares the sums for Input.Summed.
func (s *Sums) ResetFor(in *Input) {
	s.Pods, s.Ready = len(in.Pods), readyRunning(in.Pods)
	s.Metrics = slices.Grow(s.Metrics[:0], len(in.Spec.Metrics))[:len(in.Spec.Metrics)]
	clear(s.Metrics)
}

// Add adds the sums of another workload for the same metrics. Of two problems the first one stays.
func (s *Sums) Add(other *Sums) {
	s.Pods += other.Pods
	s.Ready += other.Ready
	for i := range s.Metrics {
		s.Metrics[i].Add(&other.Metrics[i])
	}
}

// Add adds the sums of another workload for the same metric. Of two problems the first one stays.
func (s *MetricSums) Add(other *MetricSums) {
	s.UsageWraps = s.UsageWraps || other.UsageWraps || outOfInt64(float64(s.Ready.Usage)+float64(other.Ready.Usage))
	s.RequestsWrap = s.RequestsWrap || other.RequestsWrap || outOfInt64(float64(s.Ready.Requests)+float64(other.Ready.Requests))
	s.Ready.add(&other.Ready)
	s.Missing.add(&other.Missing)
	s.Unready.add(&other.Unready)
	s.Ignored += other.Ignored
	s.Unlisted += other.Unlisted
	s.UnlistedUsage += other.UnlistedUsage
	s.Sampled = s.Sampled || other.Sampled
	if s.Unusable == "" {
		s.Unusable = other.Unusable
	}
	if s.NoRequest == "" {
		s.NoRequest = other.NoRequest
	}
}

func (g *GroupSums) add(other *GroupSums) {
	g.Pods += other.Pods
	g.Usage += other.Usage
	g.Requests += other.Requests
	g.Filled += other.Filled
}

// counts are the pods by group.
func (s *MetricSums) counts() PodCounts {
	return PodCounts{Ready: s.Ready.Pods, Unready: s.Unready.Pods, Missing: s.Missing.Pods, Ignored: s.Ignored}
}

// problem reports samples that cannot be used: of the resource metrics API or of the custom one.
func (s *MetricSums) problem(api string) string {
	if !s.Sampled {
		return "no metrics returned from " + api + " metrics API"
	}
	return s.Unusable
}

// sumsOf returns the sums of the metric with that index; nil: the pods are listed.
func (d *decider) sumsOf(index int) *MetricSums {
	switch s := d.in.Sums; {
	case s == nil:
		return nil
	case index >= len(s.Metrics):
		return &MetricSums{}
	default:
		return &s.Metrics[index]
	}
}

// pods is how many pods there are.
func (d *decider) pods() int {
	if d.in.Sums != nil {
		return d.in.Sums.Pods
	}
	return len(d.in.Pods)
}

// podsListed is how many of them are looked at one by one: none beside sums.
func (d *decider) podsListed() int {
	if d.in.Sums != nil {
		return 0
	}
	return len(d.in.Pods)
}

// ready is how many pods a total is multiplied with.
func (d *decider) ready() int {
	if d.in.Sums != nil {
		return d.in.Sums.Ready
	}
	return readyRunning(d.in.Pods)
}

// fill adds what is assumed of the pods of a group.
func (p *pass) fill(g *GroupSums, how assumption, target int64) (filled int) {
	switch how {
	case notCounted:
		return 0
	case asRequest:
		p.usage += g.Requests
	case asFilled:
		p.usage += g.Filled
	case asTarget:
		p.usage += target * int64(g.Pods)
	}
	p.requests += g.Requests
	return int(g.Pods)
}
