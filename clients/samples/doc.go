// Package samples reads metrics where no metrics API is: it asks sources (Prometheus, JSON over
// HTTP, Redis) and answers with what a RecommendRequest holds, samples or the metric's error.
//
// The operator writes the sources, with addresses and credentials; who owns a workload
// writes queries, which name a source. So no query sends a credential to another place:
//
//	config, err := samples.ParseConfig(file)          // sources: {prom: {prometheus: {url: …}}}
//	set, err := samples.New(config, samples.Options{Registerer: registry})
//	defer set.Close()
//
//	query, err := samples.ParseQuery(map[string]any{  // labels, or a block of a policy
//		"source": "prom", "query": `sum(rate(http_requests_total{app="web"}[1m]))`,
//	})
//	metrics := []samples.Metric{{Spec: spec.Metrics[0], Query: query}}
//	err = set.Check(metrics)                          // what is wrong, before anything is asked
//	readings := set.Read(ctx, metrics, pods)
//	request.ExternalMetrics, request.MetricErrors = readings.ExternalMetrics, readings.MetricErrors
//
// # What becomes of an answer
//
// A metric is read, or it has an error: nothing that failed counts as zero. As with the
// HorizontalPodAutoscaler a metric with an error can't scale down, and alone holds the
// count. These are errors, too:
//
//   - an empty result, unless the query says emptyIsZero;
//   - infinite values, values beyond ±9223372036854775807 thousandths, which the controller's
//     arithmetic can't hold, and negative ones unless the query says allowNegative: the
//     controller takes a negative sum for an overflow and scales to the maximum;
//   - NaN, which 0/0 comes to; but a pod whose value is NaN is a pod without a sample, which
//     the controller counts against the direction;
//   - two values for one pod, and several for an Object metric.
//
// The series of an External metric are summed by the service, as those of
// external.metrics.k8s.io are. A selector of the metric keeps the series whose labels match
// it. Values of pods that are not the workload's are dropped.
//
// Floating-point numbers become quantities as in prometheus-adapter: times 1000, the rest cut
// off (1.0019 is 1001m). What a source writes as decimal text stays exact.
//
// # What a source costs
//
// Equal queries are asked once while the answer is under way, and it is used again while it is
// young (reuse). At most some requests are under way at a source (concurrency); waiting
// counts towards the timeout, so that a slow source takes no reconcile more than one timeout.
// Answers are bounded in bytes and series. Redirects to another origin are not followed.
// Files with credentials and certificates are read again when they change.
//
// The package does not know any platform, spec or loop, and it decides nothing.
package samples
