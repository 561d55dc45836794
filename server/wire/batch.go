package wire

import (
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Tags of the messages that requests come in.
const (
	batchRequests = 1<<3 | isBytes
	streamID      = 1<<3 | isBytes
	streamRequest = 2<<3 | isBytes
)

// BatchRequests returns the encoded requests of an encoded BatchRecommendRequest, as parts of
// it. If there are more than most it returns one more and leaves the rest unread. ok is
// false for a batch that is to be read the long way.
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

// maxStreamID bounds the ids of a stream's requests, characters.
const maxStreamID = 128

// StreamRequest finds the encoded request in an encoded StreamRecommendRequest, of
// which it is a part, and its id. ok is false for a message that is to be read the
// long way, as is one whose request turns out to be no message at all.
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

// AppendBatchDecision appends a result of a BatchRecommendResponse, the answer of a
// decision, as AppendResponse does. An encoded BatchRecommendResponse is its results
// one after the other.
func AppendBatchDecision(b []byte, d *recommender.Decision) (out []byte, ok bool) {
	w := writer{b: b}
	result := w.open(1)
	response := w.open(batchResponse)
	w.response(d)
	w.close(response)
	w.close(result)
	return w.end(b)
}

// AppendBatchResponse appends a result with a RecommendResponse that is encoded.
func AppendBatchResponse(b, response []byte) []byte {
	b = appendHead(b, 1, headSize(len(response))+len(response))
	return appendField(b, batchResponse, response)
}

// AppendBatchError appends a result with a google.rpc.Status that is encoded.
func AppendBatchError(b, status []byte) []byte {
	b = appendHead(b, 1, headSize(len(status))+len(status))
	return appendField(b, batchError, status)
}

// AppendStreamDecision appends the fields of a StreamRecommendResponse, the answer
// of a decision, as AppendResponse does.
func AppendStreamDecision(b []byte, id string, d *recommender.Decision) (out []byte, ok bool) {
	w := writer{b: b}
	w.string(1, id)
	response := w.open(streamResponse)
	w.response(d)
	w.close(response)
	return w.end(b)
}

// AppendStreamResponse appends the fields of a StreamRecommendResponse with a
// RecommendResponse that is encoded.
func AppendStreamResponse(b []byte, id string, response []byte) []byte {
	return appendField(appendID(b, id), streamResponse, response)
}

// AppendStreamError appends the fields of a StreamRecommendResponse with a
// google.rpc.Status that is encoded.
func AppendStreamError(b []byte, id string, status []byte) []byte {
	return appendField(appendID(b, id), streamError, status)
}

func appendID(b []byte, id string) []byte {
	if id == "" {
		return b
	}
	return append(appendHead(b, 1, len(id)), id...)
}
