// Package transcode converts between JSON and encoded protobuf messages directly, without
// creating messages in between.
//
//	request := transcode.Of((*setpointv1.RecommendRequest)(nil).ProtoReflect().Descriptor())
//	...
//	encoded, ok := request.AppendWire(buffer[:0], body)
//	if !ok {
//		... // restjson.Unmarshal, proto.Marshal
//	}
//
// Package restjson, the slow path, defines what a text means, which texts are refused, and
// how responses are written. This package converts usual texts to an equal message, and usual
// messages to the very same bytes; for anything unusual it returns a false ok, and the caller
// must take the slow path. It never refuses by itself.
//
// Unusual in JSON are: names as in the .proto files, names with escapes, surrogates, null,
// integers with a fraction or an exponent, maps of more than 64 entries. In encoded messages:
// fields out of order, duplicate or unknown, numbers that JSON lacks. In both: fields of a
// kind that the API does not use (enums, bytes, float and unsigned numbers, lists of numbers,
// Any and the other well-known types but Timestamp and Duration), unless they are absent.
package transcode
