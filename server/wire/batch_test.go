package wire_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// The requests of a batch are those of the message.
func TestBatchRequests(t *testing.T) {
	t.Parallel()
	r := maker{newRandom(21)}
	for n := range 6 {
		batch := &setpointv1.BatchRecommendRequest{}
		var want [][]byte
		for range n {
			req := r.request()
			batch.Requests = append(batch.Requests, req)
			want = append(want, encode(t, req))
		}
		if n == 5 {
			batch.Requests[2], want[2] = &setpointv1.RecommendRequest{}, nil
		}
		got, ok := wire.BatchRequests(encode(t, batch), 5)
		if !ok || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("a batch of %d is split into %q, %t", n, got, ok)
		}
	}
	if got, ok := wire.BatchRequests(bytes.Repeat([]byte{0x0a, 0}, 1000), 10); !ok || len(got) != 11 {
		t.Errorf("of 1000 requests %d are found, want one more than the 10 that there may be", len(got))
	}
	for _, data := range []string{"\x0a", "\x0a\x02a", "\x08\x01", "\x12\x00", "\x0a\x00\x12\x00", "\x0b\x0c", "\x0a\x80\x80\x80\x80\x80\x00"} {
		if got, ok := wire.BatchRequests([]byte(data), 5); ok || len(got) > 0 {
			t.Errorf("%q is split into %q", data, got)
		}
	}
}

// A stream's message is taken where the service would answer its request.
func TestStreamRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		id    string
		req   *setpointv1.RecommendRequest
		taken bool
	}{
		{"1", podsRequest(1, true), true}, {strings.Repeat("x", 128), &setpointv1.RecommendRequest{}, true},
		{"", podsRequest(1, true), false}, {strings.Repeat("x", 129), podsRequest(1, true), false}, {"1", nil, false},
	} {
		id, request, ok := wire.StreamRequest(encode(t, &setpointv1.StreamRecommendRequest{Id: tt.id, Request: tt.req}))
		if ok != tt.taken || ok && (id != tt.id || !bytes.Equal(request, encode(t, tt.req))) {
			t.Errorf("id %q: %q, %q, %t", tt.id, id, request, ok)
		}
	}
	for _, data := range []string{"\x0a\x011", "\x12\x00", "\x0a\x01\xff\x12\x00", "\x0a\x011\x12\x00\x12\x00", "\x0a\x011\x0a\x011\x12\x00", "\x0a\x011\x12\x00\x1a\x00", "\x0a\x011\x12\x00\x18\x01", "\x0a\x011\x12\x05"} {
		if _, _, ok := wire.StreamRequest([]byte(data)); ok {
			t.Errorf("%q is taken", data)
		}
	}
}

// Answers and errors that are encoded are put where they belong.
func TestEncodedResults(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 100, 130, 20000} {
		response := &setpointv1.RecommendResponse{Reason: strings.Repeat("x", size)}
		failure := &status.Status{Message: strings.Repeat("y", size)}
		batch := wire.AppendBatchResponse(nil, encode(t, response))
		batch = wire.AppendBatchError(batch, encode(t, failure))
		want := &setpointv1.BatchRecommendResponse{Results: []*setpointv1.BatchRecommendResult{
			{Result: &setpointv1.BatchRecommendResult_Response{Response: response}},
			{Result: &setpointv1.BatchRecommendResult_Error{Error: failure}},
		}}
		sameEncoding(t, batch, want)
		for _, id := range []string{"", "1"} {
			sameEncoding(t, wire.AppendStreamResponse(nil, id, encode(t, response)), &setpointv1.StreamRecommendResponse{
				Id: id, Result: &setpointv1.StreamRecommendResponse_Response{Response: response},
			})
			sameEncoding(t, wire.AppendStreamError(nil, id, encode(t, failure)), &setpointv1.StreamRecommendResponse{
				Id: id, Result: &setpointv1.StreamRecommendResponse_Error{Error: failure},
			})
		}
	}
}

func sameEncoding(t *testing.T, got []byte, want proto.Message) {
	t.Helper()
	if !bytes.Equal(got, encode(t, want)) {
		t.Errorf("%T is encoded as %.200q, want %.200q", want, got, encode(t, want))
	}
}
