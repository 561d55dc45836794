package recommender

import (
	"cmp"
	"math"
	"strconv"
)

// evaluate computes one metric of the spec. Upstream: computeReplicasForMetric.
func (d *decider) evaluate(index int) MetricEvaluation {
	spec := &d.in.Spec.Metrics[index]
	if d.in.proposals != nil {
		return d.in.proposals.evaluate(spec, index)
	}
	var readings Readings
	if index < len(d.in.Readings) {
		readings = d.in.Readings[index]
	}
	e := MetricEvaluation{Spec: spec, Calculation: spec.calculation()}
	switch spec.Type {
	case ResourceMetric:
		d.evaluateResource(&e, &readings, "", d.sumsOf(index))
	case ContainerResourceMetric:
		if d.profile.noContainerResource {
			d.unknownType(&e)
			break
		}
		d.evaluateResource(&e, &readings, spec.Container, d.sumsOf(index))
	case PodsMetric:
		d.evaluatePods(&e, &readings, d.sumsOf(index))
	case ObjectMetric:
		d.evaluateObject(&e, &readings)
	case ExternalMetric:
		d.evaluateExternal(&e, &readings)
	default:
		d.unknownType(&e)
	}
	return e
}

// calculation returns the arithmetic of the metric's type and target; NoCalculation: they don't fit.
func (m *MetricSpec) calculation() Calculation {
	t := &m.Target
	switch m.Type {
	case ResourceMetric, ContainerResourceMetric:
		switch {
		case t.AverageValue != nil:
			return AverageValueCalculation
		case t.AverageUtilization != nil:
			return UtilizationCalculation
		}
	case PodsMetric:
		return AverageValueCalculation
	case ObjectMetric:
		switch {
		case t.Type == ValueTarget && t.Value != nil:
			return ValueCalculation
		case t.Type == AverageValueTarget && t.AverageValue != nil:
			return AverageValuePerReplicaCalculation
		}
	case ExternalMetric:
		switch {
		case t.AverageValue != nil:
			return AverageValuePerReplicaCalculation
		case t.Value != nil:
			return ValueCalculation
		}
	}
	return NoCalculation
}

func (d *decider) unknownType(e *MetricEvaluation) {
	text := "unknown metric source type " + strconv.Quote(string(e.Spec.Type))
	if d.profile.texts.bareSources {
		text = d.asFormat(text)
	}
	e.Failure = &MetricFailure{Reason: InvalidMetricSourceType, Inner: text, Outer: text}
}

func (d *decider) evaluateResource(e *MetricEvaluation, readings *Readings, container string, sums *MetricSums) {
	spec := e.Spec
	c := perPod{resource: spec.Resource, container: container, samples: &d.scratch.samples, profile: d.profile, sums: sums}
	what := "usage"
	switch e.Calculation {
	case AverageValueCalculation:
		c.target = *spec.Target.AverageValue
	case UtilizationCalculation:
		c.target, c.utilization = int64(*spec.Target.AverageUtilization), true
		what = "utilization"
	default:
		text := "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set"
		e.Failure = resourceFailure(spec, text)
		if d.profile.texts.bareSources {
			text = "invalid resource metric source: neither a utilization target nor a value target was set"
			e.Failure = &MetricFailure{Reason: FailedGetResourceMetric, Inner: text, Outer: text}
		}
		return
	}
	// The status prints memory with binary suffixes.
	e.Current.Binary = spec.Resource == "memory" && !d.profile.decimalMemory
	c.samples.reset(d.podsListed())
	problem := fetchProblem("resource", readings.Error)
	switch {
	case problem != "":
	case sums != nil:
		problem = sums.problem("resource")
	default:
		c.metrics = d.in.PodMetrics
		problem = resourceProblem(d.in, d.profile, container)
	}
	if problem != "" {
		problem = "unable to get metrics for resource " + spec.Resource + ": " + problem
	} else {
		problem = c.evaluate(d, e)
	}
	switch {
	case problem == "":
	case d.profile.texts.bareSources:
		e.Failure = &MetricFailure{
			Reason: FailedGetResourceMetric, Inner: problem,
			Outer: "failed to get " + spec.Resource + " utilization: " + problem,
		}
	default:
		e.Failure = resourceFailure(spec, "failed to get "+spec.Resource+" "+what+": "+problem)
	}
}

func resourceFailure(spec *MetricSpec, inner string) *MetricFailure {
	if spec.Type == ContainerResourceMetric {
		return &MetricFailure{
			Reason: FailedGetContainerResourceMetric, Inner: inner,
			Outer: "failed to get " + spec.Container + " container metric value: " + inner,
		}
	}
	return &MetricFailure{
		Reason: FailedGetResourceMetric, Inner: inner,
		Outer: "failed to get " + spec.Resource + " resource metric value: " + inner,
	}
}

func (d *decider) evaluatePods(e *MetricEvaluation, readings *Readings, sums *MetricSums) {
	spec := e.Spec
	problem := readings.SelectorError
	if problem == "" {
		c := perPod{samples: &d.scratch.samples, profile: d.profile, sums: sums}
		if spec.Target.AverageValue != nil {
			c.target = *spec.Target.AverageValue
		}
		c.samples.reset(d.podsListed())
		problem = fetchProblem("custom", readings.Error)
		switch {
		case problem != "":
		case sums != nil:
			problem = sums.problem("custom")
		default:
			problem = c.samples.customSamples(d.in, readings.Values)
		}
		if problem != "" {
			problem = "unable to get metric " + spec.Metric.Name + ": " + problem
		} else {
			problem = c.evaluate(d, e)
		}
	}
	if problem != "" {
		outer := "failed to get pods metric value: "
		if d.profile.texts.podsAsObjects && readings.SelectorError == "" {
			outer = "failed to get object metric value: "
		}
		e.Failure = &MetricFailure{Reason: FailedGetPodsMetric, Inner: problem, Outer: outer + problem}
	}
}

func (d *decider) evaluateObject(e *MetricEvaluation, readings *Readings) {
	spec := e.Spec
	target, problem := spec.Target, ""
	if e.Calculation == NoCalculation {
		problem = "invalid object metric source: neither a value target nor an average value target was set"
	}
	if readings.SelectorError != "" {
		problem = readings.SelectorError
	}
	if problem == "" {
		problem = d.objectProblem(spec, readings)
	}
	if problem == "" {
		usage := readings.Values[0].Milli
		e.TotalUsage, e.Series = usage, 1
		if e.Calculation == ValueCalculation {
			problem = proposeValue(d, e, usage, *target.Value)
			e.Current.Value, e.Current.HasValue = usage, true
		} else {
			e.Current.AverageValue = proposeAverageValue(d, e, usage, *target.AverageValue)
			e.Current.HasAverageValue = true
		}
	}
	if problem != "" {
		outer := "failed to get object metric value: "
		if e.Calculation == AverageValuePerReplicaCalculation && readings.SelectorError == "" {
			outer += "failed to get " + spec.Metric.Name + " object metric: "
		}
		e.Failure = &MetricFailure{Reason: FailedGetObjectMetric, Inner: problem, Outer: outer + problem}
	}
}

// objectProblem returns why an object's metric has no value. Up to v1.36 upstream
// prints the parts of this text in the wrong places, and so do we.
func (d *decider) objectProblem(spec *MetricSpec, readings *Readings) string {
	problem := readings.Error
	object := &spec.DescribedObject
	switch n := cmp.Or(readings.Series, len(readings.Values)); {
	case problem != "":
	case n == 0:
		problem = "the server could not find the metric " + spec.Metric.Name + " for " + object.Kind + " " + d.lookedUp(object)
	case n > 1:
		problem = "the custom metrics API server returned " + strconv.Itoa(n) + " results when we asked for exactly one"
	default:
		return ""
	}
	problem = fetchProblem("custom", problem)
	if d.profile.texts.repairedObjectErrors {
		return "unable to get metric " + spec.Metric.Name + " on " + object.Kind + " " + d.in.Namespace + "/" + object.Name + ": " + problem
	}
	return "unable to get metric " + spec.Metric.Name + ": " + object.Kind + " on " + d.in.Namespace + " " + object.Name + "/" + problem
}

// lookedUp is the name under which upstream looks up an object: a namespace is always
// the target's own, whatever the spec names.
func (d *decider) lookedUp(object *ObjectReference) string {
	if object.Kind == "Namespace" && APIGroup(object.APIVersion) == "" {
		return d.in.Namespace
	}
	return object.Name
}

func (d *decider) evaluateExternal(e *MetricEvaluation, readings *Readings) {
	spec := e.Spec
	target, problem := spec.Target, ""
	if e.Calculation == NoCalculation {
		problem = "invalid external metric source: neither a value target nor an average value target was set"
	}
	if problem == "" {
		problem = d.externalProblem(spec, readings)
	}
	if problem == "" {
		e.Series = cmp.Or(readings.Series, len(readings.Values))
		if e.Calculation == ValueCalculation {
			e.TotalUsage = sumForValue(readings.Values, d.profile.uncappedSums)
			problem = proposeValue(d, e, e.TotalUsage, *target.Value)
			e.Current.Value, e.Current.HasValue = e.TotalUsage, true
		} else {
			e.TotalUsage = sumForAverageValue(readings.Values, d.profile.uncappedSums)
			e.Current.AverageValue = proposeAverageValue(d, e, e.TotalUsage, *target.AverageValue)
			e.Current.HasAverageValue = true
			if float64(e.TotalUsage) >= math.MaxInt64 && !d.profile.uncappedSums {
				// A sum that was capped is reported undivided.
				e.Current.AverageValue = math.MaxInt64
			}
		}
	}
	if problem != "" {
		name, outer := spec.Metric.Name, ""
		if !d.profile.texts.bareSources {
			outer = "failed to get " + name + " external metric value: "
		}
		switch e.Calculation {
		case AverageValuePerReplicaCalculation:
			outer += "failed to get " + name + " external metric: "
		case ValueCalculation:
			outer += "failed to get external metric " + name + ": "
		}
		e.Failure = &MetricFailure{Reason: FailedGetExternalMetric, Inner: problem, Outer: outer + problem}
	}
}

// externalProblem returns why an external metric has no values.
func (d *decider) externalProblem(spec *MetricSpec, readings *Readings) string {
	problem := readings.SelectorError
	if problem != "" {
		return problem
	}
	problem = fetchProblem("external", readings.Error)
	if problem == "" && len(readings.Values) == 0 {
		problem = "no metrics returned from external metrics API"
	}
	if problem == "" {
		return ""
	}
	return "unable to get external metric " + d.in.Namespace + "/" + spec.Metric.Name + "/" +
		spec.Metric.Selector.text(&d.profile.texts) + ": " + problem
}

// fetchProblem formats the error of a metrics API; empty for none.
func fetchProblem(api, problem string) string {
	if problem == "" {
		return ""
	}
	return "unable to fetch metrics from " + api + " metrics API: " + problem
}
