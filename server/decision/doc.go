// Package decision is the way from a request to an answer that is recorded: read it, take what
// is remembered of its target's record or load it, decide (package recommender), swap, and on
// a lost race decide again on what stands in the store. The same rounds settle reports, serve
// batches and write back what was decided while the store was away.
//
//	targets := decision.New(engine, &options, counters, health, life)
//	targets.ReadEncoded(ctx, caller, &job, data, ticket, &pass)
//	targets.Recommend(ctx, &job)
//	targets.Answered(ctx, &job)
//	out = job.Encode(out)
//
// It knows no transport: package server brings messages over gRPC and REST.
package decision
