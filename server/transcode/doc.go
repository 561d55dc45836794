// Package transcode is the short way between JSON and encoded protobuf messages:
// neither direction makes a message in between.
//
//	request := transcode.Of((*setpointv1.RecommendRequest)(nil).ProtoReflect().Descriptor())
//	...
//	encoded, ok := request.AppendWire(buffer[:0], body)
//	if !ok {
//		... // restjson.Unmarshal, proto.Marshal
//	}
//
// The long way (package restjson) is the one definition of what a text means, of
// which texts are refused, and of how answers are written. What this package takes
// it reads to an equal message, or writes to the very same bytes; whatever is out
// of the ordinary it does not take, and says so by a false ok. It never refuses by
// itself.
//
// Not taken are, of JSON: names as they stand in the .proto files, names with
// escapes, surrogates, null, integers with a fraction or an exponent, maps of more
// than 64 entries. Of encoded messages: fields out of order, twice or unknown,
// numbers at which JSON has none. Of either: fields of a kind that the API does not
// use (enums, bytes, float and unsigned numbers, lists of numbers, Any and the other
// well-known types but Timestamp and Duration), unless they are absent.
package transcode
