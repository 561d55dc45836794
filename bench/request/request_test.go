package request_test

import (
	"testing"
	"time"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/bench/request"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func newSet(t *testing.T, targets int, bodies bool) *request.Set {
	t.Helper()
	set, err := request.NewSet(0, targets, 10, bodies)
	fatal.If(t, err)
	return set
}

func decode(t *testing.T, data []byte, into proto.Message) {
	t.Helper()
	fatal.If(t, proto.Unmarshal(data, into))
}

func TestTargetsAreAskedForEachPeriod(t *testing.T) {
	t.Parallel()
	part := newSet(t, 3, false).Part(0, 1)
	asked := map[string]time.Time{}
	for n := range 9 {
		req := &setpointv1.RecommendRequest{}
		decode(t, part.Append(nil), req)
		if want := request.Name(n % 3); req.GetTarget() != want {
			t.Fatalf("request %d is for %s, want %s", n, req.GetTarget(), want)
		}
		at := req.GetEvaluationTime().AsTime()
		if before, again := asked[req.GetTarget()]; again && at.Sub(before) != 15*time.Second {
			t.Errorf("request %d comes %v after the one before for its target, want 15 s", n, at.Sub(before))
		}
		asked[req.GetTarget()] = at
		if at.After(time.Now()) || len(req.GetPods()) != 10 || len(req.GetPodMetrics()) != 10 {
			t.Errorf("request %d is for %v, with %d pods and %d samples", n, at, len(req.GetPods()), len(req.GetPodMetrics()))
		}
	}
}

func TestNoTwoRequestsAreAlike(t *testing.T) {
	t.Parallel()
	part := newSet(t, 2, false).Part(0, 1)
	a, b := &setpointv1.RecommendRequest{}, &setpointv1.RecommendRequest{}
	decode(t, part.Append(nil), a)
	decode(t, part.Append(nil), b)
	if proto.Equal(a.GetSpec(), b.GetSpec()) || a.GetPods()[0].GetName() == b.GetPods()[0].GetName() ||
		proto.Equal(a.GetPodMetrics()[0].GetContainers()[0], b.GetPodMetrics()[0].GetContainers()[0]) {
		t.Error("two targets share a spec, a pod's name or a sample")
	}
}

func TestAnswersAreLookedAt(t *testing.T) {
	t.Parallel()
	refusal := &rpcstatus.Status{Code: 3, Message: "no"}
	batch, err := proto.Marshal(&setpointv1.BatchRecommendResponse{Results: []*setpointv1.BatchRecommendResult{
		{Result: &setpointv1.BatchRecommendResult_Response{Response: &setpointv1.RecommendResponse{DesiredReplicas: 3}}},
		{Result: &setpointv1.BatchRecommendResult_Error{Error: refusal}},
	}})
	fatal.If(t, err)
	if refused, results := request.Refused(batch); refused != 1 || results != 2 {
		t.Errorf("%d of %d refused, want 1 of 2", refused, results)
	}
	for want, result := range map[bool]*setpointv1.StreamRecommendResponse{
		false: {Id: "5", Result: &setpointv1.StreamRecommendResponse_Response{Response: &setpointv1.RecommendResponse{}}},
		true:  {Id: "5", Result: &setpointv1.StreamRecommendResponse_Error{Error: refusal}},
	} {
		data, err := proto.Marshal(result)
		fatal.If(t, err)
		if id, refused := request.Answered(data); string(id) != "5" || refused != want {
			t.Errorf("id %q, refused %v; want 5 and %v", id, refused, want)
		}
	}
	for _, broken := range [][]byte{nil, {0xff}, {0x0a, 0x7f}} {
		if _, refused := request.Answered(broken); !refused {
			t.Errorf("%x counts as an answer", broken)
		}
	}
}
