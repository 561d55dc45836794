package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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
	s := start(t)
	resp := s.recommend(t, queue(web, 3, 50))
	pending := s.target(t, web)
	if p := pending.GetHistory().GetPending(); p.GetRecommendationId() != resp.GetRecommendationId() || p.GetCurrentReplicas() != 3 || p.GetDesiredReplicas() != 5 || !p.GetTime().AsTime().Equal(t0) {
		t.Errorf("pending is %v, want the change from 3 to 5", p)
	}
	if got := len(pending.GetHistory().GetScaleUps()); got != 0 {
		t.Errorf("there are %d scale-ups before the report", got)
	}
	s.clock.Advance(7 * time.Second)
	report := s.report(t, web, resp.GetRecommendationId(), "APPLIED", "")

	after := s.target(t, web)
	sameMessage(t, after.GetStatus(), report.GetStatus())
	if after.GetHistory().GetPending() != nil {
		t.Error("the change is still pending")
	}
	ups := after.GetHistory().GetScaleUps()
	if len(ups) != 1 || ups[0].GetReplicaChange() != 2 || !ups[0].GetTime().AsTime().Equal(t0) {
		t.Errorf("scale-ups are %v, want +2 at the instant it was recommended", ups)
	}
	if got := report.GetStatus().GetLastScaleTime().AsTime(); !got.Equal(t0) {
		t.Errorf("lastScaleTime is %v, want %v", got, t0)
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

func TestAFailedChangeIsDropped(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.recommend(t, queue(web, 3, 30))
	s.clock.Advance(15 * time.Second)
	resp := s.recommend(t, queue(web, 3, 50))
	report := s.report(t, web, resp.GetRecommendationId(), "FAILED", "the quota is used up")
	after := s.target(t, web)
	sameMessage(t, after.GetStatus(), report.GetStatus())
	if h := after.GetHistory(); h.GetPending() != nil || len(h.GetScaleUps()) != 0 {
		t.Errorf("history is %v, want neither a pending change nor an event", h)
	}
	if report.GetStatus().GetLastScaleTime() != nil || report.GetStatus().GetDesiredReplicas() != 3 {
		t.Errorf("status is %v, want 3 desired replicas as before, never scaled", report.GetStatus())
	}
	able := condition(report.GetStatus(), "AbleToScale")
	if able.GetStatus() != "False" || able.GetReason() != "FailedUpdateScale" || able.GetMessage() != "the HPA controller was unable to update the target scale: the quota is used up" {
		t.Errorf("AbleToScale is %v", able)
	}
	if e := report.GetEvents(); len(e) != 1 || e[0].GetType() != "Warning" || e[0].GetReason() != "FailedRescale" || !strings.HasSuffix(e[0].GetMessage(), "; error: the quota is used up") {
		t.Errorf("events are %v", e)
	}
	if want := "failed to rescale Target/shop/web: the quota is used up"; report.GetError() != want {
		t.Errorf("error is %q, want %q", report.GetError(), want)
	}
}

func TestReportingTwiceIsHarmless(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"APPLIED", "FAILED"} {
		for _, second := range []string{"APPLIED", "FAILED"} {
			t.Run(first+" then "+second, func(t *testing.T) {
				t.Parallel()
				s := start(t)
				id := s.recommend(t, queue(web, 3, 50)).GetRecommendationId()
				report := s.report(t, web, id, first, "m")
				before := s.target(t, web)
				again := s.report(t, web, id, second, "another")
				sameMessage(t, again, &setpointv1.ReportScaleResponse{Status: report.GetStatus(), RecommendationId: id})
				sameMessage(t, s.target(t, web), before)
				if got, want := outcomes(s.decisions(t, web)), first; got != want {
					t.Errorf("outcomes are %q, want %q", got, want)
				}
			})
		}
	}
}

func TestReportsOfUnknownRecommendationsAreNotFound(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.recommend(t, queue(web, 3, 50)).GetRecommendationId()
	other := s.recommend(t, queue(web+"2", 3, 50)).GetRecommendationId()
	before := s.target(t, web)
	for _, unknown := range []string{
		other, "x", strings.Repeat("0", 32), strings.ToUpper(id), id + "00", "019b76e3cfc0a8e30aba0bec64b7b14g",
	} {
		if unknown == id {
			continue // digits only
		}
		_, err := s.recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: web, RecommendationId: unknown, Outcome: "APPLIED"})
		got := rpcProblem(err)
		wantProblem(t, got, codes.NotFound, "RECOMMENDATION_NOT_FOUND")
		if got.metadata["target"] != web || got.metadata["recommendationId"] != unknown {
			t.Errorf("%s: metadata are %v", unknown, got.metadata)
		}
	}
	a := s.ask(t, http.MethodPost, "/v1/clusters/demo/namespaces/shop/targets/nobody:reportScale", map[string]any{"recommendationId": id, "outcome": "APPLIED"})
	a.expect(t, http.StatusNotFound)
	wantProblem(t, a.problem(t), codes.NotFound, "TARGET_NOT_FOUND")
	sameMessage(t, s.target(t, web), before)
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
			s := start(t)
			id := s.recommend(t, queue(web, 3, 50)).GetRecommendationId()
			s.clock.Advance(15 * time.Second)
			s.recommend(t, queue(web, tt.replicas, 10*tt.replicas))
			after := s.target(t, web)
			ups := after.GetHistory().GetScaleUps()
			if len(ups) != tt.scaleUps {
				t.Errorf("there are %d scale-ups, want %d", len(ups), tt.scaleUps)
			}
			if len(ups) == 1 && !ups[0].GetTime().AsTime().Equal(t0) {
				t.Errorf("the event is of %v, want %v", ups[0].GetTime().AsTime(), t0)
			}
			if got, want := outcomes(s.decisions(t, web)), "NONE "+tt.outcome; got != want {
				t.Errorf("outcomes are %q, want %q", got, want)
			}
			// A report that comes late changes nothing.
			for _, outcome := range []string{"FAILED", "APPLIED"} {
				late := s.report(t, web, id, outcome, "late")
				sameMessage(t, late, &setpointv1.ReportScaleResponse{Status: after.GetStatus(), RecommendationId: id})
			}
			sameMessage(t, s.target(t, web), after)
			if got := len(s.decisions(t, web)); got != 2 {
				t.Errorf("the log has %d decisions after late reports, want 2", got)
			}
		})
	}
}

func TestReportsOfDecisionsWithoutAChangeAreHarmless(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.recommend(t, queue(web, 3, 30)).GetRecommendationId()
	before := s.target(t, web)
	report := s.report(t, web, id, "APPLIED", "")
	sameMessage(t, report, &setpointv1.ReportScaleResponse{Status: before.GetStatus(), RecommendationId: id})
	sameMessage(t, s.target(t, web), before)
}

func TestDecisionsTellTheirOutcomesOnceEach(t *testing.T) {
	t.Parallel()
	s := start(t)
	replicas := int32(3)
	var ids []string
	ask := func(length int32) string {
		s.clock.Advance(15 * time.Second)
		id := s.recommend(t, queue(web, replicas, length)).GetRecommendationId()
		ids = append([]string{id}, ids...)
		return id
	}
	ask(30) // NONE
	s.report(t, web, ask(50), "APPLIED", "")
	replicas = 5
	ask(50) // NONE
	s.report(t, web, ask(70), "FAILED", "no room")
	ask(80) // dropped: not seen in the next request
	ask(90) // applied by sight
	replicas = 9
	ask(20) // pending
	decisions := s.decisions(t, web)
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
	sameMessage(t, s.target(t, web).GetLastDecision(), decisions[0])
}

func TestDecisionsShowTheRequestAndWhatWasDecided(t *testing.T) {
	t.Parallel()
	s := start(t)
	number := func(n int32) *int32 { return &n }
	bases := []*setpointv1.DecisionBasis{{ // of logged decisions; a change is not logged yet
		Proposal: number(3), MetricProposals: []int32{3}, MinReplicas: number(1), MaxReplicas: number(1000),
		ScaleUpWindowSeconds: number(0), ScaleDownWindowSeconds: number(0),
	}, nil}
	for i, req := range []*setpointv1.RecommendRequest{with(queue(web, 3, 30), withID("none")), with(queue(web, 3, 50), withID("up"))} {
		s.clock.Advance(15 * time.Second)
		resp := s.recommend(t, req)
		want := &setpointv1.Decision{
			RecommendationId: resp.GetRecommendationId(), RequestId: req.GetRequestId(), Time: resp.GetEvaluationTime(),
			CurrentReplicas: 3, DesiredReplicas: resp.GetDesiredReplicas(), Action: resp.GetAction(), Reason: resp.GetReason(),
			Conditions: resp.GetStatus().GetConditions(), CurrentMetrics: resp.GetStatus().GetCurrentMetrics(), Outcome: "NONE",
			Basis: bases[i],
		}
		if resp.GetAction() != "NONE" {
			want.Outcome = "PENDING"
		}
		sameMessage(t, s.decisions(t, web)[0], want)
	}
}

// A request whose scale could not be read does not tell what became of a change:
// it stays pending, and neither it nor that decision is lost or listed twice.
func TestAChangeStaysPendingWhileTheScaleIsUnknown(t *testing.T) {
	t.Parallel()
	unknown := with(queue(web, 0, 50), func(r *setpointv1.RecommendRequest) {
		r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Message: "the API server is away"}
	})
	for _, tt := range []struct {
		name   string
		settle func(*testing.T, *service, string)
		// outcome of the change; PENDING is as much as the log need know.
		outcome   string
		decisions int
	}{
		{"reported", func(t *testing.T, s *service, id string) { s.report(t, web, id, "APPLIED", "") }, "APPLIED", 2},
		{"seen", func(t *testing.T, s *service, _ string) { s.recommend(t, queue(web, 5, 50)) }, "APPLIED", 3},
		{"still pending", func(*testing.T, *service, string) {}, "PENDING", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			id := s.recommend(t, queue(web, 3, 50)).GetRecommendationId()
			s.clock.Advance(15 * time.Second)
			if resp := s.recommend(t, unknown); condition(resp.GetStatus(), "AbleToScale").GetReason() != "FailedGetScale" {
				t.Errorf("AbleToScale is %v", condition(resp.GetStatus(), "AbleToScale"))
			}
			if got := s.target(t, web).GetHistory().GetPending().GetRecommendationId(); got != id {
				t.Errorf("pending is %q, want the change", got)
			}
			s.clock.Advance(15 * time.Second)
			tt.settle(t, s, id)
			seen := map[string]string{}
			for _, d := range s.decisions(t, web) {
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
	s := start(t)
	s.recommend(t, queue(web, 3, 30))
	s.clock.Advance(15 * time.Second)
	id := s.recommend(t, queue(web, 3, 50)).GetRecommendationId()
	for _, size := range []int32{1, 2} {
		first, err := s.targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: web, PageSize: size})
		if err != nil {
			t.Fatal(err)
		}
		if size == 1 {
			s.report(t, web, id, "APPLIED", "")
		}
		for token := first.GetNextPageToken(); token != ""; {
			page, err := s.targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: web, PageSize: size, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
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
	s := start(t)
	id := s.recommend(t, queue(web, 3, 50)).GetRecommendationId()
	s.ask(t, http.MethodDelete, "/v1/"+web, nil).expect(t, http.StatusOK)
	s.recommend(t, queue(web, 5, 50))
	target := s.target(t, web)
	if h := target.GetHistory(); h.GetPending() != nil || len(h.GetScaleUps()) != 0 || target.GetStatus().GetLastScaleTime() != nil {
		t.Errorf("the new target knows of the change: %v", target)
	}
	_, err := s.recommendations.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: web, RecommendationId: id, Outcome: "APPLIED"})
	wantProblem(t, rpcProblem(err), codes.NotFound, "RECOMMENDATION_NOT_FOUND")
}

// Rate limits see a change only once it is applied.
func TestOnlyAppliedChangesCountForPolicies(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[string]int32{"APPLIED": 5, "FAILED": 5} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			limited := func(replicas, length int32) *setpointv1.RecommendRequest {
				req := queue(web, replicas, length)
				req.Spec.Behavior.ScaleUp.Policies = []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 2, PeriodSeconds: 60}}
				return req
			}
			first := s.recommend(t, limited(3, 100))
			if first.GetDesiredReplicas() != 5 {
				t.Fatalf("got %d replicas, want 5", first.GetDesiredReplicas())
			}
			s.report(t, web, first.GetRecommendationId(), outcome, "m")
			s.clock.Advance(15 * time.Second)
			replicas := int32(3)
			if outcome == "APPLIED" {
				replicas = 5
			}
			if got := s.recommend(t, limited(replicas, 100)).GetDesiredReplicas(); got != want {
				t.Errorf("got %d replicas from %d, want %d", got, replicas, want)
			}
		})
	}
}

func TestReportsGiveTheSameOverREST(t *testing.T) {
	t.Parallel()
	s := start(t)
	other := "clusters/other/namespaces/shop/targets/web"
	first, second := s.recommend(t, queue(web, 3, 50)), s.recommend(t, queue(other, 3, 50))
	want := s.report(t, web, first.GetRecommendationId(), "FAILED", "no room")
	got := &setpointv1.ReportScaleResponse{}
	a := s.ask(t, http.MethodPost, "/v1/"+other+":reportScale", map[string]any{"recommendationId": second.GetRecommendationId(), "outcome": "FAILED", "message": "no room"})
	a.expect(t, http.StatusOK)
	a.into(t, got)
	want.RecommendationId = second.GetRecommendationId()
	sameMessage(t, got, want)
	if !proto.Equal(s.target(t, other).GetStatus(), got.GetStatus()) {
		t.Error("the status of the answer is not the target's")
	}
}
