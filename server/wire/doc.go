// Package wire is the fast path between encoded messages and the recommender:
// RecommendRequests become recommender.Inputs, and decisions become RecommendResponses,
// without protobuf messages in between.
//
// The slow path (proto.Unmarshal, package validation, package conversion) defines what a
// request means and which requests are refused. For usual requests this package returns
// the same Input as the slow path, which would not refuse them; for anything unusual it
// returns a false ok, and the slow path reads the request or words the refusal. It never
// refuses by itself.
//
//	decoder := wire.NewDecoder(options)
//	...
//	request, ok := decoder.Decode(data, nil)
//	if !ok {
//		... // proto.Unmarshal, validation, conversion
//	}
//	request.Input.ID = id
//	if !history.Seen {
//		request.Seed()
//	}
//	decision, next := recommender.Recommend(now, &request.Input, &history)
//	answer, ok := wire.AppendResponse(nil, &decision, request.RequestID)
//	request.Release()
//
// This package reads pods and readings itself. The rest of a request, above all its spec,
// is nearly the same in each request of a workload: the slow path reads it once, and the
// result is cached.
//
// The field numbers here are those of proto/setpoint/v1; a test compares this package's
// rules with those of the .proto files.
package wire
