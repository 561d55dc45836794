// Package wire is the short way between encoded messages and the recommender:
// RecommendRequests become recommender.Inputs, and decisions become
// RecommendResponses, without protobuf messages in between.
//
// The long way (proto.Unmarshal, package validation, package conversion) is the
// one definition of what a request means and which requests are refused. What
// this package takes yields the Input that the long way yields, which would not refuse it;
// whatever is out of the ordinary it does not take, and says so by a false ok, so
// that the long way reads it or words the refusal. It never refuses by itself.
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
//	answer, ok := wire.AppendResponse(nil, &decision)
//	request.Release()
//
// What is of every pod and every reading is read by code of this package. All
// else of a request, above all its spec, is much the same in each request of a
// workload: the long way reads it once, and what came of it is kept.
//
// The field numbers here are those of proto/setpoint/v1; a test holds this
// package's rules against those of the .proto files.
package wire
