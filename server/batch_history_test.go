package server_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// longWindow makes a target keep recommendations for an hour.
func longWindow(req *setpointv1.RecommendRequest) {
	req.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(3600))
}

// A history is a hundred times as long as a later request. In a batch for one target each
// request decides on the history that the previous one left, without decoding it again,
// whether it is a dry run or recorded. Allocations show that on any machine.
func TestABatchForOneTargetReadsItsHistoryOnce(t *testing.T) {
	measures(t)
	s := start(t)
	const n = 1000
	batch := func(changes ...func(*setpointv1.RecommendRequest)) []byte {
		var batch []byte
		for range n {
			req := with(queue(web, 3, 50), append(changes, longWindow)...)
			batch = protowire.AppendTag(batch, 1, protowire.BytesType)
			batch = protowire.AppendBytes(batch, unusual(encoded(t, req)))
		}
		return batch
	}
	send := func(data []byte) {
		answer, err := s.sendRaw(t.Context(), batchedMethod, data)
		if err != nil {
			t.Fatal(err)
		}
		resp := &setpointv1.BatchRecommendResponse{}
		if err := proto.Unmarshal(answer, resp); err != nil || len(resp.GetResults()) != n || resp.GetResults()[n-1].GetError() != nil {
			t.Fatalf("%d results, %v: %v", len(resp.GetResults()), err, resp.GetResults()[n-1])
		}
	}
	recorded, dry := batch(), batch(dryRun)
	for range 2 {
		send(recorded) // few enough for all to be kept
	}
	kept := uint64(len(s.target(t, web).GetHistory().GetRecommendations()))
	if kept < 2*n {
		t.Fatalf("only %d recommendations are kept: this tests nothing", kept)
	}
	// The engine builds one list of the previous recommendations and its own, of 16 bytes
	// each. Decoding them would be another. The rest is the request itself, and its response
	// in this test.
	for _, c := range []struct {
		name string
		data []byte
		list uint64
	}{{"dry runs", dry, kept}, {"recorded", recorded, kept + n}} {
		allocated, _ := spentBy(func() { send(c.data) })
		if each, most := allocated/n, 16*c.list*3/2+16<<10; each > most {
			t.Errorf("%s: a request allocates %d bytes, want %d at most where %d recommendations are kept", c.name, each, most, kept)
		}
	}
}

// Requests of a batch decide as if they had come one by one.
func TestABatchForOneTargetDecidesAsOneByOne(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	var requests []*setpointv1.RecommendRequest
	for i := range 60 {
		req := with(queue(web, int32(1+random.IntN(20)), 1), longWindow, func(req *setpointv1.RecommendRequest) {
			req.ExternalMetrics[0].Value = fmt.Sprint(random.IntN(300))
			req.DryRun = random.IntN(3) == 0
			req.EvaluationTime = timestampOf(t0.Add(time.Duration(i) * time.Second))
			if random.IntN(4) == 0 {
				req.RequestId = fmt.Sprint("r", random.IntN(8))
			}
			if random.IntN(4) == 0 { // texts that are kept cut
				name := fmt.Sprintf("%0600d", i)
				req.Spec.Metrics[0].External.Metric.Name, req.ExternalMetrics[0].Metric.Name = name, name
			}
		})
		requests = append(requests, req)
	}
	together, apart := start(t), start(t)
	for i, result := range together.batch(t, requests...) {
		want := apart.recommend(t, requests[i])
		if result.GetError() != nil {
			t.Fatalf("request %d: %s", i, result.GetError().GetMessage())
		}
		sameMessage(t, withoutID(result.GetResponse()), withoutID(want))
	}
	history := func(s *service) *setpointv1.History {
		h := s.target(t, web).GetHistory()
		if h.GetPending() != nil {
			h.Pending.RecommendationId = "" // which is random
		}
		return h
	}
	if got := history(together); len(got.GetRecommendations()) < 20 {
		t.Errorf("only %d recommendations were kept: this tests nothing", len(got.GetRecommendations()))
	}
	sameMessage(t, history(together), history(apart))
}
