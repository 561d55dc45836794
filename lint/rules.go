package lint

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
)

// Rule is one thing that is looked for.
type Rule struct {
	// ID is the rule's name and its anchor on the page.
	ID       string
	Severity Severity
	// Title says what is found, in a line; Why what comes of it, and Mend what to do.
	Title, Why, Mend string
	// Simulated reports whether the engine is run with the spec to find out.
	Simulated bool
	check     func(*subject)
}

// Rules are all of them, the worst first.
var Rules = []Rule{
	{"two-autoscalers", Error, "Several autoscalers scale one target",
		"Kubernetes 1.26 and later scales by none of them (`AmbiguousSelector`); where they do run, each undoes the counts of the others. An Autoscaler gives way to a HorizontalPodAutoscaler of its target or name, and to an older Autoscaler. Shadows don't count.",
		"Put the metrics of all into one autoscaler: the largest proposal counts.", false, twoAutoscalers},
	{"selectors-overlap", Error, "Workloads of several autoscalers select the same pods",
		"The pods of one are counted with those of the other, and their usage, too. Kubernetes 1.26 and later scales neither (`AmbiguousSelector`).",
		"Give each workload a selector of its own, with a label that only its pods have.", false, selectorsOverlap},
	{"request-missing", Error, "Utilization of a resource that a container does not request",
		"Utilization is usage over request. If one container of the pod has no request the metric can't be computed at all: the count stays as it is, or only other metrics can raise it.",
		"Give every container a request, name one container with a `ContainerResource` metric, or set `averageValue` in place of `averageUtilization`. What a LimitRange of the namespace gives containers counts if the files have it.", true, requestMissing},
	{"target-unreachable", Error, "The limit keeps utilization from ever exceeding the target",
		"A container uses at most its limit. Where that is no more than the target plus the tolerance, no load is enough for a scale-up by this metric.",
		"Lower the target or raise the limit.", true, targetUnreachable},
	{"tolerance-never-down", Error, "A tolerance at which nothing is too little",
		"The count falls only while the usage ratio is below 1 − tolerance, and a ratio is never below 0.",
		"Set a tolerance well below 1; the controller's own is 0.1.", true, toleranceNeverDown},
	{"superseded-version", Error, "An API version that Kubernetes no longer serves",
		"`autoscaling/v2beta1` is gone since Kubernetes 1.25, `autoscaling/v2beta2` since 1.26: the API server refuses the manifest, and the autoscaler that is there stays as it was.",
		"Write `autoscaling/v2`. `setpoint tune -o yaml` and `kubectl get hpa -o yaml` of a newer cluster do.", false, supersededVersion},
	{"zero-for-good", Error, "Nothing can scale up from 0 replicas",
		"At 0 replicas only metrics that exist without pods can trigger a scale-up: the length of a queue can, requests served by the pods can not. And `scaleUp.policies` must allow a pod: a percentage of 0 is 0. A spec without any Object or External metric, or without the feature (`--scale-to-zero`), is refused.",
		"Add a metric of what waits or arrives, and a policy of type `Pods`, or set `minReplicas` to 1.", true, zeroForGood},
	{"target-without-scale", Error, "A target that has no count",
		"The controller looks up the kind in the group of `scaleTargetRef.apiVersion`. Where that group has no such kind, or the kind has no count, it reports `FailedGetScale` and nothing is scaled.",
		"Write the group as the cluster has it (`apps/v1` for Deployments and StatefulSets), and name something that has `replicas`.", false, targetWithoutScale},
	{"container-missing", Error, "A ContainerResource metric of a container that the workload does not have",
		"Pods without that container have no value of the metric: it can't be computed, and the count stays as it is. Containers that are injected into pods don't stand in the workload; those of service meshes are known.",
		"Name a container of the workload's `spec.template`.", true, containerMissing},
	{"keda-beside", Error, "A KEDA ScaledObject scales the same workload",
		"KEDA makes an autoscaler of its own for each ScaledObject. Two autoscalers of one workload undo each other's counts, or Kubernetes scales by neither.",
		"Keep one of them. A ScaledObject may have triggers for cpu and memory, too, and takes over an autoscaler with the annotation `scaledobject.keda.sh/transfer-hpa-ownership`.", false, kedaBeside},
	{"fleet-differs", Error, "A member whose metrics are not those of its fleet",
		"The sums of the members are added up metric by metric: a member's metrics must be the fleet's, with the same targets, in the same order. Otherwise its calls are refused (`FLEET_DIFFERS`), and its count stays as it is.",
		"Copy the metrics of the fleet's spec. Bounds and `behavior` may differ.", false, fleetDiffers},
	{"fleet-no-member", Error, "A workload that its fleet does not name",
		"A fleet answers only its members. The calls of others are refused (`FLEET_NOT_FOUND`), and their counts stay as they are.",
		"Add it to `fleet.members` by its whole name, or correct its namespace or name there.", false, fleetHasNoSuchMember},
	{"profile-ignores", Warning, "A setting that this version of the controller ignores",
		"The profile that `--profile` names does not know it, or has another rule in its place. The engine, run as that version, says so.",
		"Leave it out for that version, or upgrade the cluster.", true, profileIgnores},
	{"direction-disabled", Warning, "A direction is switched off",
		"`selectPolicy: Disabled` allows no change in that direction. Without scaling down the count of the highest peak stays for good; without scaling up no load brings a replica.",
		"Leave `selectPolicy` out, or use a slow policy.", true, directionDisabled},
	{"min-equals-max", Warning, "There is nothing between minReplicas and maxReplicas",
		"The count is that number whatever the metrics say.",
		"Raise `maxReplicas` or delete the autoscaler.", false, minEqualsMax},
	{"target-over-request", Warning, "A target at or above the whole request",
		"Pods are on target only while they use more than their requests. A full node has no spare capacity, so usage stops rising although demand does.",
		"Use a target well below 100 %, or raise the request.", false, targetOverRequest},
	{"sidecar-in-average", Warning, "Requests of other containers hide the one that works",
		"A `Resource` metric divides the usage of all containers by the requests of all. An idle sidecar with a large request lowers it.",
		"Use a `ContainerResource` metric of the container that serves.", false, sidecarInAverage},
	{"value-feeds-back", Warning, "A total that is compared as it is",
		"With `value` the count is multiplied by total ÷ target. Where the total does not fall when replicas are added, such as a rate of requests, it is multiplied again at every evaluation, up to the maximum.",
		"Use `averageValue`, unless the metric itself falls with more replicas (a latency, the load of one replica).", true, valueFeedsBack},
	{"target-missing", Warning, "A target that is not among the workloads",
		"The file, or the cluster that it is of, has workloads of that kind in that namespace that no autoscaler scales, and none of that name. An autoscaler without its target scales nothing.",
		"Correct the name, or give the file of the workload as well.", false, targetMissing},
	{"vpa-same-metric", Warning, "A VerticalPodAutoscaler changes the requests that utilization is measured by",
		"Utilization is usage over request. A VerticalPodAutoscaler moves the request to the usage, so that the ratio changes without any load, and the count with it. In the modes `Recreate`, `InPlaceOrRecreate` and `Auto` it does so to running pods, in the mode `Initial` to each new one.",
		"Set its mode to `Off`, leave the resource out of `controlledResources`, or scale by `averageValue` or another metric.", false, vpaSameMetric},
	{"pdb-blocks-drain", Warning, "At minReplicas no pod may be evicted",
		"A PodDisruptionBudget keeps as many pods as the autoscaler's minimum. While the count is that low an eviction is refused: drains of nodes, and with them upgrades, wait.",
		"Set `maxUnavailable: 1` in place of `minAvailable`, or raise `minReplicas` above it.", false, pdbBlocksDrain},
	{"tolerance-zero", Warning, "A tolerance of 0",
		"Whatever is above the target by the least bit brings a replica, and takes it away again below: noise becomes changes. Not looked at where the metric is `recommended-replicas`, a count that Setpoint has decided.",
		"Leave it out (0.1), or use some hundredths.", false, toleranceZero},
	{"metric-twice", Warning, "The same metric twice",
		"The largest proposal counts, and of one metric with two targets it is always that of the lower target.",
		"Delete the other one.", false, metricTwice},
	{"request-tiny", Warning, "A request far below what pods use",
		"Utilization is usage over request. With a tiny request a pod that does little is at many times its target, so that the count goes to maxReplicas and stays there.",
		"Request what a pod uses under load, or scale by `averageValue`.", false, requestTiny},
	{"slow-way-up", Warning, "The way from minReplicas to maxReplicas takes more than ten minutes",
		"Policies and windows let the count grow slowly. Found by running the engine with a load for maxReplicas.",
		"Allow more with `behavior.scaleUp.policies`, or set its `stabilizationWindowSeconds` to 0.", true, slowWayUp},
	{"slow-way-down", Warning, "The way from maxReplicas back to minReplicas takes more than an hour",
		"Policies and windows let the count fall slowly, and each replica is paid for meanwhile. Found by running the engine without load.",
		"Allow more with `behavior.scaleDown.policies`, or shorten its window.", true, slowWayDown},
	{"scale-up-window", Warning, "Scaling up waits",
		"With a window the least proposal within it counts, so every rise waits for its whole length.",
		"Leave `behavior.scaleUp.stabilizationWindowSeconds` at 0 and use tolerance or policies against noise.", true, scaleUpWindow},
	{"scale-down-window-zero", Warning, "Scaling down waits for nothing",
		"Each dip of a metric between two evaluations removes replicas, which have to start again after it. Not looked at where the metric is `recommended-replicas`, a count that Setpoint has decided.",
		"Leave `behavior.scaleDown.stabilizationWindowSeconds` at 300, or give it the length of the load's usual dips.", true, scaleDownWindowZero},
	{"startup-above-doubling", Warning, "The load doubles before a pod is ready",
		"New pods come too late for such a rise, whatever the target's metric says: only pods that are there already carry it. Found by running the scenario; a pod's start-up is the scenario's, or the delays of the probes in its manifest if these are longer.",
		"Keep more pods (`minReplicas`, a lower target), start them faster, or let load wait in a queue.", true, startupAboveDoubling},
	{"start-counts-as-load", Warning, "CPU of starting pods counts as load",
		"The controller leaves out samples of pods that are not ready yet. Pods that are ready before they have warmed up count in full, and after `cpuInitializationPeriod` so do some that are not ready. Found by running the scenario with and without its `warmup`.",
		"Let `readinessProbe` or `startupProbe` succeed only once the pod has warmed up, or lengthen `--cpu-initialization-period`.", true, startCountsAsLoad},
	{"surge-counts-as-load", Warning, "A rollout raises the count",
		"While a Deployment is rolled out, up to `maxSurge` pods are there on top, and what they use without load, or while they start, counts. Found by running the scenario with a rollout in its middle.",
		"Lower `strategy.rollingUpdate.maxSurge`, use a metric of the load itself, or let pods be ready only once they have warmed up.", true, surgeCountsAsLoad},
	{"window-above-rhythm", Warning, "The window is longer than the load's pauses",
		"Within a scale-down window the largest proposal counts. If the load is always back before it is over the count stays at the peak's. Found by running the scenario with and without the window.",
		"Shorten `behavior.scaleDown.stabilizationWindowSeconds`, or accept the peak's count as the price of never starting pods.", true, windowAboveRhythm},
	{"idle-holds", Warning, "Without load the count stays above minReplicas",
		"Pods that do nothing still use something. Where that is too near the target the last replicas never go. Found by running the scenario's workload without load.",
		"Raise the target or the request, or scale by a metric of the load itself.", true, idleHolds},
	{"schedule-out-of-bounds", Warning, "A schedule beyond minReplicas or maxReplicas",
		"Schedules never leave the bounds of the spec: a minimum above `maxReplicas` counts as `maxReplicas`. Where specs are stored it is refused.",
		"Raise `maxReplicas`, or lower the schedule.", false, scheduleOutOfBounds},
	{"schedule-never-soon", Warning, "A schedule that is not active for a year",
		"It was once, or its date is far away: a spelling that means another date looks the same.",
		"Delete it, or correct `cron` or `at`.", false, scheduleNeverSoon},
	{"schedule-overshadowed", Warning, "A schedule that never counts beside another one",
		"Of several schedules the largest minimum counts. Whenever this one is active, another one has as many replicas. Looked at for the next year, at most 64 periods.",
		"Delete it, or raise its `minReplicas`.", false, scheduleOvershadowed},
	{"schedule-contradicted", Warning, "A schedule's minimum is above another one's maximum while both are active",
		"The minimum counts, and the maximum limits nothing below it. Looked at for the next year, at most 64 periods.",
		"Let one end before the other begins, or lower the minimum.", false, scheduleContradicted},
	{"schedule-ramp-asks-nothing", Warning, "A ramp during which no metric is asked",
		"As in HPA, a decision that finds the count below the minimum raises it to that and looks at nothing else. A ramp that gains a replica in each period of 15 s is above the count that it made before, up to its end, whatever load there is meanwhile.",
		"Set `minPace: PACED`, or lengthen `rampUp`.", false, scheduleRampAsksNothing},
	{"fleet-holds-dead", Warning, "A fleet with HOLD can't replace a dead member",
		"The pods of a silent member count as idle. Pods that can use no more than they request then never raise the average above the target, so that nothing is added, however long the member is dead.",
		"Use `onLost: SHIFT`, `surviveOne`, or a lower target: with three equal members below 60 %.", false, fleetHoldsDead},
	{"fleet-caps-below-maximum", Warning, "The members of a fleet can't take all its replicas",
		"What is above the sum of the members' `maxReplicas` is in the count, but in no cluster: it is told as unplaced.",
		"Raise the `maxReplicas` of members, or lower those of the fleet.", false, fleetCapsBelowMaximum},
	{"fleet-survives-none", Warning, "surviveOne that bounds make impossible",
		"The replicas in case a member is lost are within the fleet's `maxReplicas`, and within those of the members that remain. Where these are too low already at the minimum, the count never survives.",
		"Raise `maxReplicas`, or leave `surviveOne` out.", false, fleetSurvivesNone},
	{"fleet-stale-soon", Warning, "Members of a fleet are stale after less than two periods",
		"Members call once a period. With one call late or failed a member is stale: its share is frozen, and its pods count as pods without samples.",
		"Leave `staleAfter` out (three periods), or give it two at least.", false, fleetStaleSoon},
	{"fleet-shifts-at-once", Warning, "SHIFT without a time in which a member is only stale",
		"`SHIFT` gives the share of a lost member to the others. Between stale and lost nothing is moved, which is the time for false alarms; here it is empty.",
		"Set `lostAfter` well above `staleAfter`.", false, fleetShiftsAtOnce},
	{"fleet-adds-values", Warning, "Values of the members of a fleet are added up",
		"With the scope `PER_MEMBER` readings are parts of a sum, as lengths of queues are. `value` is for what is no sum, such as a latency: of three clusters it would be three times as high.",
		"Use `averageValue`, or `GLOBAL` for a metric that all members read alike.", false, fleetAddsValues},
	{"fleet-own-minimum", Warning, "A member's own minReplicas are above what its fleet gives it",
		"Its caller's bounds count, so it has more replicas than the cap, and those above it are not counted: the fleet has more than it decides.",
		"Lower the member's own `minReplicas`, or raise its `maxReplicas` in the fleet.", false, fleetOwnMinimum},
	{"fallback-out-of-bounds", Warning, "A fallback below minReplicas or above maxReplicas",
		"The fallback of a failing metric is a proposal, which the bounds limit: it never has that many replicas.",
		"Propose a count between them, or move the bound.", false, fallbackOutOfBounds},
	{"fallback-within-period", Warning, "A fallback that does not wait for one period",
		"The second failed evaluation in a row starts it, with a duration of 0 the first, and each success ends it: the count follows the faults of the metric.",
		"Lengthen `failureDuration`; KEP-5679 requires three minutes, which is the default.", false, fallbackWithinPeriod},
	{"zero-guard-above-window", Warning, "A zero guard that waits longer than the scale-down window",
		"A true fall removes no replicas until both are over, and the window is over first: each replica is paid for meanwhile.",
		"Shorten `confirm` to the length of the window, or lengthen the window.", false, zeroGuardAboveWindow},
	{"forecast-of-one-day", Warning, "A forecast that is the largest of all days",
		"Above 92 per cent the nearest rank of 14 days is the last one: one odd day is the forecast of its time of day for two weeks.",
		"Use the default of 90 per cent, or less.", false, forecastOfOneDay},
	{"forecast-below-minimum", Warning, "A forecast that minReplicas leave no room for",
		"As a floor the forecast is never above `maxPercentOfMax` of `maxReplicas`, 80 per cent by default. Where that is no more than `minReplicas`, it changes nothing.",
		"Raise `maxReplicas`, or `maxPercentOfMax`.", false, forecastBelowMinimum},
	{"replicas-in-manifest", Warning, "The manifest of the workload sets spec.replicas",
		"Whoever applies it sets the count back, and the autoscaler starts again from there.",
		"Leave `spec.replicas` out of the manifest.", false, replicasInManifest},
	{"no-behavior", Note, "Without behavior an old peak raises the count while the metric falls",
		"A queue or another metric of all replicas can ask for many more replicas at once than one step allows. Without `behavior` the highest proposal of the last five minutes (`--downscale-stabilization`) counts in both directions: after the peak the count goes on rising to it, although the metric is below the target. This is Kubernetes' own rule.",
		"Set `behavior: {}`: with it an old proposal keeps the count from falling, and raises nothing.", true, noBehavior},
	{"tolerance-steps", Note, "At high counts one replica is less than the tolerance",
		"While the usage ratio is within 1 ± tolerance the count stays. At counts above 1 ÷ tolerance that spans more than one replica, so changes come in steps. Found by running the scenario: its average count spans two or more each way.",
		"Set `behavior.scaleUp.tolerance` and `behavior.scaleDown.tolerance` (Kubernetes 1.33 and later) to less than one replica's share.", true, toleranceSteps},
	{"percent-rounds-up", Note, "A percentage that is less than one replica",
		"A Percent policy always allows a whole replica: at low counts it is faster than it says.",
		"Nothing has to be done. Where a slower pace is meant lengthen `periodSeconds`.", true, percentRoundsUp},
	{"policy-never-binds", Note, "A policy that another one always overrules",
		"Of several policies `selectPolicy` takes the one that allows most (`Max`, the default) or least (`Min`). This one never is it.",
		"Delete it, or change `selectPolicy`.", false, policyNeverBinds},
	{"period-above-window", Note, "A policy's period is longer than the window before it",
		"After the first step the policy alone sets the pace: what it allowed counts against the next step for its whole period.",
		"Give the window the length of the period if changes should follow the metric of that time.", true, periodAboveWindow},
	{"memory-holds", Note, "Memory as a metric",
		"Many runtimes give no memory back while they run. Then the count never falls.",
		"Watch that usage falls with load, or scale by another metric.", false, memoryHolds},
	{"one-metric-decides", Note, "Of several metrics one always decides",
		"The largest proposal counts. A metric that never has it changes nothing, but while it fails no scale-down happens. Found by running the scenario.",
		"Keep it only if another load would make it decide.", true, oneMetricDecides},
	{"small-counts", Note, "The last replicas need little load to stay",
		"Proposals are rounded up: from n replicas n − 1 is reached only where usage is at most (n − 1) ÷ n of the target, from 2 at half of it. Told where that half is a tenth of the request or less, or 10m of cpu: about what pods use that do nothing.",
		"Raise the target or the request. A `minReplicas` of 2 says what is there anyway.", false, smallCounts},
	{"fleet-one-left", Note, "All members of a fleet but one are drained",
		"What that one can't take is unplaced, and nothing remains without it.",
		"Let another one take part (`drained: false`) once it can.", false, fleetOneTakesPart},
	{"metrics-default", Note, "No metrics",
		"The API server fills in one: cpu at 80 % of its request.",
		"Write the metric that is meant.", false, metricsDefault},
	{"series-unselected", Note, "An External metric without a selector",
		"All series of that name are added up, also those of other workloads and environments.",
		"Give the metric a `selector`.", false, seriesUnselected},
}

// someOf lists the first names of all.
func someOf(names []string, all int) string {
	text := strings.Join(names, ", ")
	if all > len(names) {
		text += ", …"
	}
	return text
}

func twoAutoscalers(s *subject) {
	ref := s.spec.ScaleTargetRef
	switch all := s.AllScalers; {
	case all > 0:
		names, scale := someOf(s.Scalers, all), "scales"
		if all > 1 {
			scale = "scale"
		}
		s.report("spec.scaleTargetRef", fmt.Sprintf("%s %s %s %s, too", names, scale, ref.Kind, ref.Name), fmt.Sprintf("%d autoscalers, 1 target", 1+all))
	case s.Namesake:
		s.report("metadata.name", fmt.Sprintf("HorizontalPodAutoscaler %s has this name, too: an agent acts on that one", s.Name), "2 autoscalers, 1 name")
	}
}

func selectorsOverlap(s *subject) {
	if all := s.AllOverlaps; all > 0 {
		s.report("spec.scaleTargetRef", fmt.Sprintf("the pods of %s %s are also those of %s", s.spec.ScaleTargetRef.Kind, s.spec.ScaleTargetRef.Name, someOf(s.Overlaps, all)),
			fmt.Sprintf("%d autoscalers, 1 set of pods", 1+all))
	}
}

// gone are the versions of autoscalers that are not served any more, and since when.
var gone = map[string]string{
	"autoscaling/v2beta1": "1.25", "autoscaling/v2beta2": "1.26", "extensions/v1beta1": "1.6",
}

func supersededVersion(s *subject) {
	if since, ok := gone[s.Version]; ok {
		s.report("apiVersion", fmt.Sprintf("%s is not served by Kubernetes %s and later", s.Version, since),
			fmt.Sprintf("apiVersion %s, which is autoscaling/v2 now", s.Version))
	}
}

// profileIgnores asks the engine for one decision, whose explanation names what it ignores.
func profileIgnores(s *subject) {
	spec := s.given.Autoscaler.Spec
	if !s.given.Behavior {
		spec.Behavior = nil // the defaults are nobody's wish
	}
	in := recommender.Input{Namespace: s.namespace, Spec: spec, Options: *s.options, Explain: true, ExplainLimit: recommender.ExplainNoPods}
	in.ID[0] = 1
	in.Scale = recommender.Scale{SpecReplicas: spec.MinReplicas, StatusReplicas: spec.MinReplicas}
	in.Readings = make([]recommender.Readings, len(spec.Metrics))
	decision, err := simulation.NewEngine(s.namespace).Recommend(begin, &in)
	if err != nil || decision.Explanation == nil {
		return
	}
	for _, warning := range decision.Explanation.Warnings {
		what, why, ignored := strings.Cut(warning, " is ignored: ")
		if field, _, _ := strings.Cut(what, " "); ignored && strings.HasPrefix(field, "spec.") {
			s.report(field, what+" is ignored", why)
		}
	}
}

func minEqualsMax(s *subject) {
	if s.spec.MinReplicas == s.spec.MaxReplicas {
		s.report("spec.maxReplicas", fmt.Sprintf("the count is always %d", s.spec.MaxReplicas),
			fmt.Sprintf("maxReplicas %d − minReplicas %d = 0", s.spec.MaxReplicas, s.spec.MinReplicas))
	}
}

// utilizations gives the metrics with a target in percent of a request.
func (s *subject) utilizations(each func(at string, m *recommender.MetricSpec, percent int32)) {
	for i := range s.spec.Metrics {
		m := &s.spec.Metrics[i]
		if m.Target.AverageUtilization == nil {
			continue
		}
		switch m.Type {
		case recommender.ResourceMetric:
			each(fmt.Sprintf("spec.metrics[%d].resource.target.averageUtilization", i), m, *m.Target.AverageUtilization)
		case recommender.ContainerResourceMetric:
			each(fmt.Sprintf("spec.metrics[%d].containerResource.target.averageUtilization", i), m, *m.Target.AverageUtilization)
		}
	}
}

// containers are those of the template whose requests count; without a template those of the scenario's pods.
func (s *subject) containers() []Container {
	switch profile := s.options.Profile; {
	case s.Workload == nil && s.Scenario == nil:
		return nil
	case s.Workload == nil:
		return ContainersOf(&s.Scenario.Workload)
	case profile != nil && !profile.Sidecars():
		return s.Workload.Containers
	}
	return slices.Concat(s.Workload.Containers, s.Workload.Sidecars)
}

// amounts are what the containers that a metric is about request and may use, milli-units.
// without names those that request none; limited tells that all have a limit.
func (s *subject) amounts(m *recommender.MetricSpec) (request, limit int64, without []string, limited bool) {
	limited = true
	for _, c := range s.containers() {
		if m.Type == recommender.ContainerResourceMetric && c.Name != m.Container {
			continue
		}
		least, requests := c.Requests[m.Resource]
		most, limits := c.Limits[m.Resource]
		if !requests {
			without = append(without, c.Name)
		}
		limited = limited && limits
		request += least
		limit += most
	}
	return request, limit, without, limited && limit > 0
}

func requestMissing(s *subject) {
	if s.Workload != nil && s.Workload.PodRequests {
		return
	}
	s.utilizations(func(at string, m *recommender.MetricSpec, percent int32) {
		_, _, without, _ := s.amounts(m)
		if len(without) > 0 && s.failsWithout(m) {
			s.report(at, fmt.Sprintf("%s of the pods can't be computed: no request in %s", m.Resource, strings.Join(without, ", ")),
				fmt.Sprintf("target %d %% of a request that %s does not have", percent, strings.Join(without, ", ")))
		}
	})
}

func targetUnreachable(s *subject) {
	if s.Workload == nil || s.Workload.PodRequests {
		return
	}
	s.utilizations(func(at string, m *recommender.MetricSpec, percent int32) {
		request, limit, without, limited := s.amounts(m)
		if !limited || len(without) > 0 || request == 0 || m.Resource != "cpu" {
			return
		}
		if most := float64(limit) / float64(request); s.neverUp(m, most) {
			s.report(at, fmt.Sprintf("%s brings no scale-up at any load: it is at most %s of its request", m.Resource, percentOf(most)),
				fmt.Sprintf("limit %dm ÷ request %dm = %s, needed: above target %d %% × (1 + tolerance %s) = %s",
					limit, request, percentOf(most), percent, asWritten(s.tolerance(recommender.Up)), percentOf(float64(percent)/100*(1+s.tolerance(recommender.Up)))))
		}
	})
}

func targetOverRequest(s *subject) {
	s.utilizations(func(at string, m *recommender.MetricSpec, percent int32) {
		if percent >= 100 {
			s.report(at, fmt.Sprintf("%s is on target at %d %% of what is reserved", m.Resource, percent),
				fmt.Sprintf("a scale-up needs more than %d %% × (1 + tolerance %s) = %s", percent, asWritten(s.tolerance(recommender.Up)), percentOf(float64(percent)/100*(1+s.tolerance(recommender.Up)))))
		}
	})
}

func sidecarInAverage(s *subject) {
	if s.Workload == nil || len(s.containers()) < 2 || s.Workload.PodRequests {
		return
	}
	s.utilizations(func(at string, m *recommender.MetricSpec, percent int32) {
		if m.Type != recommender.ResourceMetric {
			return
		}
		var parts []string
		sum, largest := int64(0), int64(0)
		for _, c := range s.containers() {
			q := c.Requests[m.Resource]
			sum, largest = sum+q, max(largest, q)
			parts = append(parts, c.Name+" "+amountOf(m.Resource, q))
		}
		if largest == 0 || sum == largest {
			return
		}
		s.report(at, fmt.Sprintf("%s is that of %d containers together", m.Resource, len(parts)),
			fmt.Sprintf("%s: if only the largest works, it is at %s of its own request when the pod is at %d %%",
				strings.Join(parts, " + "), percentOf(float64(percent)/100*float64(sum)/float64(largest)), percent))
	})
}

func memoryHolds(s *subject) {
	for i := range s.spec.Metrics {
		if m := &s.spec.Metrics[i]; m.Resource == "memory" {
			s.report(fmt.Sprintf("spec.metrics[%d]", i), "memory seldom falls with load",
				fmt.Sprintf("from n to n − 1 replicas usage has to fall to (n − 1) ÷ n of the target: to half of it from 2, and below %s of it at any count", percentOf(1-s.tolerance(recommender.Down))))
		}
	}
}

func valueFeedsBack(s *subject) {
	for i := range s.spec.Metrics {
		m := &s.spec.Metrics[i]
		if m.Target.Value == nil || m.Type != recommender.ObjectMetric && m.Type != recommender.ExternalMetric {
			continue
		}
		if s.runsAway(m) {
			target := float64(*m.Target.Value) / 1000
			s.report(fmt.Sprintf("spec.metrics[%d]", i), fmt.Sprintf("a total of %s twice the target goes to maxReplicas %d", m.Metric.Name, s.spec.MaxReplicas),
				fmt.Sprintf("count × (%s ÷ %s) at every evaluation: %s", decimals(2*target), decimals(target), doublings(s.spec.MinReplicas, s.spec.MaxReplicas)))
		}
	}
}

// doublings is the way of a count that is doubled: 2 → 4 → … → 50.
func doublings(from, to int32) string {
	text := fmt.Sprint(max(1, from))
	n := int64(max(1, from))
	for i := 0; n < int64(to); i++ {
		n = min(2*n, int64(to))
		switch {
		case i < 3 || n == int64(to):
			text += fmt.Sprintf(" → %d", n)
		case i == 3:
			text += " → …"
		}
	}
	return text
}

func toleranceNeverDown(s *subject) {
	if t := s.tolerance(recommender.Down); t >= 1 && s.spec.MinReplicas < s.spec.MaxReplicas && s.neverDown() {
		s.report(s.toleranceField("scaleDown"), fmt.Sprintf("the count never falls: from %d replicas not even without any load", s.high()),
			fmt.Sprintf("a scale-down needs a ratio below 1 − tolerance %s = %s", asWritten(t), asWritten(1-t)))
	}
}

// toleranceSteps shows what the tolerance spans at the scenario's average count.
func toleranceSteps(s *subject) {
	up, down := s.tolerance(recommender.Up), s.tolerance(recommender.Down)
	if s.Scenario == nil || max(up, down) >= 1 {
		return
	}
	result := s.play(s.Scenario, s.Autoscaler, nil)
	if result == nil {
		return
	}
	n := int32(result.Figures.ReplicaHours / s.Scenario.Duration.Hours())
	if float64(n)*min(up, down) < 2 {
		return
	}
	low, high := s.steady(n)
	s.report(s.toleranceField("scaleDown"), fmt.Sprintf("at %d replicas, the average, the count stays while %d to %d would do", n, low, high),
		fmt.Sprintf("%d × (1 − %s) = %s, %d × (1 + %s) = %s", n, asWritten(down), decimals(float64(n)*(1-down)), n, asWritten(up), decimals(float64(n)*(1+up))))
}

func directionDisabled(s *subject) {
	b := s.spec.Behavior
	if b == nil || s.spec.MinReplicas == s.spec.MaxReplicas {
		return
	}
	if b.ScaleDown.SelectPolicy == recommender.NoSelection && s.neverDown() {
		s.report("spec.behavior.scaleDown.selectPolicy", fmt.Sprintf("the count never falls: after one peak it stays at up to %d", s.spec.MaxReplicas),
			fmt.Sprintf("%d replicas more than minReplicas %d, for good", s.spec.MaxReplicas-s.spec.MinReplicas, s.spec.MinReplicas))
	}
	if b.ScaleUp.SelectPolicy == recommender.NoSelection {
		if way := s.climb(); !way.arrived {
			s.report("spec.behavior.scaleUp.selectPolicy", "no load brings a replica", fmt.Sprintf("the count stays at minReplicas %d", s.spec.MinReplicas))
		}
	}
}

const (
	longUp   = 10 * time.Minute
	longDown = time.Hour
)

func slowWayUp(s *subject) {
	if s.spec.Behavior != nil && s.spec.Behavior.ScaleUp.SelectPolicy == recommender.NoSelection {
		return
	}
	if way := s.climb(); way.length > longUp || !way.arrived {
		s.report("spec.behavior.scaleUp", fmt.Sprintf("from %d to %d replicas takes %s", way.from, way.to, way.words()), way.steps())
	}
}

func slowWayDown(s *subject) {
	if s.spec.Behavior != nil && s.spec.Behavior.ScaleDown.SelectPolicy == recommender.NoSelection || s.tolerance(recommender.Down) >= 1 {
		return
	}
	if way := s.descend(); way.length > longDown || !way.arrived {
		s.report("spec.behavior.scaleDown", fmt.Sprintf("from %d back to %d replicas takes %s", way.from, way.to, way.words()), way.steps())
	}
}

// noBehavior looks for a rise after a peak that lasted for one evaluation.
func noBehavior(s *subject) {
	total := func(m recommender.MetricSpec) bool {
		return m.Type == recommender.ExternalMetric || m.Type == recommender.ObjectMetric
	}
	if s.Behavior || !s.options.Profile.Behavior() || !slices.ContainsFunc(s.spec.Metrics, total) {
		return
	}
	spec, from := s.total(), max(1, s.spec.MinReplicas)
	w := way{from: from, counts: []int32{from}}
	peak := func(at time.Duration) int64 {
		switch {
		case at < 0:
			return int64(from) * 1000
		case at == 0:
			return 2 * int64(s.spec.MaxReplicas) * 1000
		}
		return 0
	}
	s.loop(&spec, from, time.Hour, peak, func(at time.Duration, count int32) bool {
		if last := w.counts[len(w.counts)-1]; count > last {
			w.counts, w.length = append(w.counts, count), at
		} else if at > 0 {
			return true
		}
		return false
	})
	if w.length > 0 {
		s.report("spec", fmt.Sprintf("after a peak of %s the count rises for another %s while nothing is left", span(period), span(w.length)), w.path())
	}
}

func scaleUpWindow(s *subject) {
	if b := s.spec.Behavior; b != nil && b.ScaleUp.StabilizationWindowSeconds != nil && *b.ScaleUp.StabilizationWindowSeconds > 0 && b.ScaleUp.SelectPolicy != recommender.NoSelection {
		way := s.climb()
		if way.first > 0 {
			s.report("spec.behavior.scaleUp.stabilizationWindowSeconds", fmt.Sprintf("every rise waits for %s", span(way.first)),
				fmt.Sprintf("the least proposal of the last %d s counts, evaluated every %s", *b.ScaleUp.StabilizationWindowSeconds, span(period)))
		}
	}
}

func scaleDownWindowZero(s *subject) {
	b := s.spec.Behavior
	if b == nil || b.ScaleDown.StabilizationWindowSeconds == nil || *b.ScaleDown.StabilizationWindowSeconds > 0 || b.ScaleDown.SelectPolicy == recommender.NoSelection || s.decidedBefore() {
		return
	}
	if way := s.descend(); way.first == 0 && len(way.counts) > 1 {
		s.report("spec.behavior.scaleDown.stabilizationWindowSeconds", fmt.Sprintf("one low sample takes %d of %d replicas", way.counts[0]-way.counts[1], way.counts[0]),
			fmt.Sprintf("%d → %d within one evaluation", way.counts[0], way.counts[1]))
	}
}

func replicasInManifest(s *subject) {
	if t := s.Workload; t != nil && !t.Applied && t.Replicas != nil {
		s.report("spec.scaleTargetRef", fmt.Sprintf("applying the manifest of %s %s sets the count to %d", s.spec.ScaleTargetRef.Kind, s.spec.ScaleTargetRef.Name, *t.Replicas),
			fmt.Sprintf("spec.replicas: %d, whatever the autoscaler has set between %d and %d", *t.Replicas, s.spec.MinReplicas, s.spec.MaxReplicas))
	}
}

// direction is one direction's rules, as they were written and as they are in force.
type direction struct {
	name  string
	rules *recommender.ScalingRules
	down  bool
	// other is the longest period of the other direction, in seconds.
	other int32
}

// writtenDirections are those whose policies the user wrote.
func (s *subject) writtenDirections() []direction {
	var out []direction
	if b := s.spec.Behavior; b != nil {
		if s.Up {
			out = append(out, direction{"scaleUp", &b.ScaleUp, false, longestPeriod(&b.ScaleDown)})
		}
		if s.Down {
			out = append(out, direction{"scaleDown", &b.ScaleDown, true, longestPeriod(&b.ScaleUp)})
		}
	}
	return slices.DeleteFunc(out, func(d direction) bool { return d.rules.SelectPolicy == recommender.NoSelection })
}

func longestPeriod(rules *recommender.ScalingRules) (longest int32) {
	for _, p := range rules.Policies {
		longest = max(longest, p.PeriodSeconds)
	}
	return longest
}

func percentRoundsUp(s *subject) {
	for _, d := range s.writtenDirections() {
		for i, p := range d.rules.Policies {
			least := max(1, s.spec.MinReplicas)
			if d.down {
				least = max(least, s.spec.MinReplicas+1)
			}
			if p.Type != recommender.PercentPolicy || p.Value == 0 || int64(p.Value)*int64(least) >= 100 || least > s.spec.MaxReplicas || len(d.rules.Policies) > 1 {
				continue
			}
			if s.movesOne(d, least) {
				s.report(fmt.Sprintf("spec.behavior.%s.policies[%d]", d.name, i), fmt.Sprintf("%d %% of %d replicas are one replica", p.Value, least),
					fmt.Sprintf("%d × %d %% = %.3g, which allows 1 replica, %s, every %d s; from %d replicas on it is one or more by itself",
						least, p.Value, float64(least)*float64(p.Value)/100, percentOf(1/float64(least)), p.PeriodSeconds, (100+p.Value-1)/p.Value))
			}
		}
	}
}

// limit is the count that a policy allows from a count at the start of its period, as the engine computes it.
func (d direction) limit(p recommender.ScalingPolicy, start int32) float64 {
	n, v := float64(start), float64(p.Value)
	switch {
	case p.Type == recommender.PodsPolicy && d.down:
		return n - v
	case p.Type == recommender.PodsPolicy:
		return n + v
	case d.down:
		return math.Trunc(n * (1 - v/100))
	}
	return math.Ceil(n * (1 + v/100))
}

// allowed is how much a policy allows from a count: less than 0 where that is, and a percentage leads away from it.
func (d direction) allowed(p recommender.ScalingPolicy, n int32) float64 {
	if d.down {
		return float64(n) - d.limit(p, n)
	}
	return d.limit(p, n) - float64(n)
}

func policyNeverBinds(s *subject) {
	for _, d := range s.writtenDirections() {
		for i, p := range d.rules.Policies {
			for k, other := range d.rules.Policies {
				if i == k || other == p && k > i {
					continue
				}
				low, high := s.lowest(d), s.spec.MaxReplicas
				if s.coversInPlaceOf(d, i, k) {
					s.report(fmt.Sprintf("spec.behavior.%s.policies[%d]", d.name, i), fmt.Sprintf("%s %d never decides", p.Type, p.Value),
						fmt.Sprintf("one of both always allows the whole way between %d and %d replicas at once; %s counts", low, high, d.rules.SelectPolicy))
					break
				}
				both := s.covers(d, p) && s.covers(d, other) // one of them is enough, which is said above of the later one
				if other.PeriodSeconds == p.PeriodSeconds && !both && s.overrules(d, other, p, k < i) {
					s.report(fmt.Sprintf("spec.behavior.%s.policies[%d]", d.name, i), fmt.Sprintf("%s %d never decides", p.Type, p.Value),
						fmt.Sprintf("of %d replicas it allows %s and policies[%d] %s, of %d replicas %s and %s; %s counts",
							low, decimals(d.allowed(p, low)), k, decimals(d.allowed(other, low)), high, decimals(d.allowed(p, high)), decimals(d.allowed(other, high)), d.rules.SelectPolicy))
					break
				}
			}
		}
	}
}

// lowest is the least count from which a direction's policies move.
func (s *subject) lowest(d direction) int32 {
	if d.down {
		return max(1, s.spec.MinReplicas)
	}
	return s.spec.MinReplicas // from 0 a percentage allows nothing
}

// covers reports whether a policy allows the whole way between the bounds at once, so that it
// limits nothing.
func (s *subject) covers(d direction, p recommender.ScalingPolicy) bool {
	switch {
	case d.down && p.Type == recommender.PercentPolicy && p.Value >= 100:
		return true
	case p.PeriodSeconds > d.other: // it may start outside the bounds, see starts
		return false
	case d.down:
		return d.limit(p, s.spec.MaxReplicas) <= float64(s.spec.MinReplicas)
	}
	return d.limit(p, s.lowest(d)) >= float64(s.spec.MaxReplicas)
}

// coversInPlaceOf reports whether the i'th policy never decides because the k'th one limits
// nothing, or, where the least change counts, because it limits nothing itself. Unlike in
// overrules the periods don't matter.
func (s *subject) coversInPlaceOf(d direction, i, k int) bool {
	of, by := s.covers(d, d.rules.Policies[i]), s.covers(d, d.rules.Policies[k])
	if d.rules.SelectPolicy == recommender.MinChange {
		of, by = by, of
	}
	return by && (!of || k < i)
}

// overrules reports whether one policy decides in place of another at every count that the period may start from. Both have
// the same period. Of one type the values decide; of two types what one allows more than the other rises or falls all the way, so
// that the ends are enough. Of two that always allow the same the earlier one counts.
func (s *subject) overrules(d direction, one, other recommender.ScalingPolicy, earlier bool) bool {
	more := func(a, b float64) bool { return a > b }
	if d.rules.SelectPolicy == recommender.MinChange {
		more = func(a, b float64) bool { return a < b }
	}
	if one.Type == other.Type {
		return !more(float64(other.Value), float64(one.Value))
	}
	same := true
	for _, n := range s.starts(d, one, other) {
		a, b := d.allowed(one, n), d.allowed(other, n)
		if more(b, a) {
			return false
		}
		same = same && a == b
	}
	return !same || earlier
}

// starts are the least and the highest count that a period of two policies may start from, as far as they allow any change from
// there. Changes are kept for the longest period of their own direction only: of a longer one of the other direction those are
// missing that led back, and the start is outside the bounds by what they were.
func (s *subject) starts(d direction, one, other recommender.ScalingPolicy) [2]int32 {
	low, high := s.lowest(d), s.spec.MaxReplicas
	switch {
	case one.PeriodSeconds <= d.other:
	case d.down:
		high += int32(sort.Search(math.MaxInt32-int(high), func(n int) bool {
			start := high + int32(n) + 1
			return min(d.limit(one, start), d.limit(other, start)) >= float64(high)
		}))
	default:
		low -= int32(sort.Search(math.MaxInt32-int(low), func(n int) bool {
			start := low - int32(n) - 1
			return max(d.limit(one, start), d.limit(other, start)) <= float64(low)
		}))
	}
	return [2]int32{low, high}
}

func periodAboveWindow(s *subject) {
	b := s.spec.Behavior
	if !s.Down || b == nil || b.ScaleDown.SelectPolicy == recommender.NoSelection {
		return
	}
	window := int32(s.options.DownscaleStabilization.Seconds())
	if b.ScaleDown.StabilizationWindowSeconds != nil {
		window = *b.ScaleDown.StabilizationWindowSeconds
	}
	if window == 0 {
		return // without a window the policy is all there is
	}
	for i, p := range b.ScaleDown.Policies {
		// Another policy may allow the next step sooner, and this one the whole way at once.
		if way := s.descend(); p.PeriodSeconds > window && way.pause >= time.Duration(p.PeriodSeconds)*time.Second {
			s.report(fmt.Sprintf("spec.behavior.scaleDown.policies[%d].periodSeconds", i), fmt.Sprintf("a step waits for %d s, not for the window's %d s", p.PeriodSeconds, window),
				fmt.Sprintf("periodSeconds %d > stabilizationWindowSeconds %d", p.PeriodSeconds, window))
		}
	}
}

func seriesUnselected(s *subject) {
	for i := range s.spec.Metrics {
		if m := &s.spec.Metrics[i]; m.Type == recommender.ExternalMetric && selectsAll(m.Metric.Selector) && !slices.Contains(s.Queried, "External:"+m.Metric.Name) {
			s.report(fmt.Sprintf("spec.metrics[%d].external.metric", i), fmt.Sprintf("all series of %s are added up", m.Metric.Name), "no selector: every series of the name counts")
		}
	}
}

// selectsAll reports whether a selector leaves nothing out: an empty one, too.
func selectsAll(s *recommender.LabelSelector) bool {
	return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
}
