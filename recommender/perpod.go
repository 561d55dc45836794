package recommender

import "math"

// perPod computes a metric that each pod has: Resource, ContainerResource and Pods.
type perPod struct {
	// utilization compares with percent of the request, otherwise with an average.
	utilization bool
	// target is a percentage or an average in milli-units.
	target int64
	// resource and container select the requests.
	resource, container string
	samples             *sampleSet
	profile             *Profile
	// metrics are resource samples that are still to be joined to the pods: group does it, for
	// most come in the order of pods.
	metrics []PodMetrics
	// sums stand for the pods; nil: these are listed.
	sums *MetricSums
}

// pass is the result of one pass over the samples.
type pass struct {
	ratio           float64
	utilization     int32
	average         int64
	usage, requests int64
}

// evaluate proposes a count for joined samples. Upstream: GetResourceReplicas and
// calcPlainMetricReplicas.
func (c *perPod) evaluate(d *decider, e *MetricEvaluation) (problem string) {
	if d.pods() == 0 {
		return "no pods returned by selector while calculating replica count"
	}
	defer c.explain(d, e)
	first, problem := c.group(d)
	if d.in.Summed != nil && c.sums == nil && problem == "" {
		c.sumUp(d.in, e.Spec, &first)
	}
	e.Counts = c.samples.counts
	e.Unlisted, _ = c.unlisted()
	switch {
	case problem != "" && d.profile.requestsFirst:
		return problem
	case c.count() == 0 && d.profile.texts.anyReadyPods:
		return "did not receive metrics for any ready pods"
	case c.count() == 0:
		return "did not receive metrics for targeted pods (pods might be unready)"
	case problem != "":
		return problem
	}
	if problem := c.compare(&first, c.samples.listed()); problem != "" {
		return problem
	}
	c.report(&first, e)
	return c.propose(d, e, &first)
}

// group assigns the pods to groups and sums up the ready ones, in one pass. problem
// reports the first pod without a request: all must have one, even pods that do not
// count. Upstream: groupPods and calculatePodRequests.
func (c *perPod) group(d *decider) (sums pass, problem string) {
	if s := c.sums; s != nil {
		c.samples.counts = s.counts()
		return pass{usage: s.Ready.Usage, requests: s.Ready.Requests}, s.NoRequest
	}
	cpu := c.resource == "cpu"
	counts := &c.samples.counts
	inStep := len(c.metrics) > 0
	for i := range d.in.Pods {
		pod, s := &d.in.Pods[i], &c.samples.pods[i]
		switch {
		case !inStep:
		case i < len(c.metrics) && same(c.metrics[i].Pod, pod.Name):
			*s = podSample{metrics: int32(i)}
			s.value, s.sampled = podUsage(&c.metrics[i], c.container, c.resource)
		default:
			if inStep = false; c.samples.join(d.in.Pods, c.metrics, i, c.container, c.resource) {
				return c.groupAgain(d)
			}
		}
		if s.group, s.rule = PodReady, RuleSampled; !s.sampled || pod.Deleting || pod.Phase != PhaseRunning || cpu && !d.pastInitialization(pod) {
			s.group, s.rule = d.groupOf(pod, s, cpu)
		} // otherwise as most pods
		switch {
		case !c.utilization || problem != "":
		case len(pod.PodLevelRequests) == 0 && !d.profile.containersOnly: // as c.request, for most pods
			s.request, problem = containersRequest(pod, c.container, c.resource)
		default:
			s.request, problem = c.request(pod)
		}
		switch s.group {
		case PodReady:
			counts.Ready++
			sums.usage += s.value
			sums.requests += s.request
		case PodUnready:
			counts.Unready++
		case PodMissing:
			counts.Missing++
		case PodIgnored:
			counts.Ignored++
			if d.profile.ignoredPodsCount && s.sampled {
				c.samples.ignoredCounted++
				sums.usage += s.value
				sums.requests += s.request
			}
		}
	}
	if inStep && c.samples.join(d.in.Pods, c.metrics, len(d.in.Pods), c.container, c.resource) {
		return c.groupAgain(d)
	}
	return sums, problem
}

// request is a pod's request in milli-units; problem is empty if there is one.
func (c *perPod) request(pod *Pod) (milli int64, problem string) {
	if c.profile.containersOnly {
		return plainContainersRequest(pod, c.container, c.resource, &c.profile.texts)
	}
	return podRequest(pod, c.container, c.resource)
}

// groupAgain is group once all samples are joined.
func (c *perPod) groupAgain(d *decider) (sums pass, problem string) {
	c.metrics, c.samples.counts, c.samples.ignoredCounted = nil, PodCounts{}, 0
	return c.group(d)
}

// compare computes the ratio of p's sums, which are those of that many listed pods.
// Everything truncates, as upstream's integers do.
func (c *perPod) compare(p *pass, listed int) (problem string) {
	if c.utilization {
		if p.requests == 0 {
			return "no metrics returned matched known pods"
		}
		p.utilization = int32(p.usage * 100 / p.requests)
		p.average = p.usage / int64(max(listed, 1))
		p.ratio = float64(p.utilization) / float64(c.target)
		return ""
	}
	unlisted, usage := c.unlisted()
	p.average = (p.usage + usage) / int64(listed+unlisted)
	p.ratio = float64(p.average) / float64(c.target)
	return ""
}

func (c *perPod) report(first *pass, e *MetricEvaluation) {
	e.UsageRatio, e.Compared = first.ratio, true
	e.TotalUsage, e.TotalRequests = first.usage, first.requests
	e.Current.AverageValue, e.Current.HasAverageValue = first.average, true
	if c.utilization {
		e.Current.AverageUtilization, e.Current.HasAverageUtilization = first.utilization, true
	} else {
		_, usage := c.unlisted()
		e.TotalUsage += usage
	}
}

// unlisted is how many samples of pods there are that the input does not list, and their usage.
func (c *perPod) unlisted() (n int, usage int64) {
	if c.sums != nil {
		return int(c.sums.Unlisted), c.sums.UnlistedUsage
	}
	for _, v := range c.samples.unlisted {
		usage += v
	}
	return len(c.samples.unlisted), usage
}

// count is upstream's len(metrics) without ignored and unready pods.
func (c *perPod) count() int {
	unlisted, _ := c.unlisted()
	return c.samples.listed() + unlisted
}

// propose turns the first pass into a proposal. Missing pods count against the
// direction: with a ratio above 1 as using nothing, below 1 as using the whole target;
// unready pods count only above 1.
func (c *perPod) propose(d *decider, e *MetricEvaluation, first *pass) (problem string) {
	s := c.samples
	withUnready := s.counts.Unready > 0 && first.ratio > 1
	if !withUnready && s.counts.Missing == 0 {
		if d.tolerances.within(first.ratio) {
			e.hold(d.current, WithinTolerance)
			return ""
		}
		// Not compared with the current count: during a rollout the pods decide.
		e.propose(math.Ceil(first.ratio*float64(s.counts.Ready)), int(s.counts.Ready), true)
		return ""
	}
	second, filled, problem := c.secondPass(first, withUnready)
	if problem != "" {
		return problem
	}
	e.DampenedRatio, e.Dampened = second.ratio, true
	switch {
	case d.tolerances.within(second.ratio):
		e.hold(d.current, DampenedWithinTolerance)
		return ""
	case first.ratio < 1 && second.ratio > 1, first.ratio > 1 && second.ratio < 1:
		e.hold(d.current, DampenedReversed)
		return ""
	}
	base := c.count() + filled
	e.propose(math.Ceil(second.ratio*float64(base)), base, true)
	if d.profile.guards(c.utilization) && (second.ratio < 1 && e.Proposal > d.current || second.ratio > 1 && e.Proposal < d.current) {
		e.hold(d.current, DampenedAgainstCurrent)
	}
	return ""
}

// secondPass compares again, with missing pods filled in, and unready ones if
// requested, and returns how many those are.
func (c *perPod) secondPass(first *pass, withUnready bool) (p pass, filled int, problem string) {
	p.usage, p.requests = first.usage, first.requests
	if s := c.sums; s != nil {
		filled = p.fill(&s.Missing, c.assumption(PodMissing, first.ratio, withUnready), c.target) +
			p.fill(&s.Unready, c.assumption(PodUnready, first.ratio, withUnready), c.target)
	}
	for i := range c.samples.pods {
		s := &c.samples.pods[i]
		if assumed, ok := c.assumed(s, first.ratio, withUnready); ok {
			p.usage += assumed
			p.requests += s.request
			filled++
		}
	}
	problem = c.compare(&p, c.samples.listed()+filled)
	return p, filled, problem
}

// assumption is what a pod without a sample is assumed to use.
type assumption uint8

const (
	notCounted assumption = iota
	asNothing
	asRequest
	asFilled
	asTarget
)

// assumption returns what the pods of a group are assumed to use.
func (c *perPod) assumption(group PodGroup, ratio float64, withUnready bool) assumption {
	switch {
	case group == PodMissing && ratio < 1 && c.utilization && c.profile.missingAtRequest:
		return asRequest
	case group == PodMissing && ratio < 1 && c.utilization:
		return asFilled
	case group == PodMissing && ratio < 1:
		return asTarget
	case group == PodMissing && (ratio > 1 || c.profile.missingOnTarget && !c.utilization):
		return asNothing
	case group == PodUnready && withUnready:
		return asNothing
	}
	return notCounted
}

// assumed is the value filled in for a pod without a sample.
func (c *perPod) assumed(s *podSample, ratio float64, withUnready bool) (int64, bool) {
	switch c.assumption(s.group, ratio, withUnready) {
	case asNothing:
		return 0, true
	case asRequest:
		return s.request, true
	case asFilled:
		return c.filled(s.request), true
	case asTarget:
		return c.target, true
	}
	return 0, false
}

// filled is what a pod of that request is assumed to use while the others use less than the target.
func (c *perPod) filled(request int64) int64 { return request * max(100, c.target) / 100 }

// explain lists the pods and how they counted.
func (c *perPod) explain(d *decider, e *MetricEvaluation) {
	if !d.in.Explain {
		return
	}
	withUnready := c.samples.counts.Unready > 0 && e.UsageRatio > 1
	listed := min(d.podsListed(), d.explainable)
	d.explainable -= listed
	e.LeftOut = d.pods() - listed
	e.Pods = make([]PodEvaluation, listed)
	for i := range e.Pods {
		s, p := &c.samples.pods[i], &e.Pods[i]
		*p = PodEvaluation{
			Name: d.in.Pods[i].Name, Group: s.group, Rule: s.rule,
			Usage: s.value, HasUsage: s.sampled,
			Request: s.request, HasRequest: c.utilization && e.Compared,
		}
		if e.Dampened {
			p.Assumed, p.HasAssumed = c.assumed(s, e.UsageRatio, withUnready)
		}
	}
}
