package main

// newest keeps a target's series of the instance of its job that decided for it last: any
// instance may decide, and each exports its own last decision.
func newest(metric, matchers string) string {
	return metric + matchers + " and on (job, instance, cluster, namespace, target) topk by (job, cluster, namespace, target) (1, setpoint_target_last_decision_timestamp_seconds" + matchers + ")"
}

// targetMetrics is the requirement of panels about single targets.
const targetMetrics = "needs --target-metrics"

// targets is about all targets together.
func targets() dashboard {
	all := chosen()
	return dashboard{
		uid: "setpoint-targets", title: "Setpoint / All targets",
		about:     "What is decided for all targets, and what holds decisions back. Panels about replicas need --target-metrics.",
		variables: instances("setpoint_decisions_total"),
		panels: []panel{
			stat("Targets", unitNone, "Targets with a decision in the last hour (--target-metrics).",
				"count(count by (cluster, namespace, target) (setpoint_target_desired_replicas"+all+"))").without(targetMetrics),
			stat("Replicas", unitNone, "Desired replicas of all targets (--target-metrics).", "sum("+newest("setpoint_target_desired_replicas", all)+")").without(targetMetrics),
			stat("Decisions a second", unitRate, "Recorded decisions of all instances.", "sum(rate(setpoint_decisions_total"+all+"[$__rate_interval]))"),
			stat("Changes an hour", unitNone, "Decisions of the last hour that changed a count.", `sum(increase(setpoint_decisions_total`+chosen(`action!="NONE"`)+`[1h]))`),
			stat("Failing metrics", unitShare, "Share of decisions that held the count because metrics could not be computed. Red where SetpointMetricsFail fires.",
				share([]string{"setpoint_decision_paths_total" + chosen(`path="MetricsFailed"`)}, []string{"setpoint_decision_paths_total" + all})).red(0.1),
			stat("Failed recommendations", unitShare, "Share of recommendations, in batches and on streams too, that failed for reasons of the service. Red where SetpointErrors fires.",
				share([]string{"setpoint_recommendation_errors_total" + chosen(`code=~"Internal|Unknown|DataLoss|Unavailable|DeadlineExceeded"`)}, []string{"setpoint_recommendations_total" + all})).red(0.01),

			row("Decisions"),
			stacked("Changes", unitRate, "Decisions that changed a count, by direction.", rate("setpoint_decisions_total", "action", `action!="NONE"`)),
			stacked("Recommendations by outcome", unitRate, "decided: recorded. replayed: a repeated requestId got the recorded answer. dry_run: not recorded.", rate("setpoint_recommendations_total", "outcome")),
			graph("Failed recommendations by code", unitRate, "InvalidArgument and most others are for callers to mend; Internal, Unknown, DataLoss, Unavailable and DeadlineExceeded count for SetpointErrors.", rate("setpoint_recommendation_errors_total", "code")).as(third),
			graph("Path through the controller", unitRate, "Metrics is the usual path. MetricsFailed, SelectorFailed and ScaleUnavailable hold the count.", rate("setpoint_decision_paths_total", "path")).as(third),
			graph("Metrics that could not be computed", unitRate, "By the metric's type. The target's ScalingActive condition has the reason.", rate("setpoint_metric_failures_total", "type")).as(third),

			row("What holds decisions back"),
			graph("Stabilization and delays", unitRate, "Decisions that a stabilization window or a delay held, by AbleToScale's reason.", rate("setpoint_decisions_held_total", "reason")),
			graph("Policies and bounds", unitRate, "Decisions that a policy or a bound limited, by ScalingLimited's reason. TooManyReplicas for long: maxReplicas is too low.", rate("setpoint_decisions_limited_total", "reason")),

			row("Stages and overrides"),
			graph("Overrides in force", unitNone, "Of the clusters that each instance decides for. SetpointOverrideOld fires for one that is older than a week.", gauge("setpoint_overrides")),
			stacked("Adjustments by stage and rule", unitRate, "What stages and overrides changed of recorded decisions. A rule that acts all day: see whether the spec should have it.",
				rate("setpoint_adjustments_total", "stage, rule")),
			graph("Lost overrides", unitNone, "Overrides that the store lost within an hour (override), and deletions of some, which are in force again (deletion). SetpointOverridesLost fires for any.",
				query{"max by (lost) (increase(setpoint_overrides_lost_total" + all + "[1h]))", "{{lost}}"}),
			graph("Adjustments for each decision", unitNone, "By stage. A stage may adjust one decision several times (two schedules, each failing metric), and targets are decided at paces of their own: it is no share of decisions or of time. Which targets a stage acts on, and since when, is in their decision logs and conditions.",
				query{"sum by (stage) (rate(setpoint_adjustments_total" + all + "[$__rate_interval])) / on () group_left () (sum(rate(setpoint_decisions_total" + all + "[$__rate_interval])) > 0)", "{{stage}}"}),
			table("Who holds what, until when", "Overrides in force, by the time that is left (--target-metrics). `setpoint override list` and the page at /ui/ have their reasons.",
				query{"sort(1000 * max by (cluster, namespace, target, override, what, author) (setpoint_override_end_timestamp_seconds" + all + "))", "until"}).of(unitTime),

			row("Fleets"),
			stacked("Members by state", unitNone, "Of the fleets whose members have called lately. SetpointFleetMemberLost fires for lost ones; drained ones are in their state, too, and not here.",
				query{"max by (state) (setpoint_fleet_members" + chosen(`state!="drained"`) + ")", "{{state}}"}),
			graph("Unplaced and missing replicas", unitNone, "Unplaced: no member could take them. Missing: too few without the largest member (surviveOne).",
				query{"max(setpoint_fleet_unplaced_replicas" + all + ")", "unplaced"},
				query{"max(setpoint_fleet_missing_replicas" + all + ")", "missing"},
				query{"max(setpoint_fleet_scope_contradictions" + all + ")", "metrics that contradict their scope"}),
			stacked("Decisions of fleets", unitRate, "Recorded decisions of fleets, by action.", rate("setpoint_fleet_decisions_total", "action")),
			graph("Members lost and returned", unitNone, "In the last hour. Many: calls arrive too seldom, or lostAfter is too short.",
				query{"sum(increase(setpoint_fleet_members_lost_total" + all + "[1h]))", "lost"},
				query{"sum(increase(setpoint_fleet_members_returned_total" + all + "[1h]))", "returned"}),
			table("Which fleet", "Of each fleet: members that are stale or lost, and replicas that no member could take or that would lack without the largest member (--target-metrics). `setpoint fleet show` and the page at /ui/ name the members.",
				query{"sort_desc(sum by (cluster, namespace, target) (max by (cluster, namespace, target, state) (setpoint_target_fleet_members" + chosen(`state=~"stale|lost"`) + ")))", "silent members"},
				query{"max by (cluster, namespace, target) (setpoint_target_fleet_unplaced_replicas" + all + ")", "unplaced"},
				query{"max by (cluster, namespace, target) (setpoint_target_fleet_missing_replicas" + all + ")", "missing"}),

			row("Replicas (--target-metrics)"),
			stacked("Desired replicas by namespace", unitNone, "Desired replicas of all targets.",
				query{"sum by (cluster, namespace) (" + newest("setpoint_target_desired_replicas", all) + ")", "{{cluster}}/{{namespace}}"}).as(whole),
			graph("Largest targets", unitNone, "The ten targets with the most desired replicas.",
				query{"topk(10, max by (cluster, namespace, target) (" + newest("setpoint_target_desired_replicas", all) + "))", "{{cluster}}/{{namespace}}/{{target}}"}),
			graph("Desired beside current", unitNone, "The sums of both. A lasting difference: counts are not applied, or not reported.",
				query{"sum(" + newest("setpoint_target_desired_replicas", all) + ")", "desired"},
				query{"sum(" + newest("setpoint_target_current_replicas", all) + ")", "current"}),
			table("Not decided for longest", "Seconds since the last decision of any instance. Callers ask each 15 s by default.",
				query{"topk(20, time() - max by (cluster, namespace, target) (setpoint_target_last_decision_timestamp_seconds" + all + "))", "seconds since the last decision"}),
		},
	}
}

// target is about one of them.
func target() dashboard {
	const one = `{job="$job", cluster="$cluster", namespace="$namespace", target="$target"}`
	return dashboard{
		uid: "setpoint-target", title: "Setpoint / Target",
		about: "One target's counts. It needs --target-metrics. The page at /ui/ and `setpoint targets decisions` say why.",
		variables: []variable{
			{name: "job", title: "Job", query: "label_values(setpoint_target_desired_replicas, job)", one: true},
			{name: "cluster", title: "Cluster", query: `label_values(setpoint_target_desired_replicas{job="$job"}, cluster)`, one: true},
			{name: "namespace", title: "Namespace", query: `label_values(setpoint_target_desired_replicas{job="$job", cluster="$cluster"}, namespace)`, one: true},
			{name: "target", title: "Target", query: `label_values(setpoint_target_desired_replicas{job="$job", cluster="$cluster", namespace="$namespace"}, target)`, one: true},
		},
		panels: []panel{
			stat("Current", unitNone, "Replicas at the last decision.", "max("+newest("setpoint_target_current_replicas", one)+")"),
			stat("Desired", unitNone, "Desired replicas of the last decision.", "max("+newest("setpoint_target_desired_replicas", one)+")"),
			stat("Since the last decision", unitSeconds, "Callers ask each 15 s by default. Red where SetpointTargetNotDecided is about to fire.", "time() - max(setpoint_target_last_decision_timestamp_seconds"+one+")").red(600),
			stat("Changes in a day", unitNone, "How often the desired count of the newest decision changed. Many changes: see whether they reverse each other.",
				"changes(max("+newest("setpoint_target_desired_replicas", one)+")[1d:30s])"),
			graph("Replicas", unitNone, "Current and desired replicas of the newest decision.",
				query{"max(" + newest("setpoint_target_desired_replicas", one) + ")", "desired"},
				query{"max(" + newest("setpoint_target_current_replicas", one) + ")", "current"}).as(whole),
			graph("Which instance decides", unitNone, "Desired replicas of the last decision of each instance. They may differ: only the newest counts.",
				query{"setpoint_target_desired_replicas" + one, "{{instance}}"}),
			graph("Time between decisions", unitSeconds, "Seconds since the last decision. It climbs to the caller's period and falls to 0.",
				query{"time() - max(setpoint_target_last_decision_timestamp_seconds" + one + ")", "since the last decision"}),
		},
	}
}
