package recommender

import (
	"math"
	"math/big"
	"strconv"
	"time"
)

// designTarget is the percentage where a spec names none.
const designTarget = 80

// reconcileByDesign is the algorithm of the design proposal of 2015: the utilization
// of all pods is added up and divided by the target. It knows one metric, no
// readiness, no stabilization and no conditions; exact fractions, as on paper.
func (d *decider) reconcileByDesign() {
	if e := d.in.ScaleError; e != nil {
		d.decision.Path = PathScaleUnavailable
		d.event(FailedGetScale, e.Message)
		d.decision.Error = noScale + d.ref() + ": " + e.Message
		d.current = d.next.Status.CurrentReplicas
		d.decision.Current, d.decision.Desired = d.current, d.current
		return
	}
	d.countObserved()
	if !d.enforcedBound() {
		d.followDesign()
	}
}

func (d *decider) followDesign() {
	e := MetricEvaluation{Spec: d.designMetric(), Calculation: UtilizationCalculation}
	var u utilizationSum
	problem, event := d.designProblem(), FailedGetMetrics
	if p := d.in.SelectorProblem; p != nil && p.Reason != AmbiguousSelector {
		problem, event = p.Message, string(p.Reason)
		if p.Reason == SelectorRequired {
			problem = "selector is required"
		}
	}
	target := big.NewRat(designTarget, 100)
	if t := e.Spec.Target.AverageUtilization; t != nil && *t != 0 {
		target.SetFrac64(int64(*t), 100)
	}
	switch {
	case problem != "":
	case d.in.proposals != nil:
		problem = u.assume(d, target)
	default:
		problem = u.add(d)
	}
	if problem != "" {
		e.Failure = &MetricFailure{Reason: event, Inner: problem}
		d.explainMetric(&e)
		d.decision.Path = PathMetricsFailed
		d.event(event, problem)
		d.decision.Error = "failed to compute desired number of replicas based on CPU utilization for " + d.ref() + ": " + problem
		d.setStatus(d.previousDesired, d.next.Status.CurrentMetrics)
		return
	}
	wanted := new(big.Rat).Quo(&u.sum, target)
	ratio := new(big.Rat).Quo(wanted, big.NewRat(int64(u.pods), 1))
	proposal := ceiling(wanted)
	e.Counts.Ready, e.TotalUsage, e.TotalRequests = int32(u.pods), u.usage, u.requests
	e.UsageRatio, _ = ratio.Float64()
	e.Compared, e.Rule, e.Proposal, e.Base, e.Multiplied = true, Proportional, proposal, int32(u.pods), true
	if wanted.Cmp(big.NewRat(math.MaxInt32, 1)) > 0 {
		e.Rule = Saturated
	}
	e.Current = MetricValue{
		AverageUtilization: u.percent(), HasAverageUtilization: true,
		AverageValue: u.usage / int64(u.pods), HasAverageValue: true,
	}
	d.trace.Decided, d.trace.Proposal, d.trace.Winner = true, proposal, 0
	d.listPods(&e)
	d.explainMetric(&e)
	d.trace.Bounds = newBounds(&d.in.Spec, proposal)
	b := &d.trace.Bounds
	switch b.Min = max(1, b.Min); {
	case proposal > b.Max:
		b.Bounded, b.Reason = b.Max, TooManyReplicas
	case proposal < b.Min:
		b.Bounded, b.Reason = b.Min, TooFewReplicas
	}
	d.trace.Stabilization = waitByDesign(&d.in.Options, d.next.Status.LastScaleTime, d.now, d.current, b.Bounded, d.aboveOrBelow(ratio))
	statuses := []MetricStatus{e.status(d.profile)}
	desired := d.trace.Stabilization.Stabilized
	if desired == d.current {
		d.setStatus(desired, statuses)
		return
	}
	d.rescale(desired, rescaleReason("CPU utilization", desired, d.current), statuses)
}

// explainMetric records the metric, for explanations only.
func (d *decider) explainMetric(e *MetricEvaluation) {
	if d.in.Explain {
		d.trace.Metrics = []MetricEvaluation{*e}
	}
}

// listPods lists the pods for explanations; each counts with its sample.
func (d *decider) listPods(e *MetricEvaluation) {
	if !d.in.Explain {
		return
	}
	listed := min(len(d.in.Pods), d.explainable)
	d.explainable -= listed
	e.LeftOut = len(d.in.Pods) - listed
	e.Pods = make([]PodEvaluation, listed)
	for i := range e.Pods {
		s := &d.scratch.samples.pods[i]
		e.Pods[i] = PodEvaluation{
			Name: d.in.Pods[i].Name, Group: PodReady, Rule: RuleSampled,
			Usage: s.value, HasUsage: true, Request: s.request, HasRequest: true,
		}
	}
}

func (d *decider) designMetric() *MetricSpec {
	if len(d.in.Spec.Metrics) == 0 {
		return &MetricSpec{Type: ResourceMetric, Resource: "cpu"}
	}
	return &d.in.Spec.Metrics[0]
}

// designProblem returns why the design does not support the spec.
func (d *decider) designProblem() string {
	m := d.designMetric()
	if len(d.in.Spec.Metrics) > 1 || m.Type != ResourceMetric || m.Resource != "cpu" || m.Target.AverageUtilization == nil && m.Target.AverageValue != nil {
		return "the profile " + d.profile.name + " knows one metric: the cpu utilization of the pods"
	}
	if len(d.in.Readings) > 0 && d.in.Readings[0].Error != "" {
		return fetchProblem("resource", d.in.Readings[0].Error)
	}
	return ""
}

// utilizationSum adds up the utilization of pods.
type utilizationSum struct {
	sum             big.Rat
	usage, requests int64
	pods            int
}

// add adds all pods; one without usage or request is a problem.
func (u *utilizationSum) add(d *decider) (problem string) {
	if len(d.in.Pods) == 0 {
		return "no pods returned by selector while calculating replica count"
	}
	samples := &d.scratch.samples
	samples.reset(len(d.in.Pods))
	if problem := resourceProblem(d.in, d.profile, ""); problem != "" {
		return problem
	}
	samples.join(d.in.Pods, d.in.PodMetrics, 0, "", "cpu")
	sampled := 0
	for i := range d.in.Pods {
		if samples.pods[i].sampled {
			sampled++
		}
	}
	if sampled < len(d.in.Pods) {
		return "metrics obtained for " + strconv.Itoa(sampled) + "/" + strconv.Itoa(len(d.in.Pods)) + " of pods"
	}
	for i := range d.in.Pods {
		request, problem := plainContainersRequest(&d.in.Pods[i], "", "cpu", &d.profile.texts)
		if problem != "" || request == 0 {
			return "some pods do not have request for cpu"
		}
		samples.pods[i].request = request
		usage := samples.pods[i].value
		u.sum.Add(&u.sum, big.NewRat(usage, request))
		u.usage += usage
		u.requests += request
		u.pods++
	}
	return ""
}

// assume sets what the current replicas use when the proposal of an outlook is what they need.
func (u *utilizationSum) assume(d *decider, target *big.Rat) (problem string) {
	proposed := d.in.proposals.evaluate(d.designMetric(), 0)
	if proposed.Failure != nil {
		return proposed.Failure.Inner
	}
	u.sum.Mul(target, big.NewRat(int64(proposed.Proposal), 1))
	u.pods = int(d.current)
	return ""
}

// percent is the average utilization, truncated as a status shows it.
func (u *utilizationSum) percent() int32 {
	percent := new(big.Rat).Mul(&u.sum, big.NewRat(100, int64(u.pods)))
	whole := new(big.Int).Quo(percent.Num(), percent.Denom())
	f, _ := new(big.Float).SetInt(whole).Float64()
	return toInt32(f)
}

// ceiling rounds up to a count.
func ceiling(r *big.Rat) int32 {
	whole, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	f, _ := new(big.Float).SetInt(whole).Float64()
	return toInt32(f)
}

// aboveOrBelow returns the direction in which a ratio is out of tolerance.
func (d *decider) aboveOrBelow(ratio *big.Rat) Direction {
	// The decimal that the user wrote, not the nearest binary fraction.
	tolerance, finite := new(big.Rat).SetString(strconv.FormatFloat(d.in.Options.Tolerance, 'f', -1, 64))
	one := big.NewRat(1, 1)
	switch {
	case !finite:
	case ratio.Cmp(new(big.Rat).Add(one, tolerance)) > 0:
		return Up
	case ratio.Cmp(new(big.Rat).Sub(one, tolerance)) < 0:
		return Down
	}
	return NoDirection
}

// waitByDesign keeps the count unless the ratio is out of tolerance in the direction of
// the change, and the last change is longer ago than the delay.
func waitByDesign(o *Options, last, now time.Time, current, wanted int32, direction Direction) Stabilization {
	up, down := delays(o, last, now, current)
	s := Stabilization{Proposed: wanted, Stabilized: current, WindowsLen: 2, slot: -1}
	if wanted > current && direction == Up && !up.Held || wanted < current && direction == Down && !down.Held {
		s.Stabilized = wanted
	}
	s.Windows = [2]Window{up, down}
	return s
}
