package main

// agent is about the agents of all platforms.
func agent() dashboard {
	all := chosen()
	return dashboard{
		uid: "setpoint-agent", title: "Setpoint / Agent",
		about:     "Agents of Kubernetes, Swarm, Nomad and webhooks: what they ask, apply and refuse.",
		variables: instances("setpoint_agent_recommender_up"),
		panels: join([]panel{
			stat("Service", unitNone, "Whether the service answers every agent. Without it nothing is scaled.", "min(setpoint_agent_recommender_up"+all+")").below(1).named("away", "up"),
			stat("Objects", unitNone, "Objects that the agents scale or watch.", "sum(setpoint_agent_objects"+all+")"),
			stat("Scaled in an hour", unitNone, "Counts written in the last hour.", "sum(increase(setpoint_agent_scales_applied_total"+all+"[1h]))"),
			stat("Failing evaluations", unitShare, "Share of the evaluations of the last 15 minutes that held the count because an object could not be read, asked about or written. By outcome: below.",
				`sum(increase(setpoint_agent_reconciles_total`+chosen(`outcome=~"recommender_unavailable|recommendation_refused|answer_refused|read_failed|scale_failed"`)+`[15m])) / (sum(increase(setpoint_agent_reconciles_total`+all+`[15m])) > 0) or vector(0)`).red(0.05),
			stat("Refused answers", unitNone, "Answers of the last hour that the agent did not follow because they can't be right.", "sum(increase(setpoint_agent_answers_refused_total"+all+"[1h]))").red(1),
			stat("Late by, p99", unitSeconds, "How late evaluations begin. More than a period: the agent or what it reads is too slow.", quantiles("setpoint_agent_schedule_lag_seconds")[2].expr).red(15),

			row("Evaluations"),
			stacked("By outcome", unitRate, "Evaluations of objects, by what came of them.", rate("setpoint_agent_reconciles_total", "outcome")),
			graph("Counts written", unitRate, "By direction.", rate("setpoint_agent_scales_applied_total", "direction")),
			graph("Rival agents", unitNone, "Other agents that act on the same platform. More than 0: stop one.", gauge("setpoint_agent_rival_agents")),
			graph("Duration", unitSeconds, "From reading an object to writing its status.", quantiles("setpoint_agent_reconcile_duration_seconds")...),
			graph("p99 of the parts", unitSeconds, "Which part takes long: read (the platform and its metrics), ask (the service), apply, report, status.", p99("setpoint_agent_part_duration_seconds", "part")),
			graph("Lateness", unitSeconds, "Time between when an evaluation was due and when it began.", quantiles("setpoint_agent_schedule_lag_seconds")...),
			graph("From decision to written count", unitSeconds, "Time from the answer to the written count.", quantiles("setpoint_agent_decision_to_applied_seconds")...),
			graph("Objects", unitNone, "By source; shadow=true are only watched.", query{"sum by (source, shadow) (setpoint_agent_objects" + all + ")", "{{source}} shadow={{shadow}}"}),
			graph("Questions", unitRate, "Questions to the service, by transport.", rate("setpoint_agent_recommender_requests_total", "transport")),

			row("Shadow"),
			graph("Verdicts", unitRate, "Whether the count was that of the controller in charge.", rate("setpoint_agent_shadow_reconciles_total", "verdict")),
			graph("Objects that differ", unitNone, "Shadows whose present count is not that of the controller in charge.", sum("objects", "setpoint_agent_shadow_divergent_objects")),

			row("Leader (Kubernetes, Nomad with --nomad-lock)"),
			graph("Leading", unitNone, "1 for the agent that acts. Exactly one of a cluster's agents is to lead.", gauge("setpoint_agent_leading")),

			row("Kubernetes"),
			graph("Rivals", unitNone, "HorizontalPodAutoscalers that another controller acts on, too. More than 0: both fight.", sum("objects", "setpoint_agent_rival_objects")),
			graph("Statuses", unitRate, "What became of statuses; unchanged ones are not written.", rate("setpoint_agent_status_writes_total", "result")),
			graph("API requests", unitRate, "Requests to the API server.", rate("setpoint_agent_api_requests_total", "verb, resource")),
			graph("Failed reads", unitRate, "Reads of the cluster that failed, by API.", rate("setpoint_agent_reads_total", "call", `result="failed"`)),

			row("Metric sources (--sources-file)"),
			graph("Queries by outcome", unitRate, "Queries of metrics. Anything but ok leaves a metric without samples.", rate("setpoint_samples_queries_total", "outcome")).as(third),
			graph("p99 of requests", unitSeconds, "By source, waiting for their turn included.", p99("setpoint_samples_request_duration_seconds", "source")).as(third),
			graph("Shared", unitRate, "Queries that another query's request answered.", rate("setpoint_samples_shared_total", "source")).as(third),
		}, process()),
	}
}
