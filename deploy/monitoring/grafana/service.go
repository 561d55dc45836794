package main

// service is about the instances of `setpoint serve`.
func service() dashboard {
	all := chosen()
	// As in SetpointErrors.
	faults := "setpoint_requests_total" + chosen(`code=~"Internal|Unknown|DataLoss|Unavailable"`)
	late := "setpoint_requests_total" + chosen(`code="DeadlineExceeded"`, `method!~".*/(Stream.*|Watch.*|Simulate|ServerReflectionInfo)"`)
	return dashboard{
		uid: "setpoint-service", title: "Setpoint / Service",
		about:     "Calls, their durations, limits, credentials and files of setpoint serve.",
		variables: instances("setpoint_store_up"),
		panels: join([]panel{
			stat("Instances", unitNone, "Instances that answered the last scrape.", "count(setpoint_store_up"+all+")"),
			stat("Store", unitNone, "Whether every instance reaches the store of histories.", "min(setpoint_store_up"+all+")").below(1).named("away", "up"),
			stat("Calls a second", unitRate, "Calls over gRPC and REST.", "sum(rate(setpoint_requests_total"+all+"[$__rate_interval]))"),
			stat("Failed calls", unitShare, "Share of calls that failed for reasons of the service; each answer of a stream of recommendations counts as one. Red where SetpointErrors fires, which watches recommendations in batches and on streams, too: see All targets.",
				share([]string{faults, late}, []string{"setpoint_requests_total" + all, "setpoint_stream_messages_total" + chosen(`method=~".*/StreamRecommend"`, `direction="sent"`)})).red(0.01),
			stat("Refused by overload", unitRate, "Calls that were refused because the processors or --max-in-flight are used up. Those that other limits refuse are below.",
				"sum(rate(setpoint_calls_refused_total"+chosen(`limit=~"overload|global_in_flight"`)+"[$__rate_interval]))").red(0.001),
			stat("p99", unitSeconds, "99th percentile of recommendations in calls and on streams. Red where SetpointSlow fires.",
				"histogram_quantile(0.99, sum by (le) (rate(setpoint_request_duration_seconds_bucket"+chosen(`method=~".*/Recommend"`)+"[$__rate_interval]) or rate(setpoint_stream_message_duration_seconds_bucket"+all+"[$__rate_interval])))").red(0.25),

			row("Calls"),
			stacked("By method", unitRate, "Calls answered, by method.", rate("setpoint_requests_total", "method")),
			graph("By code, but OK", unitRate, "Calls that did not end with OK. NotFound and Aborted can be usual; see the table of codes in the documentation of the API.", rate("setpoint_requests_total", "code", `code!="OK"`)),
			graph("Duration", unitSeconds, "Duration of unary calls in the server.", quantiles("setpoint_request_duration_seconds")...),
			graph("p99 by method", unitSeconds, "Lists and large batches take longer than a recommendation.", p99("setpoint_request_duration_seconds", "method")),
			graph("REST by status", unitRate, "REST calls by HTTP status class, those that reached no method included.", rate("setpoint_rest_requests_total", "code")),
			graph("Requests on the slow path", unitRate, "Recommendation requests that cost more than they need to, by stage and reason.", rate("setpoint_requests_slow_path_total", "stage, reason")),
			graph("Streams", unitNone, "Open streams, by method.", query{"sum by (method) (setpoint_streams_open" + all + ")", "{{method}}"}),
			graph("Stream messages", unitRate, "Messages received and sent.", rate("setpoint_stream_messages_total", "direction")),

			row("Limits"),
			graph("In flight beside the limit", unitNone, "Calls in flight, and the present limit, which falls while the processors are saturated.",
				query{"sum by (instance) (setpoint_calls_in_flight" + all + ")", "{{instance}} in flight"},
				query{"sum by (instance) (setpoint_concurrency_limit" + all + ")", "{{instance}} limit"}),
			graph("Refused", unitRate, "Calls refused, by limit. overload: the processors are saturated; add instances.", rate("setpoint_calls_refused_total", "limit")),
			graph("Connections", unitNone, "Open connections of gRPC and REST.", gauge("setpoint_connections")),
			graph("Unfinished calls", unitNone, "Calls whose message has not arrived completely.", gauge("setpoint_calls_waiting")),

			row("Credentials and files"),
			graph("Failed authentications", unitRate, "By reason.", rate("setpoint_auth_failures_total", "reason")),
			graph("Files", unitNone, "Of files that are configured: 1 while the last reload succeeded. 0: the previous contents stay in force, and the log says why.",
				query{"min by (file) (setpoint_file_last_reload_successful" + all + ")", "{{file}}"}),
			graph("Certificates", unitSeconds, "Time until certificates expire, with TLS.",
				query{"min by (certificate) (setpoint_certificate_expiry_timestamp_seconds" + all + ") - time()", "{{certificate}}"}),
			graph("Issuers", unitSeconds, "Time since the keys of each issuer of --auth-oidc-file were last fetched. Keys are good for 24 hours.",
				query{"time() - min by (issuer) (setpoint_auth_issuer_last_fetch_success_timestamp_seconds" + all + ")", "{{issuer}}"}),
			graph("Clock", unitSeconds, "How far each instance's clock is ahead of the store's.", gauge("setpoint_clock_skew_seconds")),
			graph("Callers", unitNone, "Callers with rate limiter state.", gauge("setpoint_identities")),
		}, process()),
	}
}

// store is about where the histories are.
func store() dashboard {
	all := chosen()
	return dashboard{
		uid: "setpoint-store", title: "Setpoint / Store",
		about:     "The store of histories as the instances see it. Panels about Redis need --redis.",
		variables: instances("setpoint_store_up"),
		panels: []panel{
			stat("Store", unitNone, "Whether every instance reaches it.", "min(setpoint_store_up"+all+")").below(1).named("away", "up"),
			stat("Errors a second", unitRate, "Failed operations.", "sum(rate(setpoint_store_errors_total"+all+"[$__rate_interval]))").red(0.1),
			stat("Not yet written", unitNone, "Targets with decisions that wait for the store (--on-store-failure=hold-down).", "sum(setpoint_unwritten_targets"+all+")").red(1),
			stat("Cache hits", unitShare, "Share of decisions that found their history in the cache. Callers that change between instances lower it.",
				"sum(rate(setpoint_history_cache_hits_total"+all+"[$__rate_interval])) / (sum(rate(setpoint_history_cache_hits_total"+all+"[$__rate_interval])) + sum(rate(setpoint_history_cache_misses_total"+all+"[$__rate_interval])) > 0) or vector(1)"),
			stat("Open breakers", unitNone, "Redis nodes that are skipped for a while because they failed.", "sum(setpoint_redis_breakers_open"+all+")").red(1),
			stat("p99 of a swap", unitSeconds, "99th percentile of the conditional write, of which each recommendation waits for one.", quantiles("setpoint_store_operation_duration_seconds", `operation="swap"`)[2].expr).red(0.05),

			row("Operations"),
			graph("p99", unitSeconds, "99th percentile by operation, retries included.", p99("setpoint_store_operation_duration_seconds", "operation")),
			graph("Operations", unitRate, "By operation. In the steady state a recommendation is one swap.", rate("setpoint_store_operation_duration_seconds_count", "operation")),
			graph("Errors", unitRate, "Failed operations.", rate("setpoint_store_errors_total", "operation")),
			graph("Conflicts", unitRate, "Decisions repeated because another caller changed the history. Two agents for one target?", total("conflicts", "setpoint_store_conflicts_total")),
			graph("Without the store", unitRate, "Decisions made from the last known history while the store was away.", total("decisions", "setpoint_decisions_without_store_total")),
			graph("Histories over the limit", unitRate, "Decisions that may hold a count longer than Kubernetes would: raise --history-limit, or ask less often.", total("decisions", "setpoint_decisions_history_limited_total")),
			graph("Histories that went back", unitNone, "Histories that were older in the store than an instance knew, or gone, within an hour. SetpointStoreWentBack fires for any.",
				query{"sum(increase(setpoint_histories_went_back_total" + all + "[1h]))", "histories"}),

			row("Redis"),
			graph("Round trips", unitRate, "Commands and round trips. A batch is one round trip for each shard.",
				total("commands", "setpoint_redis_commands_total"), total("round trips", "setpoint_redis_round_trips_total")),
			graph("Connections", unitNone, "Open and idle connections.", sum("open", "setpoint_redis_connections"), sum("idle", "setpoint_redis_connections_idle")),
			graph("Trouble", unitRate, "Retries, failures after all retries, waits for a connection that timed out, and dials.",
				total("retries", "setpoint_redis_retries_total"), total("failures", "setpoint_redis_failures_total"),
				total("pool timeouts", "setpoint_redis_pool_timeouts_total"), total("dials", "setpoint_redis_dials_total")),
			graph("Breakers", unitNone, "Redis nodes whose circuit breaker is open.", gauge("setpoint_redis_breakers_open")),
			graph("Lost swaps", unitRate, "Swaps that another writer won.", total("conflicts", "setpoint_redis_conflicts_total")),
			graph("Expired targets", unitRate, "Expired targets removed from the index.", total("targets", "setpoint_redis_purged_total")),
		},
	}
}
