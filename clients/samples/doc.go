// Package samples reads metrics for platforms without a metrics API: it queries sources
// (Prometheus, JSON over HTTP, Redis) and returns the samples and metric errors of a
// RecommendRequest.
//
// The operator configures the sources, with addresses and credentials. The owner of a workload
// writes queries, which name a source, so that no query can send a credential elsewhere:
//
//	config, err := samples.ParseConfig(file)          // sources: {prom: {prometheus: {url: …}}}
//	set, err := samples.New(config, samples.Options{Registerer: registry})
//	defer set.Close()
//
//	query := samples.Query{Source: "prom", Query: `sum(rate(http_requests_total{app="web"}[1m]))`}
//	metrics := []samples.Metric{{Spec: spec.Metrics[0], Query: query}}
//	err = set.Check(metrics)                          // the problems, without any request
//	readings := set.Read(ctx, metrics, pods)
//	request.ExternalMetrics, request.MetricErrors = readings.ExternalMetrics, readings.MetricErrors
//
// # Answers
//
// A metric has values or an error; no failure counts as zero. As with the
// HorizontalPodAutoscaler a metric with an error prevents scaling down, and the only metric of a
// spec holds the count. These are errors, too:
//
//   - an empty result, unless the query says emptyIsZero;
//   - infinite values, values beyond ±9223372036854775807 thousandths, which the controller's
//     arithmetic can't hold, and negative ones unless the query says allowNegative: the
//     controller takes a negative sum for an overflow and scales to the maximum;
//   - NaN, the result of 0/0; but a pod with a value of NaN is a pod without a sample, which
//     the controller counts against the direction;
//   - two values for one pod, and several for an Object metric.
//
// The series of an External metric are summed by the service, as those of
// external.metrics.k8s.io are. A selector of the metric keeps the series whose labels match
// it. Values of pods that are not the workload's are dropped.
//
// Floating-point numbers become quantities as in prometheus-adapter: times 1000, the rest cut
// off (1.0019 is 1001m). Decimal texts of a source stay exact.
//
// # Load on sources
//
// Equal queries share one request and its answer, while it is young (reuse). The number of
// concurrent requests to a source is bounded (concurrency); waiting counts towards the timeout,
// so that a slow source delays a reconcile by at most one timeout.
// Answers are bounded in bytes and series. Redirects to another origin are not followed.
// Files with credentials and certificates are reloaded when they change.
//
// The package is independent of platforms and the loop, and decides nothing. Each kind of source has
// a package below it (prometheus, httpjson, redis), on top of source, which has queries, values and
// failures, and of httpapi, which sends requests.
package samples
