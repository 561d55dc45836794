package decision_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// condition returns the condition of that type.
func condition(status *setpointv1.HorizontalPodAutoscalerStatus, kind string) *setpointv1.HorizontalPodAutoscalerCondition {
	for _, c := range status.GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

// outcomes are those of the decisions of a target, newest first.
func outcomes(decisions []*setpointv1.Decision) string {
	var all []string
	for _, d := range decisions {
		all = append(all, d.GetOutcome())
	}
	return strings.Join(all, " ")
}

func TestAnAppliedChangeBecomesAnEventOfItsInstant(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	resp := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
	pending := s.Target(t, servertest.Web)
	if p := pending.GetHistory().GetPending(); p.GetRecommendationId() != resp.GetRecommendationId() || p.GetCurrentReplicas() != 3 || p.GetDesiredReplicas() != 5 || !p.GetTime().AsTime().Equal(servertest.T0) {
		t.Errorf("pending is %v, want the change from 3 to 5", p)
	}
	if got := len(pending.GetHistory().GetScaleUps()); got != 0 {
		t.Errorf("there are %d scale-ups before the report", got)
	}
	s.Clock.Advance(7 * time.Second)
	report := s.Report(t, servertest.Web, resp.GetRecommendationId(), "APPLIED", "")

	after := s.Target(t, servertest.Web)
	servertest.SameMessage(t, after.GetStatus(), report.GetStatus())
	if after.GetHistory().GetPending() != nil {
		t.Error("the change is still pending")
	}
	ups := after.GetHistory().GetScaleUps()
	if len(ups) != 1 || ups[0].GetReplicaChange() != 2 || !ups[0].GetTime().AsTime().Equal(servertest.T0) {
		t.Errorf("scale-ups are %v, want +2 at the instant it was recommended", ups)
	}
	if got := report.GetStatus().GetLastScaleTime().AsTime(); !got.Equal(servertest.T0) {
		t.Errorf("lastScaleTime is %v, want %v", got, servertest.T0)
	}
	able := condition(report.GetStatus(), "AbleToScale")
	if able.GetStatus() != "True" || able.GetReason() != "SucceededRescale" || able.GetMessage() != "the HPA controller was able to update the target scale to 5" {
		t.Errorf("AbleToScale is %v", able)
	}
	if e := report.GetEvents(); len(e) != 1 || e[0].GetType() != "Normal" || e[0].GetReason() != "SuccessfulRescale" ||
		e[0].GetMessage() != "New size: 5; reason: external metric queue-depth(nil) above target" || report.GetError() != "" {
		t.Errorf("events are %v, error %q", e, report.GetError())
	}
}

// Of two reports the first counts, and the answers to both say which one that is.
func TestTheFirstReportCounts(t *testing.T) {
	t.Parallel()
	for _, reports := range [][]string{{"FAILED", "APPLIED"}, {"APPLIED", "FAILED"}} {
		s := servertest.Start(t)
		id := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)).GetRecommendationId()
		first := s.Report(t, servertest.Web, id, reports[0], "")
		if got := s.Report(t, servertest.Web, id, reports[1], ""); first.GetOutcome() != reports[0] || got.GetOutcome() != reports[0] {
			t.Errorf("%s, then %s: %s counts, then %s", reports[0], reports[1], first.GetOutcome(), got.GetOutcome())
		}
		over := s.Ask(t, http.MethodPost, "/v1/"+servertest.Web+":reportScale", map[string]any{"recommendationId": id, "outcome": reports[1]})
		if got := over.Expect(t, http.StatusOK)["outcome"]; got != reports[0] {
			t.Errorf("over REST %v counts, want %s", got, reports[0])
		}
	}
}

func TestReportsOfUnknownRecommendationsAreNotFound(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	id := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)).GetRecommendationId()
	other := s.Recommend(t, servertest.Queue(servertest.Web+"2", 3, 50)).GetRecommendationId()
	before := s.Target(t, servertest.Web)
	for _, unknown := range []string{
		other, "x", strings.Repeat("0", 32), strings.ToUpper(id), id + "00", "019b76e3cfc0a8e30aba0bec64b7b14g",
	} {
		if unknown == id {
			continue // digits only
		}
		_, err := s.Recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: servertest.Web, RecommendationId: unknown, Outcome: "APPLIED"})
		got := servertest.RPCProblem(err)
		servertest.WantProblem(t, got, codes.NotFound, "RECOMMENDATION_NOT_FOUND")
		if got.Metadata["target"] != servertest.Web || got.Metadata["recommendationId"] != unknown {
			t.Errorf("%s: metadata are %v", unknown, got.Metadata)
		}
	}
	a := s.Ask(t, http.MethodPost, "/v1/clusters/demo/namespaces/shop/targets/nobody:reportScale", map[string]any{"recommendationId": id, "outcome": "APPLIED"})
	a.Expect(t, http.StatusNotFound)
	servertest.WantProblem(t, a.Problem(t), codes.NotFound, "TARGET_NOT_FOUND")
	servertest.SameMessage(t, s.Target(t, servertest.Web), before)
}

func TestAnUnreportedChangeIsSettledByTheNextRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		replicas int32
		outcome  string
		scaleUps int
	}{
		{"applied if the replicas are the recommended ones", 5, "APPLIED", 1},
		{"dropped if they are the old ones", 3, "DROPPED", 0},
		{"dropped if they are others", 4, "DROPPED", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			id := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)).GetRecommendationId()
			s.Clock.Advance(15 * time.Second)
			s.Recommend(t, servertest.Queue(servertest.Web, tt.replicas, 10*tt.replicas))
			after := s.Target(t, servertest.Web)
			ups := after.GetHistory().GetScaleUps()
			if len(ups) != tt.scaleUps {
				t.Errorf("there are %d scale-ups, want %d", len(ups), tt.scaleUps)
			}
			if len(ups) == 1 && !ups[0].GetTime().AsTime().Equal(servertest.T0) {
				t.Errorf("the event is of %v, want %v", ups[0].GetTime().AsTime(), servertest.T0)
			}
			if got, want := outcomes(s.Decisions(t, servertest.Web)), "NONE "+tt.outcome; got != want {
				t.Errorf("outcomes are %q, want %q", got, want)
			}
			// A report that comes late changes nothing, and its answer says what counts.
			for _, outcome := range []string{"FAILED", "APPLIED"} {
				late := s.Report(t, servertest.Web, id, outcome, "late")
				servertest.SameMessage(t, late, &setpointv1.ReportScaleResponse{Status: after.GetStatus(), Outcome: tt.outcome, RecommendationId: id})
			}
			servertest.SameMessage(t, s.Target(t, servertest.Web), after)
			if got := len(s.Decisions(t, servertest.Web)); got != 2 {
				t.Errorf("the log has %d decisions after late reports, want 2", got)
			}
		})
	}
}

func TestDecisionsTellTheirOutcomesOnceEach(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	replicas := int32(3)
	var ids []string
	ask := func(length int32) string {
		s.Clock.Advance(15 * time.Second)
		id := s.Recommend(t, servertest.Queue(servertest.Web, replicas, length)).GetRecommendationId()
		ids = append([]string{id}, ids...)
		return id
	}
	ask(30) // NONE
	s.Report(t, servertest.Web, ask(50), "APPLIED", "")
	replicas = 5
	ask(50) // NONE
	s.Report(t, servertest.Web, ask(70), "FAILED", "no room")
	ask(80) // dropped: not seen in the next request
	ask(90) // applied by sight
	replicas = 9
	ask(20) // pending
	decisions := s.Decisions(t, servertest.Web)
	if got, want := outcomes(decisions), "PENDING APPLIED DROPPED FAILED NONE APPLIED NONE"; got != want {
		t.Errorf("outcomes are %q, want %q", got, want)
	}
	for i, d := range decisions {
		if i < len(ids) && d.GetRecommendationId() != ids[i] {
			t.Errorf("decision %d is %s, want %s", i, d.GetRecommendationId(), ids[i])
		}
		if i > 0 && !d.GetTime().AsTime().Before(decisions[i-1].GetTime().AsTime()) {
			t.Errorf("decision %d is not older than the one before it", i)
		}
	}
	if d := decisions[0]; d.GetAction() != "SCALE_DOWN" || d.GetCurrentReplicas() != 9 || d.GetDesiredReplicas() != 2 || d.GetReason() != "All metrics below target" {
		t.Errorf("the newest decision is %v, want 9 to 2", d)
	}
	servertest.SameMessage(t, s.Target(t, servertest.Web).GetLastDecision(), decisions[0])
}

func TestDecisionsShowTheRequestAndWhatWasDecided(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	number := func(n int32) *int32 { return &n }
	bases := []*setpointv1.DecisionBasis{{ // of a logged decision, and of a change, which is not logged yet
		Proposal: number(3), MetricProposals: []int32{3}, MinReplicas: number(1), MaxReplicas: number(1000),
		ScaleUpWindowSeconds: number(0), ScaleDownWindowSeconds: number(0),
	}, {Proposal: number(5)}}
	for i, req := range []*setpointv1.RecommendRequest{servertest.With(servertest.Queue(servertest.Web, 3, 30), servertest.WithID("none")), servertest.With(servertest.Queue(servertest.Web, 3, 50), servertest.WithID("up"))} {
		s.Clock.Advance(15 * time.Second)
		resp := s.Recommend(t, req)
		want := &setpointv1.Decision{
			RecommendationId: resp.GetRecommendationId(), RequestId: req.GetRequestId(), Time: resp.GetEvaluationTime(),
			CurrentReplicas: 3, DesiredReplicas: resp.GetDesiredReplicas(), Action: resp.GetAction(), Reason: resp.GetReason(),
			SpecHash:   conversion.SpecHash(conversion.HashOfSpec(req.GetSpec(), req.GetOptions(), nil)),
			Conditions: resp.GetStatus().GetConditions(), CurrentMetrics: resp.GetStatus().GetCurrentMetrics(), Outcome: "NONE",
			Basis: bases[i],
		}
		if resp.GetAction() != "NONE" {
			want.Outcome = "PENDING"
		}
		servertest.SameMessage(t, s.Decisions(t, servertest.Web)[0], want)
	}
}

// A request whose scale could not be read does not tell what became of a change:
// it stays pending, and neither it nor that decision is lost or listed twice.
func TestAChangeStaysPendingWhileTheScaleIsUnknown(t *testing.T) {
	t.Parallel()
	unknown := servertest.With(servertest.Queue(servertest.Web, 0, 50), func(r *setpointv1.RecommendRequest) {
		r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Message: "the API server is away"}
	})
	for _, tt := range []struct {
		name   string
		settle func(*testing.T, *servertest.Service, string)
		// outcome of the change; PENDING is as much as the log need know.
		outcome   string
		decisions int
	}{
		{"reported", func(t *testing.T, s *servertest.Service, id string) { s.Report(t, servertest.Web, id, "APPLIED", "") }, "APPLIED", 2},
		{"seen", func(t *testing.T, s *servertest.Service, _ string) {
			s.Recommend(t, servertest.Queue(servertest.Web, 5, 50))
		}, "APPLIED", 3},
		{"still pending", func(*testing.T, *servertest.Service, string) {}, "PENDING", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			id := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)).GetRecommendationId()
			s.Clock.Advance(15 * time.Second)
			if resp := s.Recommend(t, unknown); condition(resp.GetStatus(), "AbleToScale").GetReason() != "FailedGetScale" {
				t.Errorf("AbleToScale is %v", condition(resp.GetStatus(), "AbleToScale"))
			}
			if got := s.Target(t, servertest.Web).GetHistory().GetPending().GetRecommendationId(); got != id {
				t.Errorf("pending is %q, want the change", got)
			}
			s.Clock.Advance(15 * time.Second)
			tt.settle(t, s, id)
			seen := map[string]string{}
			for _, d := range s.Decisions(t, servertest.Web) {
				if _, twice := seen[d.GetRecommendationId()]; twice {
					t.Errorf("%s is listed twice", d.GetRecommendationId())
				}
				seen[d.GetRecommendationId()] = d.GetOutcome()
			}
			if len(seen) != tt.decisions {
				t.Errorf("%d decisions are listed, want %d: %v", len(seen), tt.decisions, seen)
			}
			if got := seen[id]; got != tt.outcome && got != "PENDING" {
				t.Errorf("the change's outcome is %q, want %s: %v", got, tt.outcome, seen)
			}
		})
	}
}

// One page after the other, while the change that leads the list is settled.
func TestPagesOfDecisionsDoNotRepeatAChangeThatIsSettledMeanwhile(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	s.Clock.Advance(15 * time.Second)
	id := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)).GetRecommendationId()
	for _, size := range []int32{1, 2} {
		first, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: servertest.Web, PageSize: size})
		fatal.If(t, err)
		if size == 1 {
			s.Report(t, servertest.Web, id, "APPLIED", "")
		}
		for token := first.GetNextPageToken(); token != ""; {
			page, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: servertest.Web, PageSize: size, PageToken: token})
			fatal.If(t, err)
			for _, d := range page.GetDecisions() {
				for _, before := range first.GetDecisions() {
					if d.GetRecommendationId() == before.GetRecommendationId() {
						t.Errorf("pages of %d: %s is listed again as %s", size, d.GetRecommendationId(), d.GetOutcome())
					}
				}
			}
			token = page.GetNextPageToken()
		}
	}
}

func TestPendingChangesDoNotOutliveTheirTarget(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	id := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)).GetRecommendationId()
	s.Ask(t, http.MethodDelete, "/v1/"+servertest.Web, nil).Expect(t, http.StatusOK)
	s.Recommend(t, servertest.Queue(servertest.Web, 5, 50))
	target := s.Target(t, servertest.Web)
	if h := target.GetHistory(); h.GetPending() != nil || len(h.GetScaleUps()) != 0 || target.GetStatus().GetLastScaleTime() != nil {
		t.Errorf("the new target knows of the change: %v", target)
	}
	_, err := s.Recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: servertest.Web, RecommendationId: id, Outcome: "APPLIED"})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.NotFound, "RECOMMENDATION_NOT_FOUND")
}

func TestReportsGiveTheSameOverREST(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	other := "clusters/other/namespaces/shop/targets/web"
	first, second := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)), s.Recommend(t, servertest.Queue(other, 3, 50))
	want := s.Report(t, servertest.Web, first.GetRecommendationId(), "FAILED", "no room")
	got := &setpointv1.ReportScaleResponse{}
	a := s.Ask(t, http.MethodPost, "/v1/"+other+":reportScale", map[string]any{"recommendationId": second.GetRecommendationId(), "outcome": "FAILED", "message": "no room"})
	a.Expect(t, http.StatusOK)
	a.Into(t, got)
	want.RecommendationId = second.GetRecommendationId()
	servertest.SameMessage(t, got, want)
	if !proto.Equal(s.Target(t, other).GetStatus(), got.GetStatus()) {
		t.Error("the status of the answer is not the target's")
	}
}
