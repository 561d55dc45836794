// Package decision makes recorded decisions: from a request it takes the target's record from the
// cache or loads it, decides (package recommender), swaps, and after a lost race decides again on the
// stored record. The same loop settles reports, serves batches and writes back decisions that were
// made while the store was unreachable.
//
//	targets := decision.New(engine, &options, ready, life)
//	targets.Recommend(ctx, &job) // with its Request; the Outcome is in it then
//
// It knows no caller, and nothing of what a request may cost: package requests reads requests.
package decision
