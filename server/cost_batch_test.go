package server_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// A history is a hundred times as long as a later request. In a batch for one target each
// request decides on the history that the previous one left, without decoding it again,
// whether it is a dry run or recorded. Allocations show that on any machine.
func TestABatchForOneTargetReadsItsHistoryOnce(t *testing.T) {
	measures(t)
	s := servertest.Start(t)
	const n = 1000
	batch := func(changes ...func(*setpointv1.RecommendRequest)) []byte {
		var batch []byte
		for range n {
			req := servertest.With(servertest.Queue(servertest.Web, 3, 50), append(changes, func(req *setpointv1.RecommendRequest) {
				req.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(3600))
			})...)
			batch = protowire.AppendTag(batch, 1, protowire.BytesType)
			batch = protowire.AppendBytes(batch, servertest.Unusual(servertest.Encoded(t, req)))
		}
		return batch
	}
	send := func(data []byte) {
		answer, err := s.SendRaw(t.Context(), servertest.BatchedMethod, data)
		fatal.If(t, err)
		resp := &setpointv1.BatchRecommendResponse{}
		if err := proto.Unmarshal(answer, resp); err != nil || len(resp.GetResults()) != n || resp.GetResults()[n-1].GetError() != nil {
			t.Fatalf("%d results, %v: %v", len(resp.GetResults()), err, resp.GetResults()[n-1])
		}
	}
	recorded, dry := batch(), batch(servertest.DryRun)
	for range 2 {
		send(recorded) // few enough for all to be kept
	}
	kept := uint64(len(s.Target(t, servertest.Web).GetHistory().GetRecommendations()))
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
