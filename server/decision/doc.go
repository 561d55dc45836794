// Package decision turns requests into recorded answers: it reads a request, takes the target's
// record from the cache or loads it, decides (package recommender), swaps, and after a lost race
// decides again on the stored record. The same loop settles reports, serves batches and writes
// back decisions that were made while the store was away.
//
//	targets := decision.New(engine, &options, counters, health, life)
//	targets.ReadEncoded(ctx, caller, &job, data, ticket, &pass)
//	targets.Recommend(ctx, &job)
//	targets.Answered(ctx, &job)
//	out = job.Encode(out)
//
// It knows no transport: packages services and rest bring messages over gRPC and REST.
package decision
