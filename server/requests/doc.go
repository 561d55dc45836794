// Package requests reads requests for recommendations, and encodes their answers. It is where a
// request's caller, its rights and options, and what reading may cost are known: what it passes on to
// package decision is permitted, and has its price.
//
//	r := requests.New(targets, &settings, counters)
//	j := requests.Lend()
//	defer j.GiveBack()
//	r.Read(ctx, caller, j, data, ticket, &pass)
//	targets.Recommend(ctx, &j.Job)
//	r.Answered(ctx, j)
//	out = j.Encode(out)
//
// It does not depend on a transport: packages services and rest handle gRPC and REST.
package requests
