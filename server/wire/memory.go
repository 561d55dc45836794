package wire

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// explainField is RecommendRequest.explain.
const explainField protowire.Number = 15

// Explains reports whether an encoded setpoint.v1.RecommendRequest requests an explanation.
// For an invalid message it reports false, as far as it can be read.
func Explains(data []byte) bool {
	tag := byte(protowire.EncodeTag(explainField, protowire.VarintType))
	if bytes.IndexByte(data, tag) < 0 && bytes.IndexByte(data, tag|0x80) < 0 { // a tag may be longer than it need be
		return false
	}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return false
		}
		if number == explainField && kind == protowire.VarintType {
			if on, length := protowire.ConsumeVarint(data[n:]); length > 0 && on != 0 {
				return true
			}
		}
		length := protowire.ConsumeFieldValue(number, kind, data[n:])
		if length < 0 {
			return false
		}
		data = data[n+length:]
	}
	return false
}

// Memory returns the memory of the request's parts, in bytes, including what is kept for
// the next one.
func (r *Request) Memory() int {
	return room(r.pods) + room(r.containers) + room(r.inits) + room(r.requests) + room(r.overheads) +
		room(r.podMetrics) + room(r.samples) + room(r.usages)
}
