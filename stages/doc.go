// Package stages is what surrounds the engine's decision where HPA has nothing: overrides, honest
// failures, schedules, zero, guards, proposals of the caller, other ways to combine metrics.
//
//	var kept stages.Kept // one for each target
//	…
//	plan := &stages.Plan{WindowThroughFailures: true}
//	around := stages.Around{Plan: plan, Overrides: inForce}
//	decision, next := kept.Recommend(around, now, input, &history)
//
// Each stage is an edit of what the engine reads, or of one of the two values that it hands over
// (recommender.Seam): the proposals of the metrics, and the count. Everything is pure in the request, the
// record, the overrides and the instant. The order is that of [Around.RecommendIn].
package stages
