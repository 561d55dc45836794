package wire

import (
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Tags of the messages around requests.
const (
	batchRequests = 1<<3 | isBytes
	streamID      = 1<<3 | isBytes
	streamRequest = 2<<3 | isBytes
)

// BatchRequests returns the encoded requests of an encoded BatchRecommendRequest, as slices
// of it. If there are more than most, it returns one more and leaves the rest unread. ok is
// false for a batch that needs the slow path.
func BatchRequests(data []byte, most int) (requests [][]byte, ok bool) {
	for i := 0; i < len(data) && len(requests) <= most; {
		tag, from, to := next(data, i, len(data))
		if to == 0 || tag != batchRequests {
			return nil, false
		}
		requests = append(requests, data[from:to:to])
		i = to
	}
	return requests, true
}

// maxStreamID limits the ids of a stream's requests, in characters.
const maxStreamID = 128

// StreamRequest returns the encoded request in an encoded StreamRecommendRequest, as a
// slice of it, and its id. ok is false for a message that needs the slow path, for
// example because its request is not a message.
func StreamRequest(data []byte) (id string, request []byte, ok bool) {
	var seen fields
	for i := 0; i < len(data); {
		tag, from, to := next(data, i, len(data))
		switch {
		case to == 0:
			return "", nil, false
		case tag == streamID && seen.first(1) && isText(data[from:to]):
			id = string(data[from:to])
		case tag == streamRequest && seen.first(2):
			request = data[from:to:to]
		default:
			return "", nil, false
		}
		i = to
	}
	if id == "" || utf8.RuneCountInString(id) > maxStreamID || !seen.has(2) {
		return "", nil, false
	}
	return id, request, true
}

// Fields of a BatchRecommendResult and of a StreamRecommendResponse.
const (
	batchResponse  = 1
	batchError     = 2
	streamResponse = 2
	streamError    = 3
)

// AppendBatchDecision appends a result of a BatchRecommendResponse with a decision, as
// AppendResponse does. An encoded BatchRecommendResponse is the concatenation of its
// results.
func AppendBatchDecision(b []byte, d *recommender.Decision, requestID string) (out []byte, ok bool) {
	w := writer{b: b}
	result := w.open(1)
	response := w.open(batchResponse)
	w.response(d, requestID)
	w.close(response)
	w.close(result)
	return w.end(b)
}

// AppendBatchResponse appends a result with an encoded RecommendResponse.
func AppendBatchResponse(b, response []byte) []byte {
	b = appendHead(b, 1, headSize(len(response))+len(response))
	return appendField(b, batchResponse, response)
}

// AppendBatchError appends a result with an encoded google.rpc.Status.
func AppendBatchError(b, status []byte) []byte {
	b = appendHead(b, 1, headSize(len(status))+len(status))
	return appendField(b, batchError, status)
}

// AppendStreamDecision appends the fields of a StreamRecommendResponse with a decision,
// as AppendResponse does.
func AppendStreamDecision(b []byte, id string, d *recommender.Decision, requestID string) (out []byte, ok bool) {
	w := writer{b: b}
	w.string(1, id)
	response := w.open(streamResponse)
	w.response(d, requestID)
	w.close(response)
	return w.end(b)
}

// AppendStreamResponse appends the fields of a StreamRecommendResponse with an encoded
// RecommendResponse.
func AppendStreamResponse(b []byte, id string, response []byte) []byte {
	return appendField(appendID(b, id), streamResponse, response)
}

// AppendStreamError appends the fields of a StreamRecommendResponse with an encoded
// google.rpc.Status.
func AppendStreamError(b []byte, id string, status []byte) []byte {
	return appendField(appendID(b, id), streamError, status)
}

func appendID(b []byte, id string) []byte {
	if id == "" {
		return b
	}
	return append(appendHead(b, 1, len(id)), id...)
}
