package services_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// twoQueues asks for 20 and for 12 replicas.
func twoQueues(changes ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
	req := servertest.Queue(servertest.Web, 10, 200)
	mails := proto.CloneOf(req.GetSpec().GetMetrics()[0])
	mails.External.Metric.Name = "mails"
	req.Spec.Metrics = append(req.Spec.Metrics, mails)
	req.ExternalMetrics = append(req.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: "mails"}, Value: "120"})
	for _, change := range changes {
		change(req)
	}
	return req
}

func smallest(r *setpointv1.RecommendRequest) {
	r.Stages = &setpointv1.Stages{Combine: &setpointv1.Combine{Method: "MIN"}}
}

// adjusted is what answers, decisions and targets tell of stages.
type adjusted interface {
	GetDesiredReplicas() int32
	GetAdjustments() []*setpointv1.Adjustment
	GetPlainDesiredReplicas() int32
}

// What stages changed is told wherever the decision is: in the answer, to its retry, to watchers before
// and after it is settled, in the log, and as the target's last one.
func TestStagesAreTold(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	const web = servertest.Web
	check := func(what string, got adjusted) {
		t.Helper()
		want := &setpointv1.Adjustment{
			Stage: "COMBINE", Rule: "MIN", Before: proto.Int32(20), After: proto.Int32(12),
			Message: "MIN of External:queue-depth 20, External:mails 12: 12; MAX would be 20",
		}
		if a := got.GetAdjustments(); len(a) != 1 || !proto.Equal(a[0], want) || got.GetPlainDesiredReplicas() != 20 || got.GetDesiredReplicas() != 12 {
			t.Errorf("%s: %v", what, got)
		}
	}
	stream, err := s.Targets.WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: web})
	fatal.If(t, err)
	watched := func() *setpointv1.Decision {
		r, err := stream.Recv()
		fatal.If(t, err)
		return r.GetDecision()
	}
	watched() // nothing, so the watch is there
	answer := s.Recommend(t, twoQueues(smallest, servertest.WithID("one")))
	check("the answer", answer)
	pending := watched()
	if check("the watch", pending); pending.GetOutcome() != "PENDING" {
		t.Errorf("watched %v", pending)
	}
	check("the pending one", s.Target(t, web).GetLastDecision())
	s.Report(t, web, answer.GetRecommendationId(), "APPLIED", "")
	settled := watched()
	if check("the watch", settled); settled.GetOutcome() != "APPLIED" {
		t.Errorf("watched %v", settled)
	}
	check("the log", s.Decisions(t, web)[0])
	check("the retry", s.Recommend(t, twoQueues(smallest, servertest.WithID("one"))))

	target := s.Target(t, web)
	check("the target", target.GetLastDecision())
	if target.GetExplanation() != nil || target.GetOutlook().GetProblem() != "COMBINE"+conversion.WithStages || len(target.GetOutlook().GetChanges()) > 0 {
		t.Errorf("explained by %v, next %v", target.GetExplanation(), target.GetOutlook())
	}
	body := s.Ask(t, http.MethodGet, "/v1/"+web, nil).Expect(t, http.StatusOK)
	if got := servertest.At(body, "lastDecision", "adjustments", 0, "stage"); got != "COMBINE" {
		t.Errorf("REST tells %v", got)
	}
}

// Where stages changed nothing, the engine's arithmetic is the decision's.
func TestStagesThatChangeNothingAreExplained(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	const web = servertest.Web
	answer := s.Recommend(t, twoQueues(func(r *setpointv1.RecommendRequest) {
		r.Stages = &setpointv1.Stages{WindowThroughFailures: true}
	}))
	target := s.Target(t, web)
	if answer.PlainDesiredReplicas == nil || target.GetExplanation() == nil || target.GetOutlook().GetProblem() != "" {
		t.Errorf("answered %v, explained by %v, next %v", answer, target.GetExplanation(), target.GetOutlook())
	}
}

// Without stages nothing tells of any: no field of an answer in JSON, nothing in the record, and the
// engine explains and looks ahead again.
func TestWithoutStagesNothingIsTold(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	const web = servertest.Web
	s.Recommend(t, twoQueues(smallest))
	s.Clock.Advance(15 * time.Second)
	answer := s.Ask(t, http.MethodPost, servertest.RecommendPath(web), twoQueues())
	body := answer.Expect(t, http.StatusOK)
	for _, field := range []string{"adjustments", "plainDesiredReplicas"} {
		if _, told := body[field]; told {
			t.Errorf("the answer has %s: %v", field, body)
		}
	}
	target := s.Target(t, web)
	if last := target.GetLastDecision(); last.PlainDesiredReplicas != nil || len(last.GetAdjustments()) > 0 {
		t.Errorf("the target tells %v", last)
	}
	if target.GetExplanation() == nil || strings.Contains(target.GetOutlook().GetProblem(), "stages") {
		t.Errorf("explained by %v, next %v", target.GetExplanation(), target.GetOutlook())
	}
	if r, err := record.Decode(s.Stored(t, web)); err != nil || len(r.Stages) > 0 || r.Adjusted != nil {
		t.Errorf("the record has %v, %v, %v", r.Stages, r.Adjusted, err)
	}
	// Stages of which none is set decide the same, and tell the count without them.
	s.Clock.Advance(15 * time.Second)
	empty := s.Recommend(t, twoQueues(func(r *setpointv1.RecommendRequest) { r.Stages = &setpointv1.Stages{} }))
	if empty.GetDesiredReplicas() != 20 || empty.GetPlainDesiredReplicas() != 20 || len(empty.GetAdjustments()) > 0 {
		t.Errorf("empty stages: %v", empty)
	}
}

// Turns count also where nobody reports changes, and the call that sees the last one is already held.
func TestReversalsCountWhatIsSeen(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	count := int32(10)
	for i, want := range []int32{14, 10, 14, 14, 18} {
		length := []int32{140, 100, 140, 100, 180}[i]
		s.Clock.Advance(15 * time.Second)
		answer := s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, count, length), func(r *setpointv1.RecommendRequest) {
			r.Stages = &setpointv1.Stages{Guards: &setpointv1.Guards{Reversals: &setpointv1.ReversalBudget{Count: 1, Period: durationpb.New(time.Hour)}}}
		}))
		if count = answer.GetDesiredReplicas(); count != want {
			t.Fatalf("step %d: %v, want %d", i, answer, want)
		}
	}
}

// When schedules start and end next is told with the outlook, of a stored spec and of a caller's.
func TestSchedulesAheadAreTold(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	now := s.Clock.Now().UTC()
	begin := now.Truncate(time.Minute).Add(10 * time.Minute)
	req := servertest.Queue(servertest.Web, 3, 30)
	req.Stages = &setpointv1.Stages{Schedules: []*setpointv1.Schedule{{
		Name: "sale", TimeZone: "UTC", At: timestamppb.New(begin), Duration: durationpb.New(time.Hour), MinReplicas: proto.Int32(6),
	}}}
	s.Recommend(t, req)
	s.Decisions(t, servertest.Web) // the outlook needs the log, which is written behind the answer: this waits for it
	outlook := s.Target(t, servertest.Web).GetOutlook()
	most := s.Target(t, servertest.Web).GetSpecInUse().GetSpec().GetMaxReplicas()
	want := []*setpointv1.OutlookBounds{
		{Time: outlook.GetStartTime(), MinReplicas: 1, MaxReplicas: most},
		{Time: timestamppb.New(begin), MinReplicas: 6, MaxReplicas: most, Event: `schedule "sale" starts`},
		{Time: timestamppb.New(begin.Add(time.Hour)), MinReplicas: 1, MaxReplicas: most, Event: `schedule "sale" ends`},
	}
	changes := outlook.GetChanges()
	if outlook.GetProblem() != "" || len(changes) != 2 || changes[0].GetReplicas() != 6 || !changes[0].GetTime().AsTime().Equal(begin) || changes[1].GetReplicas() != 3 ||
		!changes[1].GetTime().AsTime().Equal(begin.Add(time.Hour)) || !slices.EqualFunc(outlook.GetBounds(), want, func(a, b *setpointv1.OutlookBounds) bool { return proto.Equal(a, b) }) {
		t.Errorf("told %v\nwant %v", outlook, want)
	}
	s.Clock.Advance(2 * time.Hour)
	if outlook := s.Target(t, servertest.Web).GetOutlook(); len(outlook.GetBounds()) > 0 {
		t.Errorf("after its end %v", outlook)
	}
}

// KEP-5679's field of a metric decides, although only stages have fallbacks elsewhere.
func TestFallbackOfASpec(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	const web = servertest.Web
	failing := func(seconds *int32, more ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
		req := servertest.Queue(web, 4, 40)
		req.Spec.Metrics[0].External.Fallback = &setpointv1.ExternalMetricFallback{Replicas: 6, FailureDurationSeconds: seconds}
		req.ExternalMetrics = nil
		for _, change := range more {
			change(req)
		}
		return req
	}
	for i, want := range []int32{4, 4, 6} {
		answer := s.Recommend(t, failing(nil))
		if answer.GetDesiredReplicas() != want || (len(answer.GetAdjustments()) == 1) != (want == 6) {
			t.Errorf("after %d times 90 s: %v", i, answer)
		}
		if want == 6 && answer.GetAdjustments()[0].GetMessage() != "External:queue-depth has failed for 3m0s, at least 3m0s; 6 replicas are proposed instead" {
			t.Errorf("told %v", answer.GetAdjustments())
		}
		s.Clock.Advance(90 * time.Second)
	}
	if use := s.Target(t, web).GetSpecInUse(); use.GetSpec().GetMetrics()[0].GetExternal().GetFallback().GetReplicas() != 6 {
		t.Errorf("in use: %v", use)
	}
	for _, c := range []struct {
		req  *setpointv1.RecommendRequest
		want string
	}{
		{failing(new(int32(179))), "spec.metrics[0].external.fallback.failureDurationSeconds: Invalid value: 179: must be between 180 and 3600"},
		{failing(new(int32(3601))), "spec.metrics[0].external.fallback.failureDurationSeconds: Invalid value: 3601"},
		{failing(nil, func(r *setpointv1.RecommendRequest) { r.Spec.Metrics[0].External.Fallback.Replicas = 0 }), "spec.metrics[0].external.fallback.replicas: Invalid value: 0: must be greater than 0"},
		{failing(nil, func(r *setpointv1.RecommendRequest) {
			r.Stages = &setpointv1.Stages{Fallbacks: []*setpointv1.MetricFallback{{Metric: "External:queue-depth", Ignore: true}}}
		}), "spec.metrics[0].external.fallback: Forbidden: stages.fallbacks has one for External:queue-depth, too"},
		{failing(nil, func(r *setpointv1.RecommendRequest) { r.Options = &setpointv1.RecommendOptions{Profile: "cooldown"} }),
			"spec.metrics[0].external.fallback: Forbidden: the profile \"cooldown\" has none"},
	} {
		if _, err := s.Recommendations.Recommend(t.Context(), c.req); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		_, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{
			Name: servertest.Polled, TargetSpec: &setpointv1.TargetSpec{Spec: c.req.GetSpec(), Options: c.req.GetOptions(), Stages: c.req.GetStages()},
		})
		if err == nil || !strings.Contains(err.Error(), "targetSpec."+c.want) {
			t.Errorf("stored: %v, want %q", err, c.want)
		}
	}
}
