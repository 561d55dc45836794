// Package decision turns requests into recorded decisions: it reads a request, takes the
// target's record from the cache or loads it, decides (package recommender), swaps, and after a
// lost race decides again on the stored record. The same loop settles reports, serves batches
// and writes back decisions that were made while the store was unreachable.
//
//	targets := decision.New(engine, &options, counters, health, life)
//	targets.ReadEncoded(ctx, caller, &job, data, ticket, &pass)
//	targets.Recommend(ctx, &job)
//	targets.Answered(ctx, &job)
//	out = job.Encode(out)
//
// It does not depend on a transport: packages services and rest handle gRPC and REST.
package decision
