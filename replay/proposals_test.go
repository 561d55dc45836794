package replay

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/server/truth"
	"github.com/setpoint-dev/setpoint/stages"
)

// TestProposalsAreDecidedAgain has a caller propose counts, of which some have expired: what is kept gives each decision
// again, and another spec gets the same proposals.
func TestProposalsAreDecidedAgain(t *testing.T) {
	engine, all := kept(t, 1)
	s, at, replicas := all[0], servertest.T0, int32(9)
	expired, acted := 0, 0
	for i := range 60 {
		req := servertest.Queue(servertest.Web, replicas, 90)
		req.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(30))}}
		if i%3 > 0 {
			req.Proposals = []*setpointv1.Proposal{
				{Name: "oracle", Role: []string{"VOTER", "FLOOR", "CAP"}[i/3%3], Replicas: int32(6 + i%7), ExpireTime: timestamppb.New(at.Add(time.Duration(i%4) * time.Minute))},
				{Name: "other", Role: "VOTER", Replicas: int32(4 + i%11), ExpireTime: timestamppb.New(at.Add(time.Hour))},
			}
		}
		servertest.EvaluatedAt(at)(req)
		at = at.Add(15 * time.Second)
		resp := s.Recommend(t, req)
		for _, a := range resp.GetAdjustments() {
			if a.After == nil {
				expired++
			} else {
				acted++
			}
		}
		if resp.GetDesiredReplicas() != replicas {
			s.Report(t, servertest.Web, resp.GetRecommendationId(), "APPLIED", "")
		}
		replicas = resp.GetDesiredReplicas()
	}
	if expired < 5 || acted < 20 {
		t.Fatalf("%d proposals had expired, %d acted", expired, acted)
	}
	s.StopAndWait(t)
	out := Export(servertest.Web, chunksOf(t, engine.Chunks(0, 0), servertest.KeyOf(servertest.Web)), time.Time{}, time.Time{})
	if out.Steps != 60 || len(out.Gaps) > 0 {
		t.Fatalf("%d steps, gaps %v", out.Steps, out.Gaps)
	}
	replayed(t, out)
	for _, scenario := range out.Scenarios {
		scenario = reread(t, scenario)
		for i := range scenario.Steps {
			if got := len(scenario.Steps[i].Request.GetProposals()); (got == 2) != (i%3 > 0) {
				t.Errorf("step %d has %d proposals", i, got)
			}
		}
	}
}

// Steps with the same proposals share them: what bounds one of them changes no other.
func TestABoundedProposalIsAsLateInTheNextStep(t *testing.T) {
	t.Parallel()
	first := truth.Step{At: servertest.T0.UnixNano(), Proposed: []stages.Proposal{{Name: "ahead", Role: stages.Floor, Expires: servertest.T0.Add(conversion.MostAhead + 10*time.Second)}}}
	second := first
	second.At += int64(15 * time.Second)
	for _, step := range []*truth.Step{&first, &second} {
		call, err := new(exporter).call(step, nil)
		fatal.If(t, err)
		request := &setpointv1.RecommendRequest{}
		fatal.If(t, protojson.Unmarshal(call.Request, request))
		want := min(conversion.MostAhead+10*time.Second, instant(step.At).Sub(servertest.T0)+conversion.MostAhead)
		if got := request.GetProposals()[0].GetExpireTime().AsTime().Sub(servertest.T0); got != want {
			t.Errorf("it expires after %s, want %s", got, want)
		}
	}
}
