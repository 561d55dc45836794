// Package recommender decides how many replicas a workload should have, exactly as the
// HorizontalPodAutoscaler controller of Kubernetes does.
//
// It is a pure function: the same input, history and instant give the same decision and the same
// next history. It reads no clock, does no I/O, keeps no state and does not change its arguments.
//
// The example of [Recommend] decides, reports with [Settle] that the decision was applied, and decides again.
//
// A History belongs to one target. It contains what later decisions depend on: recommendations (for
// stabilization windows), scale events (for the periods of scaling policies), the status, and a
// change that is not yet known to be applied. Package encoding serializes it.
//
// [History.Outlook] tells what comes next if the load stays as it is, and what a decision can come to
// now: it makes those decisions. [History.Retrace] explains the last decision from what the history
// has of it.
//
// The steps of a decision, one file each: requests of pods (requests.go), grouping of pods
// (pods.go), one metric's proposal (perpod.go, total.go, metric.go), several metrics (select.go),
// stabilization (stabilize.go), rate limits (ratelimit.go) and the reconciliation around them
// (reconcile.go). Each returns the numbers it computed with; together they are the Explanation.
//
// Upstream keeps its history in memory. A history in a store may be unreachable: Input.HoldDown
// then withholds scale-downs (holddown.go), and Merge combines two histories that diverged during
// an outage (merge.go).
//
// It does not validate (a spec that the Kubernetes API would refuse is decided as the controller
// would decide it), read metrics, or apply decisions.
//
// The source of every rule is the controller of Kubernetes v1.36, pkg/controller/podautoscaler. The
// one intended difference: a floating-point number out of an integer's range saturates on every
// platform, where upstream's result depends on the processor.
package recommender
