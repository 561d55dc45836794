package recommender

import (
	"testing"
)

// The texts, in the words of upstream.

// Texts that depend on no metric's failure.
func TestTextsOfConditions(t *testing.T) {
	upWindow := defaultBehavior()
	upWindow.ScaleUp.StabilizationWindowSeconds = new(int32(60))
	for _, tt := range []struct {
		kind, status, reason, message string
		in                            *Input
		settle                        Outcome
	}{
		{
			AbleToScale, "True", "SucceededGetScale", "the HPA controller was able to get the target's current scale",
			wanting(0), Undecided,
		},
		{
			AbleToScale, "False", "FailedGetScale", "the HPA controller was unable to get the target's current scale: gone",
			changed(wanting(5), func(in *Input) { in.ScaleError = &ScaleError{Message: "gone"} }), Undecided,
		},
		{
			AbleToScale, "True", "ReadyForNewScale", "recommended size matches current size",
			wanting(5), Undecided,
		},
		{
			AbleToScale, "True", "ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation",
			changed(wanting(5), func(in *Input) { in.Spec.Behavior = upWindow; read(in, 0, 8*unit) }), Undecided,
		},
		{
			AbleToScale, "True", "ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation",
			changed(wanting(5), func(in *Input) { read(in, 0, 2*unit) }), Undecided,
		},
		{
			AbleToScale, "True", "SucceededRescale", "the HPA controller was able to update the target scale to 8",
			changed(wanting(5), func(in *Input) { read(in, 0, 8*unit) }), Applied,
		},
		{
			AbleToScale, "False", "FailedUpdateScale", "the HPA controller was unable to update the target scale: conflict",
			changed(wanting(5), func(in *Input) { read(in, 0, 8*unit) }), Failed,
		},
		{
			ScalingActive, "True", "ValidMetricFound", "the HPA was able to successfully calculate a replica count from external metric queue(nil)",
			wanting(5), Undecided,
		},
		{
			ScalingActive, "False", "ScalingDisabled", "scaling is disabled since the replica count of the target is zero",
			wanting(0), Undecided,
		},
		{
			ScalingActive, "False", "InvalidSelector", "the HPA target's scale is missing a selector",
			selectorProblem(SelectorRequired, ""), Undecided,
		},
		{
			ScalingActive, "False", "InvalidSelector", "couldn't convert selector into a corresponding internal selector object: bad",
			selectorProblem(InvalidSelector, "bad"), Undecided,
		},
		{
			ScalingActive, "False", "AmbiguousSelector", "pods by selector a=b are controlled by multiple HPAs: [ns/a ns/b]",
			selectorProblem(AmbiguousSelector, "pods by selector a=b are controlled by multiple HPAs: [ns/a ns/b]"), Undecided,
		},
		{
			ScalingLimited, "False", "DesiredWithinRange", "the desired count is within the acceptable range",
			wanting(5), Undecided,
		},
		{
			ScalingLimited, "True", "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate",
			changed(wanting(5), func(in *Input) { read(in, 0, 11*unit) }), Undecided,
		},
		{
			ScalingLimited, "True", "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate",
			changed(wanting(5), func(in *Input) {
				in.Spec.Behavior = behavior(nil, policies(ScalingPolicy{PodsPolicy, 1, 60}))
				read(in, 0, unit)
			}), Undecided,
		},
		{
			ScalingLimited, "True", "TooManyReplicas", "the desired replica count is more than the maximum replica count",
			changed(wanting(5), func(in *Input) { in.Spec.MaxReplicas = 6; read(in, 0, 7*unit) }), Undecided,
		},
		{
			ScalingLimited, "True", "TooFewReplicas", "the desired replica count is less than the minimum replica count",
			changed(wanting(5), func(in *Input) {
				in.Spec.MinReplicas, in.Spec.Behavior = 4, behavior(nil, nil)
				read(in, 0, unit)
			}), Undecided,
		},
		{
			ScaledToZero, "True", "ScaledToZero", "the HPA controller scaled the workload to zero",
			changed(wanting(5), func(in *Input) {
				in.Options.ScaleToZero, in.Spec.MinReplicas, in.Spec.Behavior = true, 0, behavior(nil, nil)
				read(in, 0, 0)
			}), Applied,
		},
		{
			ScaledToZero, "False", "NotScaledToZero", "the HPA controller did not scale the workload to zero",
			changed(wanting(5), func(in *Input) { in.Options.ScaleToZero = true; read(in, 0, 6*unit) }), Applied,
		},
	} {
		t.Run(tt.kind+" "+tt.status+" "+tt.reason, func(t *testing.T) {
			d, next := Recommend(t0, tt.in, nil)
			status := d.Status
			if tt.settle != Undecided {
				s, _ := mustSettle(t, next, "ns", d.ID, tt.settle, "conflict")
				status = s.Status
			}
			want := Condition{tt.kind, tt.status, tt.reason, tt.message, t0}
			if c := conditionByType(status.Conditions, tt.kind); c == nil || *c != want {
				t.Errorf("got %+v\nwant %+v", c, want)
			}
		})
	}
}

func selectorProblem(reason SelectorReason, message string) *Input {
	return changed(wanting(5), func(in *Input) { in.SelectorProblem = &SelectorProblem{Reason: reason, Message: message} })
}

// Events in their order, and the error of the reconcile.
func TestEventsAndErrors(t *testing.T) {
	const failedToCompute = "failed to compute desired number of replicas based on listed metrics for Deployment/ns/web: "
	scaleError := func(reason ScaleErrorReason) *Input {
		return changed(wanting(5), func(in *Input) { in.ScaleError = &ScaleError{reason, "x"} })
	}
	noScale := []Event{{EventWarning, "FailedGetScale", "x"}}
	selector := func(reason SelectorReason, text string) []Event {
		return []Event{{EventWarning, string(reason), text}, {EventWarning, "FailedComputeMetricsReplicas", text}}
	}
	const ambiguous = "pods by selector a=b are controlled by multiple HPAs: [ns/a ns/b]"
	const invalid = "couldn't convert selector into a corresponding internal selector object: bad"
	for _, tt := range []struct {
		name   string
		in     *Input
		events []Event
		error  string
	}{
		{"nothing to do", wanting(5), nil, ""},
		{"a change has no event yet", changed(wanting(5), func(in *Input) { read(in, 0, 8*unit) }), nil, ""},
		{"disabled", wanting(0), nil, ""},
		{"scale not found", scaleError(ScaleGetFailed), noScale, "failed to query scale subresource for Deployment/ns/web: x"},
		{"malformed API version", scaleError(ScaleInvalidAPIVersion), noScale, "invalid API version in scale target reference: x"},
		{"unknown kind", scaleError(ScaleUnknownKind), noScale, "unable to determine resource for scale target reference: x"},
		{"no selector", selectorProblem(SelectorRequired, ""), selector(SelectorRequired, "selector is required"), failedToCompute + "selector is required"},
		{"malformed selector", selectorProblem(InvalidSelector, "bad"), selector(InvalidSelector, invalid), failedToCompute + invalid},
		{"ambiguous selector", selectorProblem(AmbiguousSelector, ambiguous), selector(AmbiguousSelector, ambiguous), failedToCompute + ambiguous},
		{
			"each failed metric has an event, the first one the error",
			changed(wanting(5), func(in *Input) {
				in.Spec.Metrics = append(in.Spec.Metrics, podsAverage(unit), MetricSpec{Type: "Foo"})
				read(in, 0, 2*unit)
			}),
			[]Event{
				{EventWarning, "FailedGetPodsMetric", "unable to get metric pps: no metrics returned from custom metrics API"},
				{EventWarning, "InvalidMetricSourceType", `unknown metric source type "Foo"`},
				{EventWarning, "FailedComputeMetricsReplicas", "invalid metrics (2 invalid out of 3), first error is: " +
					"failed to get pods metric value: unable to get metric pps: no metrics returned from custom metrics API"},
			},
			failedToCompute + "invalid metrics (2 invalid out of 3), first error is: " +
				"failed to get pods metric value: unable to get metric pps: no metrics returned from custom metrics API",
		},
		{
			"where the others decide the error has no wrapper",
			changed(wanting(5), func(in *Input) {
				in.Spec.Metrics = append(in.Spec.Metrics, MetricSpec{Type: "Foo"})
				read(in, 0, 6*unit)
			}),
			[]Event{{EventWarning, "InvalidMetricSourceType", `unknown metric source type "Foo"`}},
			`invalid metrics (1 invalid out of 2), first error is: unknown metric source type "Foo"`,
		},
		{
			"an example",
			changed(wanting(5), func(in *Input) { in.Readings[0].Error = "x" }),
			[]Event{
				{EventWarning, "FailedGetExternalMetric", "unable to get external metric ns/queue/nil: unable to fetch metrics from external metrics API: x"},
				{EventWarning, "FailedComputeMetricsReplicas", "invalid metrics (1 invalid out of 1), first error is: failed to get queue external metric value: " +
					"failed to get queue external metric: unable to get external metric ns/queue/nil: unable to fetch metrics from external metrics API: x"},
			},
			failedToCompute + "invalid metrics (1 invalid out of 1), first error is: failed to get queue external metric value: " +
				"failed to get queue external metric: unable to get external metric ns/queue/nil: unable to fetch metrics from external metrics API: x",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, _ := Recommend(t0, tt.in, nil)
			equal(t, "events", d.Events, tt.events)
			equal(t, "the error", d.Error, tt.error)
		})
	}
}

func TestTextsOfASettledChange(t *testing.T) {
	in := wanting(5)
	read(in, 0, 8*unit)
	d, next := Recommend(t0, in, nil)
	const change = "New size: 8; reason: external metric queue(nil) above target"
	s, _, _ := Settle(next, "ns", d.ID, Applied, "")
	equal(t, "events once applied", s.Events, []Event{{EventNormal, "SuccessfulRescale", change}})
	equal(t, "the error once applied", s.Error, "")
	s, _, _ = Settle(next, "ns", d.ID, Failed, "conflict")
	equal(t, "events once failed", s.Events, []Event{{EventWarning, "FailedRescale", change + "; error: conflict"}})
	equal(t, "the error once failed", s.Error, "failed to rescale Deployment/ns/web: conflict")
}

// Each source's error, within (event and condition) and without (error of
// the reconcile), for each cause.
func TestTextsOfFailedMetrics(t *testing.T) {
	cpu := func(groups ...[]testPod) *Input { return workload(cpuUtilization(50), 5, 100, groups...) }
	neither := func(in *Input) {
		in.Spec.Metrics[0].Target = MetricTarget{Type: UtilizationTarget, Value: new(int64(1))}
	}
	fails := func(in *Input) { in.Readings[0] = Readings{Error: "x"} }
	selector := func(in *Input) { in.Readings[0].SelectorError = `"~" is not a valid label selector operator` }
	noPods := func(in *Input) { in.Pods = nil }
	const (
		resourceDown = "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: x"
		resourceNone = "unable to get metrics for resource cpu: no metrics returned from resource metrics API"
		pods         = "no pods returned by selector while calculating replica count"
		unready      = "did not receive metrics for targeted pods (pods might be unready)"
		badSelector  = `"~" is not a valid label selector operator`
		resource     = "failed to get cpu resource metric value: "
		container    = "failed to get app container metric value: "
		custom       = "failed to get pods metric value: "
		object       = "failed to get object metric value: "
		external     = "failed to get queue external metric value: "
	)
	for _, tt := range []struct {
		name   string
		in     *Input
		reason string
		// inner is the error, outer what precedes it in that of the reconcile.
		inner, outer string
	}{
		{name: "Resource: the API fails", in: changed(cpu(each(5, 50)), fails), inner: "failed to get cpu utilization: " + resourceDown, outer: resource},
		{name: "Resource: the API has nothing", in: cpu(missing(5)), inner: "failed to get cpu utilization: " + resourceNone, outer: resource},
		{name: "Resource: no pods", in: changed(cpu(each(5, 50)), noPods), inner: "failed to get cpu utilization: " + pods, outer: resource},
		{name: "Resource: no pod counts", in: cpu(with(each(5, 50), func(p *Pod) { p.Phase = PhasePending })), inner: "failed to get cpu utilization: " + unready, outer: resource},
		{
			name: "Resource: no request", in: changed(cpu(each(5, 50)), func(in *Input) { in.Pods[3].Containers[0].Requests = nil }),
			inner: "failed to get cpu utilization: missing request for cpu in container app of Pod web-3", outer: resource,
		},
		{
			name:  "Resource: no pod-level request",
			in:    changed(cpu(each(5, 50)), func(in *Input) { in.Pods[3] = podLevelMemory(in.Pods[3]) }),
			inner: "failed to get cpu utilization: missing pod-level request for cpu in Pod web-3", outer: resource,
		},
		{
			name:  "Resource: samples of unlisted pods alone",
			in:    changed(withGhost(cpu(missing(5))), func(*Input) {}),
			inner: "failed to get cpu utilization: no metrics returned matched known pods", outer: resource,
		},
		{
			name: "Resource: requests of nothing", in: workload(cpuUtilization(50), 5, 0, each(5, 50)),
			inner: "failed to get cpu utilization: no metrics returned matched known pods", outer: resource,
		},
		{
			name: "Resource: neither target", in: changed(cpu(each(5, 50)), neither),
			inner: "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set", outer: resource,
		},
		{
			name: "Resource average: the API fails", in: changed(workload(resourceAverage("cpu", 50), 5, 0, each(5, 50)), fails),
			inner: "failed to get cpu usage: " + resourceDown, outer: resource,
		},
		{
			name: "Resource average: no pods", in: changed(workload(resourceAverage("cpu", 50), 5, 0, each(5, 50)), noPods),
			inner: "failed to get cpu usage: " + pods, outer: resource,
		},
		{
			name: "ContainerResource: the API fails", in: changed(workload(containerUtilization("app", 50), 5, 100, each(5, 50)), fails),
			reason: "FailedGetContainerResourceMetric", inner: "failed to get cpu utilization: " + resourceDown, outer: container,
		},
		{
			name: "ContainerResource: no such container in a pod",
			in: changed(workload(containerUtilization("app", 50), 5, 100, each(5, 50)), func(in *Input) {
				in.Pods[4].Containers[0].Name = "other"
			}),
			reason: "FailedGetContainerResourceMetric", inner: "failed to get cpu utilization: container app not found in Pod web-4", outer: container,
		},
		{
			name:   "ContainerResource: no such container in the samples",
			in:     workload(containerUtilization("other", 50), 5, 100, each(5, 50)),
			reason: "FailedGetContainerResourceMetric", inner: "failed to get cpu utilization: " + unready, outer: "failed to get other container metric value: ",
		},
		{
			name: "ContainerResource: neither target", in: changed(workload(containerUtilization("app", 50), 5, 100, each(5, 50)), neither),
			reason: "FailedGetContainerResourceMetric",
			inner:  "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set", outer: container,
		},
		{
			name: "Pods: the API fails", in: changed(workload(podsAverage(1), 5, 0, each(5, 1)), fails),
			reason: "FailedGetPodsMetric", inner: "unable to get metric pps: unable to fetch metrics from custom metrics API: x", outer: custom,
		},
		{
			name: "Pods: the API has nothing", in: workload(podsAverage(1), 5, 0, missing(5)),
			reason: "FailedGetPodsMetric", inner: "unable to get metric pps: no metrics returned from custom metrics API", outer: custom,
		},
		{
			name: "Pods: no pods", in: changed(workload(podsAverage(1), 5, 0, each(5, 1)), noPods),
			reason: "FailedGetPodsMetric", inner: pods, outer: custom,
		},
		{
			name: "Pods: no pod counts", in: workload(podsAverage(1), 5, 0, with(each(5, 1), func(p *Pod) { p.Deleting = true })),
			reason: "FailedGetPodsMetric", inner: unready, outer: custom,
		},
		{
			name: "Pods: malformed selector", in: changed(workload(podsAverage(1), 5, 0, each(5, 1)), selector),
			reason: "FailedGetPodsMetric", inner: badSelector, outer: custom,
		},
		{
			name: "Object Value: the API fails", in: changed(total(objectValue(unit), 5, unit), fails),
			reason: "FailedGetObjectMetric", inner: "unable to get metric rps: Service on ns front/unable to fetch metrics from custom metrics API: x", outer: object,
		},
		{
			name: "Object Value: two values", in: total(objectValue(unit), 5, unit, unit), reason: "FailedGetObjectMetric",
			inner: "unable to get metric rps: Service on ns front/unable to fetch metrics from custom metrics API: " +
				"the custom metrics API server returned 2 results when we asked for exactly one", outer: object,
		},
		{
			name: "Object Value: no value", in: total(objectValue(unit), 5), reason: "FailedGetObjectMetric",
			inner: "unable to get metric rps: Service on ns front/unable to fetch metrics from custom metrics API: " +
				"the server could not find the metric rps for Service front", outer: object, // a metrics API answers so
		},
		{
			name: "Object Value: no value of the namespace, which is always the target's", reason: "FailedGetObjectMetric",
			in: changed(total(objectValue(unit), 5), func(in *Input) {
				in.Spec.Metrics[0].DescribedObject = ObjectReference{Kind: "Namespace", Name: "other", APIVersion: "a/b/c"} // none, which counts as the core group's
			}),
			inner: "unable to get metric rps: Namespace on ns other/unable to fetch metrics from custom metrics API: " +
				"the server could not find the metric rps for Namespace ns", outer: object,
		},
		{
			name: "Object Value: no pods", in: changed(total(objectValue(unit), 5, 9*unit), noPods),
			reason: "FailedGetObjectMetric", inner: "unable to calculate ready pods: " + pods, outer: object,
		},
		{
			name: "Object Value: malformed selector", in: changed(total(objectValue(unit), 5, unit), selector),
			reason: "FailedGetObjectMetric", inner: badSelector, outer: object,
		},
		{
			name: "Object AverageValue: the API fails", in: changed(total(objectAverage(unit), 5, unit), fails),
			reason: "FailedGetObjectMetric", inner: "unable to get metric rps: Service on ns front/unable to fetch metrics from custom metrics API: x",
			outer: object + "failed to get rps object metric: ",
		},
		{
			name: "Object AverageValue: malformed selector", in: changed(total(objectAverage(unit), 5, unit), selector),
			reason: "FailedGetObjectMetric", inner: badSelector, outer: object,
		},
		{
			name: "Object: neither target", in: changed(total(objectAverage(unit), 5, unit), neither),
			reason: "FailedGetObjectMetric", inner: "invalid object metric source: neither a value target nor an average value target was set", outer: object,
		},
		{
			name:   "Object: neither target and a malformed selector, which is read first",
			in:     changed(changed(total(objectAverage(unit), 5, unit), neither), selector),
			reason: "FailedGetObjectMetric", inner: badSelector, outer: object,
		},
		{
			name: "External Value: the API fails", in: changed(total(externalValue(unit), 5, unit), fails),
			reason: "FailedGetExternalMetric", inner: "unable to get external metric ns/queue/nil: unable to fetch metrics from external metrics API: x",
			outer: external + "failed to get external metric queue: ",
		},
		{
			name: "External Value: the API has nothing", in: total(externalValue(unit), 5),
			reason: "FailedGetExternalMetric", inner: "unable to get external metric ns/queue/nil: no metrics returned from external metrics API",
			outer: external + "failed to get external metric queue: ",
		},
		{
			name: "External Value: no pods", in: changed(total(externalValue(unit), 5, 9*unit), noPods),
			reason: "FailedGetExternalMetric", inner: "unable to calculate ready pods: " + pods,
			outer: external + "failed to get external metric queue: ",
		},
		{
			name: "External Value: malformed selector", in: changed(total(externalValue(unit), 5, unit), selector),
			reason: "FailedGetExternalMetric", inner: badSelector, outer: external + "failed to get external metric queue: ",
		},
		{
			name: "External AverageValue: the API has nothing, with a selector",
			in: changed(total(externalAverage(unit), 5), func(in *Input) {
				in.Spec.Metrics[0].Metric.Selector = &LabelSelector{MatchExpressions: []LabelRequirement{{"k", "In", []string{"x", "y"}}}}
			}),
			reason: "FailedGetExternalMetric",
			inner: "unable to get external metric ns/queue/&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{" +
				"LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}: no metrics returned from external metrics API",
			outer: external + "failed to get queue external metric: ",
		},
		{
			name: "External AverageValue: malformed selector", in: changed(total(externalAverage(unit), 5, unit), selector),
			reason: "FailedGetExternalMetric", inner: badSelector, outer: external + "failed to get queue external metric: ",
		},
		{
			name: "External: neither target", in: changed(total(externalAverage(unit), 5, unit), func(in *Input) { in.Spec.Metrics[0].Target = MetricTarget{} }),
			reason: "FailedGetExternalMetric", inner: "invalid external metric source: neither a value target nor an average value target was set", outer: external,
		},
		{
			name: "an unknown type", in: changed(wanting(5), func(in *Input) { in.Spec.Metrics[0].Type = "Foo" }),
			reason: "InvalidMetricSourceType", inner: `unknown metric source type "Foo"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reason := tt.reason
			if reason == "" {
				reason = "FailedGetResourceMetric"
			}
			text := "invalid metrics (1 invalid out of 1), first error is: " + tt.outer + tt.inner
			d, _ := Recommend(t0, tt.in, nil)
			equal(t, "path", d.Path, PathMetricsFailed)
			equal(t, "replicas", d.Desired, d.Current)
			equal(t, "events", d.Events, []Event{{EventWarning, reason, tt.inner}, {EventWarning, "FailedComputeMetricsReplicas", text}})
			equal(t, "the error", d.Error, "failed to compute desired number of replicas based on listed metrics for Deployment/ns/web: "+text)
			equal(t, "ScalingActive", *conditionByType(d.Status.Conditions, ScalingActive),
				Condition{ScalingActive, ConditionFalse, reason, "the HPA was unable to compute the replica count: " + tt.inner, t0})
			equal(t, "readings", d.Status.CurrentMetrics, make([]MetricStatus, 1))
		})
	}
}

func podLevelMemory(pod Pod) Pod {
	pod.Containers = []Container{{Name: "app"}}
	pod.PodLevelRequests = []ResourceRequest{{"memory", milliQuantity(mebi)}}
	return pod
}

// The names that stand in reasons and in ScalingActive.
func TestNamesOfMetrics(t *testing.T) {
	labels := func(m MetricSpec, s LabelSelector) MetricSpec {
		m.Metric.Selector = &s
		return m
	}
	container := containerUtilization("app", 50)
	containerAverage := container
	containerAverage.Target = MetricTarget{AverageValue: new(int64(1))}
	memory := cpuUtilization(50)
	memory.Resource = "memory"
	for _, tt := range []struct {
		metric MetricSpec
		want   string
	}{
		{cpuUtilization(50), "cpu resource utilization (percentage of request)"},
		{memory, "memory resource utilization (percentage of request)"},
		{resourceAverage("cpu", 50), "cpu resource"},
		{container, "cpu container resource utilization (percentage of request)"},
		{containerAverage, "cpu resource"},
		{podsAverage(1), "pods metric pps"},
		{objectValue(1), "Service metric rps"},
		{objectAverage(1), "external metric rps(nil)"},
		{externalValue(1), "external metric queue(nil)"},
		{externalAverage(1), "external metric queue(nil)"},
		{labels(externalValue(1), LabelSelector{}), "external metric queue(&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},})"},
		{
			labels(externalValue(1), LabelSelector{
				MatchLabels:      []Label{{"a", "b"}, {"c", "d"}},
				MatchExpressions: []LabelRequirement{{"k", "In", []string{"x", "y"}}, {"l", "Exists", nil}},
			}),
			"external metric queue(&LabelSelector{MatchLabels:map[string]string{a: b,c: d,},MatchExpressions:[]LabelSelectorRequirement{" +
				"LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},LabelSelectorRequirement{Key:l,Operator:Exists,Values:[],},},})",
		},
		{MetricSpec{Type: "Foo"}, ""},
	} {
		equal(t, "the name", tt.metric.Name(), tt.want)
	}
}
