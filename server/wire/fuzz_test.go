package wire_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// FuzzDecode reads whatever bytes are as a request. What is taken the slow path takes
// too, and reads to the same; what comes of it is encoded as the slow path does.
func FuzzDecode(f *testing.F) {
	r := maker{newRandom(41)}
	md := (&setpointv1.RecommendRequest{}).ProtoReflect().Descriptor()
	for i := range 60 {
		req := r.request()
		if i%3 == 0 {
			req = podsRequest(1+i%2, i%2 == 0)
		}
		data := encode(f, req)
		if i%4 == 3 {
			data = mangle(r.Rand, data, md)
		}
		f.Add(data)
	}
	for _, explain := range []bool{false, true} {
		req := full()
		req.Explain = explain
		f.Add(encode(f, req))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		decoder := wire.NewDecoder(defaults)
		taken := new(soundness).check(t, decoder, slices.Clone(data), defaults)
		// Once more, with what is remembered.
		if new(soundness).check(t, decoder, slices.Clone(data), defaults) != taken {
			t.Error("taken one time only")
		}
		if !taken {
			return
		}
		_, in, _ := long(data, defaults)
		in.ID = recommender.ID{1}
		decision, _ := recommender.Recommend(t0, in, nil)
		checkAnswer(t, &decision, "")
	})
}

// FuzzSplit reads whatever bytes are as a batch and as a message of a stream.
func FuzzSplit(f *testing.F) {
	r := maker{newRandom(42)}
	for range 5 {
		f.Add(encode(f, &setpointv1.BatchRecommendRequest{Requests: []*setpointv1.RecommendRequest{{RequestId: "1"}, r.request()}}))
		f.Add(encode(f, &setpointv1.StreamRecommendRequest{Id: "1", Request: r.request()}))
	}
	same := func(t *testing.T, part []byte, req *setpointv1.RecommendRequest, err error) {
		other := &setpointv1.RecommendRequest{}
		// A request that is broken breaks what it is in; alone it is refused alone.
		if otherErr := proto.Unmarshal(part, other); (otherErr == nil) != (err == nil) && err == nil || err == nil && !proto.Equal(other, req) && req.String() != other.String() {
			t.Errorf("%q is another request: %v", part, otherErr)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if parts, ok := wire.BatchRequests(data, len(data)); ok {
			batch := &setpointv1.BatchRecommendRequest{}
			err := proto.Unmarshal(data, batch)
			if err == nil && len(parts) != len(batch.GetRequests()) {
				t.Fatalf("%d requests, want %d", len(parts), len(batch.GetRequests()))
			}
			for i, req := range batch.GetRequests() {
				same(t, parts[i], req, err)
			}
		}
		if id, part, ok := wire.StreamRequest(data); ok {
			message := &setpointv1.StreamRecommendRequest{}
			err := proto.Unmarshal(data, message)
			if err == nil && id != message.GetId() {
				t.Fatalf("id %q, want %q", id, message.GetId())
			}
			same(t, part, message.GetRequest(), err)
		}
	})
}
