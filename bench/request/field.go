package request

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// target returns the target of an encoded request, its first field.
func target(request []byte) []byte {
	_, _, tag := protowire.ConsumeTag(request)
	name, _ := protowire.ConsumeBytes(request[tag:])
	return name
}

func appendInt(to []byte, n int) []byte { return strconv.AppendInt(to, int64(n), 10) }

// errorField is BatchRecommendResult.error. In a stream's response the number is one
// higher, because the id comes first.
const errorField = 2

// Refused returns how many results of an encoded BatchRecommendResponse are errors, and
// their total number.
func Refused(answer []byte) (refused, results int) {
	for len(answer) > 0 {
		_, _, tag := protowire.ConsumeTag(answer)
		if tag < 0 {
			return refused, results
		}
		result, n := protowire.ConsumeBytes(answer[tag:])
		if n < 0 {
			return refused, results
		}
		answer = answer[tag+n:]
		results++
		if number, _, _ := protowire.ConsumeTag(result); number == errorField {
			refused++
		}
	}
	return refused, results
}

// Answered returns the id in an encoded StreamRecommendResponse, and whether the result
// is an error.
func Answered(answer []byte) (id []byte, refused bool) {
	_, _, tag := protowire.ConsumeTag(answer)
	if tag < 0 {
		return nil, true
	}
	id, n := protowire.ConsumeBytes(answer[tag:])
	if n < 0 {
		return nil, true
	}
	number, _, _ := protowire.ConsumeTag(answer[tag+n:])
	return id, number != errorField
}
