package setpoint_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

var checkedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// asked is a request about 4 replicas of 2 to 10, with a valid answer to it: 5.
func asked() setpoint.Asked {
	return setpoint.Asked{Now: checkedAt, Request: &setpointv1.RecommendRequest{
		Spec:  &setpointv1.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(2)), MaxReplicas: 10},
		Scale: &setpointv1.Scale{SpecReplicas: 4, StatusReplicas: new(int32(4))},
	}}
}

func fitting() *setpointv1.RecommendResponse {
	return &setpointv1.RecommendResponse{
		CurrentReplicas: 4, DesiredReplicas: 5, Action: "SCALE_UP", RecommendationId: "1", EvaluationTime: timestamppb.New(checkedAt),
		Status: &setpointv1.HorizontalPodAutoscalerStatus{CurrentReplicas: 4, DesiredReplicas: 5},
	}
}

// counts sets the counts of an answer, and all fields that depend on them.
func counts(current, desired int32) func(*setpoint.Asked, *setpointv1.RecommendResponse) {
	return func(_ *setpoint.Asked, a *setpointv1.RecommendResponse) {
		a.CurrentReplicas, a.DesiredReplicas = current, desired
		a.Status.CurrentReplicas, a.Status.DesiredReplicas = current, desired
		switch {
		case desired > current:
			a.Action = "SCALE_UP"
		case desired < current:
			a.Action = "SCALE_DOWN"
		default:
			a.Action = "NONE"
		}
	}
}

func TestCheckAnswer(t *testing.T) {
	t.Parallel()
	type change = func(*setpoint.Asked, *setpointv1.RecommendResponse)
	all := func(changes ...change) change {
		return func(q *setpoint.Asked, a *setpointv1.RecommendResponse) {
			for _, c := range changes {
				c(q, a)
			}
		}
	}
	scale := func(spec, observed int32) change {
		return func(q *setpoint.Asked, _ *setpointv1.RecommendResponse) {
			q.Request.Scale = &setpointv1.Scale{SpecReplicas: spec, StatusReplicas: &observed}
		}
	}
	profile := func(name string) change {
		return func(q *setpoint.Asked, _ *setpointv1.RecommendResponse) {
			q.Request.Options = &setpointv1.RecommendOptions{Profile: name}
		}
	}
	noScale := func(q *setpoint.Asked, _ *setpointv1.RecommendResponse) {
		q.Request.Scale, q.Request.ScaleError = nil, &setpointv1.ScaleError{Message: "gone"}
	}
	plain := func(n int32) change {
		return func(_ *setpoint.Asked, a *setpointv1.RecommendResponse) { a.PlainDesiredReplicas = &n }
	}
	adjusted := func(n, bytes int) change {
		return func(_ *setpoint.Asked, a *setpointv1.RecommendResponse) {
			for range n {
				a.Adjustments = append(a.Adjustments, &setpointv1.Adjustment{
					Stage: "ZERO_GUARD", Rule: "External:queue", Metric: "External:queue", Message: strings.Repeat("m", bytes), UntilTime: timestamppb.New(checkedAt),
				})
			}
		}
	}
	at := func(d time.Duration) change {
		return func(_ *setpoint.Asked, a *setpointv1.RecommendResponse) {
			a.EvaluationTime = timestamppb.New(checkedAt.Add(d))
		}
	}
	before := func(id string, d time.Duration) change {
		return func(q *setpoint.Asked, _ *setpointv1.RecommendResponse) {
			q.Previous = &setpointv1.RecommendResponse{RecommendationId: id, EvaluationTime: timestamppb.New(checkedAt.Add(d))}
		}
	}
	failed := func(desired int32) change {
		return func(_ *setpoint.Asked, a *setpointv1.RecommendResponse) {
			a.Error, a.Status.DesiredReplicas = "no metrics", desired
		}
	}
	generations := func(given, observed int64) change {
		return func(q *setpoint.Asked, a *setpointv1.RecommendResponse) {
			q.Request.Generation, a.Status.ObservedGeneration = &given, &observed
		}
	}
	ids := func(asked, answered string) change {
		return func(q *setpoint.Asked, a *setpointv1.RecommendResponse) {
			if q.Request.RequestId = asked; answered != "" {
				a.RequestId = &answered
			}
		}
	}
	member := func(changes ...func(*setpointv1.FleetShare)) change {
		return func(q *setpoint.Asked, a *setpointv1.RecommendResponse) {
			q.Request.Fleet, a.RecommendationId = "clusters/f/namespaces/n/targets/t", ""
			a.Fleet = &setpointv1.FleetShare{
				State: "FRESH", DesiredReplicas: 12, ShareTotal: 18, UnplacedReplicas: 1, MissingReplicas: 2, DecisionTime: timestamppb.New(checkedAt),
				Members: &setpointv1.FleetMemberCounts{Fresh: 60, Lost: 4, Drained: 3},
			}
			for _, c := range changes {
				c(a.Fleet)
			}
		}
	}
	conditions := func(types ...string) change {
		return func(_ *setpoint.Asked, a *setpointv1.RecommendResponse) {
			a.Status.Conditions = nil
			for _, of := range types {
				a.Status.Conditions = append(a.Status.Conditions, &setpointv1.HorizontalPodAutoscalerCondition{Type: of, Status: "True", Reason: "Reason"})
			}
		}
	}
	var crowd []string
	for i := range 17 {
		crowd = append(crowd, fmt.Sprint("Type", i))
	}
	drained := member(func(f *setpointv1.FleetShare) { f.Drained = true })
	for _, tt := range []struct {
		name   string
		change change
		field  string // "": valid
	}{
		{"a change without a spec", func(q *setpoint.Asked, _ *setpointv1.RecommendResponse) { q.Request.Spec = nil }, "desiredReplicas"},
		{"conditions that a newer service has", conditions("AbleToScale", "FutureType", "Example:Other"), ""},
		{"a condition twice", conditions("AbleToScale", "AbleToScale"), "status.conditions[1]"},
		{"a condition whose type is a sentence", conditions("AbleToScale", "Not one"), "status.conditions[1]"},
		{"a condition without a type", conditions(""), "status.conditions[0]"},
		{"a crowd of conditions", conditions(crowd...), "status.conditions"},
		{"a state of a member that a newer service has", member(func(f *setpointv1.FleetShare) { f.State = "FUTURE" }), ""},
		{"a state of a member that is a sentence", member(func(f *setpointv1.FleetShare) { f.State = "not one" }), "fleet.state"},
		{"a fleet's share, which nobody is to report on", member(), ""},
		{"a share below the member's minimum", all(member(), counts(4, 1)), "desiredReplicas"},
		{"none for a member that is drained", all(drained, counts(4, 0)), ""},
		{"less than none for a member that is drained", all(drained, counts(4, -1)), "desiredReplicas"},
		{"a share above the member's maximum", all(drained, counts(4, 11)), "desiredReplicas"},
		{"a fleet that holds, and the count stays", all(member(func(f *setpointv1.FleetShare) { f.Holds = true }), counts(4, 4)), ""},
		{"a fleet that holds, and the count changes", member(func(f *setpointv1.FleetShare) { f.Holds = true }), "fleet.holds"},
		{"a fleet's count without stages, which is not the member's", all(member(), plain(90)), ""},
		{"a member that was decided alone", all(member(), func(_ *setpoint.Asked, a *setpointv1.RecommendResponse) { a.Fleet, a.RecommendationId = nil, "1" }), "fleet"},
		{"a share, where no fleet was asked", func(_ *setpoint.Asked, a *setpointv1.RecommendResponse) {
			a.Fleet = &setpointv1.FleetShare{State: "FRESH"}
		}, "fleet"},
		{"a state that is lost", member(func(f *setpointv1.FleetShare) { f.State = "" }), "fleet.state"},
		{"more members than a fleet has", member(func(f *setpointv1.FleetShare) { f.Members.Stale = 1 }), "fleet.members"},
		{"many members, which add up to few", member(func(f *setpointv1.FleetShare) { f.Members.Fresh, f.Members.Lost = math.MaxInt32, -math.MaxInt32 }), "fleet.members"},
		{"fewer members than none", member(func(f *setpointv1.FleetShare) { f.Members.Lost = -1 }), "fleet.members.lost"},
		{"a total below none", member(func(f *setpointv1.FleetShare) { f.ShareTotal = -1 }), "fleet.shareTotal"},
		{"an instant of the fleet's that is none", member(func(f *setpointv1.FleetShare) { f.DecisionTime.Nanos = -1 }), "fleet.decisionTime"},
		{"the generation that was asked about", generations(7, 7), ""},
		{"another generation", generations(7, 6), "status.observedGeneration"},
		{"a generation of before, kept where nothing could be evaluated", all(counts(4, 4), failed(4), generations(7, 6)), ""},
		{"a generation, where none was asked about", func(_ *setpoint.Asked, a *setpointv1.RecommendResponse) { a.Status.ObservedGeneration = new(int64(6)) }, ""},
		{"an answer", all(), ""},
		{"an answer to this request", ids("1", "1"), ""},
		{"an answer to another request, with the same counts", ids("1", "2"), "requestId"},
		{"an answer of a service that does not say to which request", ids("1", ""), ""},
		{"an answer to the client's own id, where the caller gave none", ids("", "2"), ""},
		{"the minimum", counts(4, 2), ""},
		{"the maximum", counts(4, 10), ""},
		{"less than the minimum", counts(4, 1), "desiredReplicas"},
		{"more than the maximum", counts(4, 11), "desiredReplicas"},
		{"held above the maximum, for a while", all(scale(12, 12), counts(12, 12)), ""},
		{"towards the maximum, but not there", all(scale(12, 12), counts(12, 11)), "desiredReplicas"},
		{"disabled", all(scale(0, 0), counts(0, 0)), ""},
		{"from zero to the minimum", all(scale(0, 0), counts(0, 2)), ""},
		{"zero, which is not allowed", counts(4, 0), "desiredReplicas"},
		{"zero, which is", all(counts(4, 0), func(q *setpoint.Asked, _ *setpointv1.RecommendResponse) { q.Request.Spec.MinReplicas = new(int32(0)) }), ""},
		{"one, where no minimum is set", all(counts(4, 1), func(q *setpoint.Asked, _ *setpointv1.RecommendResponse) { q.Request.Spec.MinReplicas = nil }), ""},
		{"the observed count, as old versions go by it", all(scale(4, 6), counts(6, 7), profile("cooldown")), ""},
		{"the observed count, held by who does not say which version", all(scale(4, 6), counts(6, 6)), ""},
		{"the observed count, by another version", all(scale(4, 6), counts(6, 6), profile("v1.36")), "currentReplicas"},
		{"a change by the observed count", all(scale(4, 6), counts(6, 7)), "currentReplicas"},
		{"no scale, the last count", all(noScale, counts(3, 3)), ""},
		{"no scale, and a change", all(noScale, counts(3, 4)), "desiredReplicas"},
		{"an hour old", at(-time.Hour), "evaluationTime"},
		{"two minutes old, as remembered ones are", at(-2 * time.Minute), ""},
		{"of a chosen instant", all(at(-time.Hour), func(q *setpoint.Asked, _ *setpointv1.RecommendResponse) {
			q.Request.EvaluationTime = timestamppb.New(checkedAt.Add(-time.Hour))
		}), ""},
		{"of another than the chosen instant", func(q *setpoint.Asked, _ *setpointv1.RecommendResponse) {
			q.Request.EvaluationTime = timestamppb.New(checkedAt.Add(-time.Hour))
		}, "evaluationTime"},
		{"an hour old, where that is allowed", all(at(-time.Hour), func(q *setpoint.Asked, _ *setpointv1.RecommendResponse) { q.MaxSkew = 2 * time.Hour }), ""},
		{"after the one before", before("0", -time.Second), ""},
		{"before the one before", before("0", 5*time.Second), "evaluationTime"},
		{"before the one before, of a service that does not say to which request", all(ids("1", ""), before("0", 5*time.Second)), "evaluationTime"},
		{"before the one before, to this request, as after a clock that was set back", all(ids("1", "1"), before("0", 5*time.Minute)), ""},
		{"before the one before, to the client's own id", all(ids("", "2"), before("0", 5*time.Second)), "evaluationTime"},
		{"the one before", before("1", 0), "recommendationId"},
		{"a change without a name", func(_ *setpoint.Asked, a *setpointv1.RecommendResponse) { a.RecommendationId = "" }, "recommendationId"},
		{"a dry run without a name", func(q *setpoint.Asked, a *setpointv1.RecommendResponse) {
			q.Request.DryRun, a.RecommendationId = true, ""
		}, ""},
		{"what is only watched", func(q *setpoint.Asked, a *setpointv1.RecommendResponse) { q.Unrecorded, a.RecommendationId = true, "" }, ""},
		{"no metrics, desired as before", all(counts(4, 4), failed(7)), ""},
		{"no metrics, desired as never", all(counts(4, 4), failed(11)), "status.desiredReplicas"},
		{"metrics, desired as before", all(counts(4, 4), failed(7), func(_ *setpoint.Asked, a *setpointv1.RecommendResponse) { a.Error = "" }), "status.desiredReplicas"},
		{"a plain count of the bounds", plain(2), ""},
		{"a plain count out of them", plain(11), "plainDesiredReplicas"},
		{"a plain count that is the current one, out of them", all(counts(15, 10), scale(15, 15), plain(15)), ""},
		{"a plain count of an unknown scale", all(noScale, counts(7, 7), plain(12)), ""},
		{"a negative plain count of an unknown scale", all(noScale, counts(7, 7), plain(-1)), "plainDesiredReplicas"},
		{"as many adjustments as there may be", adjusted(32, 256), ""},
		{"too many adjustments", adjusted(33, 1), "adjustments"},
		{"a message that is too long", adjusted(2, 257), "adjustments[0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q, a := asked(), fitting()
			tt.change(&q, a)
			var wrong *setpoint.AnswerError
			if err := setpoint.CheckAnswer(q, a); (err != nil) != (tt.field != "") || err != nil && (!errors.As(err, &wrong) || wrong.Field != tt.field) {
				t.Errorf("got %v, want that of %q", err, tt.field)
			}
		})
	}
	if err := setpoint.CheckAnswer(asked(), nil); err == nil {
		t.Error("a missing answer is accepted")
	}
}

// Every real decision of the service is valid: with any profile, at any count, with changing
// bounds, failing metrics and failing writes.
func TestWhatTheServiceDecidesPasses(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			engine := memory.New(memory.Options{})
			defer func() { _ = engine.Close() }()
			options := server.DefaultOptions()
			options.AllowEvaluationTime = true
			s, err := server.New(engine, engine, options)
			fatal.If(t, err)
			defer s.Close()
			now, count := checkedAt, r.Int32N(15)
			profile := []string{"", "v1.36", "v1.37", "v1.28", "v1.19", "v1.15", "cooldown", "design-2015"}[r.IntN(8)]
			var previous *setpointv1.RecommendResponse
			var status *setpointv1.HorizontalPodAutoscalerStatus
			for step := range 60 {
				now = now.Add(time.Duration(1+r.IntN(60)) * time.Second)
				req := randomQuestion(r, now, count, profile)
				req.PreviousStatus = setpoint.Seed(status)
				answer, err := s.Recommendations().Recommend(t.Context(), req)
				if err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				q := setpoint.Asked{Request: req, Previous: previous}
				if err := setpoint.CheckAnswer(q, answer); err != nil {
					t.Fatalf("step %d: %v\nasked %v\nanswered %v", step, err, req, answer)
				}
				previous, status = answer, answer.GetStatus()
				if answer.GetAction() == "NONE" {
					continue
				}
				report := &setpointv1.ReportScaleRequest{Target: req.GetTarget(), RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED"}
				if r.IntN(4) == 0 {
					report.Outcome = "FAILED"
				} else {
					count = answer.GetDesiredReplicas()
				}
				response, err := s.Recommendations().ReportScale(t.Context(), report)
				if err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				if err := setpoint.CheckReport(q, answer, report, response); err != nil {
					t.Fatalf("step %d, report: %v\nasked %v\nanswered %v", step, err, report, response)
				}
				status = response.GetStatus()
			}
		})
	}
}

// The answer to a report has the counts that were reported on. Other ones are another caller's if the
// answer names the report, and nothing that no service would say; otherwise they are a forgery.
func TestCheckReport(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		change  func(report *setpointv1.ReportScaleRequest, r *setpointv1.ReportScaleResponse)
		field   string // "": valid
		another bool
	}{
		{"the counts that were reported on", func(_ *setpointv1.ReportScaleRequest, _ *setpointv1.ReportScaleResponse) {}, "", false},
		{"another current count", func(_ *setpointv1.ReportScaleRequest, r *setpointv1.ReportScaleResponse) {
			r.Status.CurrentReplicas = 1
		}, "status.currentReplicas", true},
		{"another desired count", func(_ *setpointv1.ReportScaleRequest, r *setpointv1.ReportScaleResponse) {
			r.Status.DesiredReplicas = 30
		}, "status.desiredReplicas", true},
		{"a kept count, where applying failed", func(report *setpointv1.ReportScaleRequest, r *setpointv1.ReportScaleResponse) {
			report.Outcome, r.Status.DesiredReplicas = "FAILED", 4
		}, "", false},
		{"a negative count", func(_ *setpointv1.ReportScaleRequest, r *setpointv1.ReportScaleResponse) {
			r.Status.DesiredReplicas = -1
		}, "status.desiredReplicas", false},
		{"another count beside a negative one", func(_ *setpointv1.ReportScaleRequest, r *setpointv1.ReportScaleResponse) {
			r.Status.CurrentReplicas, r.Status.DesiredReplicas = 1, -1
		}, "status.currentReplicas", false},
		{"another count, of a service that does not say to which report", func(_ *setpointv1.ReportScaleRequest, r *setpointv1.ReportScaleResponse) {
			r.RecommendationId, r.Status.CurrentReplicas = "", 1
		}, "status.currentReplicas", false},
		{"another report", func(_ *setpointv1.ReportScaleRequest, r *setpointv1.ReportScaleResponse) {
			r.RecommendationId, r.Status.CurrentReplicas = "2", 1
		}, "recommendationId", false},
		{"another count and an invalid condition", func(_ *setpointv1.ReportScaleRequest, r *setpointv1.ReportScaleResponse) {
			r.Status.CurrentReplicas = 1
			r.Status.Conditions = []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "Other"}}
		}, "status.conditions[0]", false},
		{"another count and an invalid event", func(_ *setpointv1.ReportScaleRequest, r *setpointv1.ReportScaleResponse) {
			r.Status.CurrentReplicas, r.Events = 1, []*setpointv1.Event{{}}
		}, "events[0]", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			report := &setpointv1.ReportScaleRequest{RecommendationId: "1", Outcome: "APPLIED"}
			response := &setpointv1.ReportScaleResponse{RecommendationId: "1", Status: proto.CloneOf(fitting().GetStatus())}
			tt.change(report, response)
			var wrong *setpoint.AnswerError
			switch err := setpoint.CheckReport(asked(), fitting(), report, response); {
			case (err != nil) != (tt.field != ""), err != nil && !errors.As(err, &wrong):
				t.Errorf("got %v, want that of %q", err, tt.field)
			case err != nil && (wrong.Field != tt.field || wrong.AnotherCaller != tt.another):
				t.Errorf("got %v, another caller %t, want that of %q and %t", err, wrong.AnotherCaller, tt.field, tt.another)
			}
		})
	}
}

func randomQuestion(r *rand.Rand, now time.Time, count int32, profile string) *setpointv1.RecommendRequest {
	least := 1 + r.Int32N(5)
	req := &setpointv1.RecommendRequest{
		Target: "clusters/demo/namespaces/shop/targets/web", EvaluationTime: timestamppb.New(now),
		Options: &setpointv1.RecommendOptions{Profile: profile},
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MinReplicas: &least, MaxReplicas: least + r.Int32N(12),
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("10")},
			}}},
		},
		Scale: &setpointv1.Scale{SpecReplicas: count, StatusReplicas: new(count), Selector: "app=web"},
		ExternalMetrics: []*setpointv1.ExternalMetric{{
			Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: fmt.Sprint(r.IntN(300)), Timestamp: timestamppb.New(now),
		}},
	}
	if profile == "cooldown" || profile == "design-2015" {
		req.Scale.StatusReplicas = new(max(0, count+r.Int32N(3)-1))
	}
	if r.IntN(3) == 0 {
		rules := func() *setpointv1.HPAScalingRules {
			return &setpointv1.HPAScalingRules{
				StabilizationWindowSeconds: new(r.Int32N(60)), SelectPolicy: new([]string{"Min", "Max", "Disabled"}[r.IntN(3)]),
				Policies: []*setpointv1.HPAScalingPolicy{{Type: []string{"Pods", "Percent"}[r.IntN(2)], Value: 1 + r.Int32N(5), PeriodSeconds: 15}},
			}
		}
		req.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: rules(), ScaleDown: rules()}
	}
	if r.IntN(4) > 0 {
		req.Generation = new(r.Int64N(3))
	}
	switch r.IntN(10) {
	case 0:
		req.ExternalMetrics, req.MetricErrors = nil, []*setpointv1.MetricError{{Metric: "queue", Message: "away"}}
	case 1:
		req.Scale, req.ScaleError = nil, &setpointv1.ScaleError{Message: "gone"}
	case 2:
		req.Scale.Selector, req.SelectorProblem = "", &setpointv1.SelectorProblem{Reason: "SelectorRequired"}
	}
	return req
}

func TestSeed(t *testing.T) {
	t.Parallel()
	if setpoint.Seed(nil) != nil {
		t.Error("something of nothing")
	}
	good := &setpointv1.HorizontalPodAutoscalerStatus{
		ObservedGeneration: new(int64(3)), LastScaleTime: timestamppb.New(checkedAt), CurrentReplicas: 4, DesiredReplicas: 5,
		CurrentMetrics: []*setpointv1.MetricStatus{{Type: "Resource", Resource: &setpointv1.ResourceMetricStatus{Name: "cpu"}}},
		Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{
			{Type: "AbleToScale", Status: "True", Reason: "ReadyForNewScale", Message: "m", LastTransitionTime: timestamppb.New(checkedAt)},
			{Type: "ScaledToZero", Status: "True", Reason: "ScaledToZero"},
		},
	}
	if seed := setpoint.Seed(good); !proto.Equal(seed, good) {
		t.Errorf("of a good one %v is left", seed)
	}
	bad := proto.CloneOf(good)
	bad.ObservedGeneration, bad.LastScaleTime.Nanos, bad.CurrentReplicas, bad.DesiredReplicas = new(int64(-1)), -1, -1, -1
	for range 101 {
		bad.CurrentMetrics = append(bad.CurrentMetrics, bad.GetCurrentMetrics()[0])
	}
	bad.Conditions[0].Message = strings.Repeat("ä", 100_000)
	bad.Conditions[0].LastTransitionTime.Nanos = -1
	bad.Conditions = append(bad.Conditions, []*setpointv1.HorizontalPodAutoscalerCondition{
		{Type: "AbleToScale", Status: "True", Reason: "Twice"}, {Type: "Foo", Status: "True", Reason: "Foo"},
		{Type: "ScalingActive", Status: "Maybe", Reason: "x"}, {Type: "ScalingLimited", Status: "True", Reason: strings.Repeat("x", 2000)},
	}...)
	want := &setpointv1.HorizontalPodAutoscalerStatus{Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{
		{Type: "AbleToScale", Status: "True", Reason: "ReadyForNewScale", Message: strings.Repeat("ä", 16384)},
		good.GetConditions()[1],
	}}
	if seed := setpoint.Seed(bad); !proto.Equal(seed, want) {
		t.Errorf("of a bad one %.500s is left", fmt.Sprint(seed))
	}
	bad = proto.CloneOf(good)
	bad.CurrentMetrics[0].Resource.Name = "caf\xe9"
	if seed := setpoint.Seed(bad); seed.GetCurrentMetrics() != nil || len(seed.GetConditions()) != 2 {
		t.Errorf("of one that can't be sent %v is left", seed)
	}
}
