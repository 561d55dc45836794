package services_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/explain"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// randomBehavior has windows and policies of some seconds, so that much happens soon.
func randomBehavior(r *rand.Rand) *setpointv1.HorizontalPodAutoscalerBehavior {
	rules := func() *setpointv1.HPAScalingRules {
		out := &setpointv1.HPAScalingRules{StabilizationWindowSeconds: proto.Int32(r.Int32N(20))}
		for range 1 + r.IntN(2) {
			p := &setpointv1.HPAScalingPolicy{Type: "Pods", Value: 1 + r.Int32N(4), PeriodSeconds: 1 + r.Int32N(15)}
			if r.IntN(2) == 0 {
				p.Type, p.Value = "Percent", 10+r.Int32N(60)
			}
			out.Policies = append(out.Policies, p)
		}
		return out
	}
	return &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: rules(), ScaleDown: rules()}
}

// uses stores the request's spec, and says that it is asked for each second.
func uses(t *testing.T, s *servertest.Service, req *setpointv1.RecommendRequest) {
	t.Helper()
	_, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: req.GetTarget(), TargetSpec: &setpointv1.TargetSpec{
		Spec: req.GetSpec(), Options: req.GetOptions(), Period: durationpb.New(time.Second),
	}})
	fatal.If(t, err)
}

// At the instants that GetTarget tells, and not a second before, the service decides what it told.
func TestTheServiceDoesWhatItsOutlookTells(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	r := rand.New(rand.NewPCG(7, 0))
	changes, explained := 0, 0
	for n := range 200 {
		name := fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", n)
		req := servertest.Queue(name, 1+r.Int32N(30), 0)
		req.Spec.MaxReplicas = 40
		req.Options = &setpointv1.RecommendOptions{Profile: []string{recommender.DefaultProfile, "v1.37"}[r.IntN(2)], Tolerance: proto.String("0")}
		if req.Spec.Behavior = nil; r.IntN(4) > 0 {
			req.Spec.Behavior = randomBehavior(r)
		} else {
			req.Options.DownscaleStabilization = durationpb.New(10 * time.Second)
		}
		uses(t, s, req)
		replicas := req.GetScale().GetSpecReplicas()
		ask := func(value int32) *setpointv1.RecommendResponse {
			next := servertest.Queue(name, replicas, value)
			next.Spec, next.Options = req.GetSpec(), req.GetOptions()
			resp := s.Recommend(t, next)
			if replicas = resp.GetDesiredReplicas(); resp.GetAction() != "NONE" {
				s.Report(t, name, resp.GetRecommendationId(), "APPLIED", "")
			}
			s.Clock.Advance(time.Second)
			return resp
		}
		value := int32(0)
		for range 1 + r.IntN(12) {
			value = 10 * r.Int32N(40)
			ask(value)
		}
		target := s.Target(t, name)
		o := target.GetOutlook()
		if o == nil || o.GetProblem() != "" || o.GetReplicas() != replicas || !o.GetStartTime().AsTime().Equal(s.Clock.Now()) {
			t.Fatalf("target %d with %d replicas at %v has %v", n, replicas, s.Clock.Now(), o)
		}
		if e := target.GetExplanation(); e.GetStabilization() != nil && e.GetDesiredReplicas() == replicas {
			explained++
		}
		expected := o.GetChanges()
		for range 40 {
			if until := o.GetUntilTime(); until != nil && !s.Clock.Now().Before(until.AsTime()) {
				break
			}
			before, now := replicas, s.Clock.Now()
			ask(value)
			due := len(expected) > 0 && expected[0].GetTime().AsTime().Equal(now)
			if due != (before != replicas) || due && expected[0].GetReplicas() != replicas {
				t.Fatalf("target %d: at %v %d become %d, the outlook has %v", n, now, before, replicas, expected)
			}
			if due {
				changes++
				expected = expected[1:]
			}
		}
	}
	if changes < 150 || explained < 180 {
		t.Errorf("%d changes came, and %d of 200 decisions are explained", changes, explained)
	}
}

// Where no decision can come the outlook says why, and no count.
func TestAnOutlookSaysWhyNothingCanChange(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*setpointv1.RecommendRequest)
		want   string
	}{
		"the metric fails":    {func(r *setpointv1.RecommendRequest) { r.ExternalMetrics = nil }, recommender.FailedGetExternalMetric},
		"scaling is disabled": {func(r *setpointv1.RecommendRequest) { r.Scale = &setpointv1.Scale{} }, recommender.ScalingDisabled},
		"the scale is not read": {func(r *setpointv1.RecommendRequest) {
			r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Message: "away"}
		}, recommender.FailedGetScale},
		"nothing is the matter": {func(*setpointv1.RecommendRequest) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			req := servertest.Queue(servertest.Web, 3, 40)
			uses(t, s, req)
			tt.change(req)
			s.Recommend(t, req)
			o := s.Target(t, servertest.Web).GetOutlook()
			if o.GetProblem() != tt.want {
				t.Errorf("the problem is %q, want %q", o.GetProblem(), tt.want)
			}
			if tt.want != "" && (o.GetReplicas() != 0 || o.GetHighestReplicas() != 0 || len(o.GetChanges()) > 0) {
				t.Errorf("the outlook has counts: %v", o)
			}
			for _, m := range s.Target(t, servertest.Web).GetExplanation().GetMetrics() {
				if (m.Proposal == nil) != (tt.want != "") {
					t.Errorf("the metric is %v", m)
				}
			}
		})
	}
}

// Where a metric's target of type Value ends the outlook that is said, to callers and to people.
func TestAnOutlookSaysWhyItEnds(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := servertest.Queue(servertest.Web, 3, 40)
	metric := req.Spec.Metrics[0].External
	metric.Target = &setpointv1.MetricTarget{Type: "Value", Value: proto.String("20")}
	uses(t, s, req)
	for i := range 6 {
		since := timestamppb.New(s.Clock.Now().Add(-time.Hour))
		req.Pods = append(req.Pods, &setpointv1.Pod{Name: fmt.Sprint(i), Phase: "Running", StartTime: since, Ready: &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: since}})
	}
	s.Recommend(t, req)
	o := s.Target(t, servertest.Web).GetOutlook()
	lines := explain.Outlook(o, s.Clock.Now())
	if o.GetUntilTime() == nil || !strings.Contains(o.GetUntilReason(), "target of type Value") || !strings.HasSuffix(lines[len(lines)-1], " → unknown: "+o.GetUntilReason()) {
		t.Errorf("%v, %q", o, lines)
	}
	metric.Target = &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")}
	uses(t, s, req)
	s.Clock.Advance(time.Second)
	s.Recommend(t, req)
	if o := s.Target(t, servertest.Web).GetOutlook(); o.GetUntilTime() == nil != (o.GetUntilReason() == "") || strings.Contains(o.GetUntilReason(), "Value") {
		t.Errorf("an average: %v", o)
	}
}

// Of a target that nobody asks for nothing is known: from the instant on at which it counts so, until somebody asks.
func TestTheOutlookOfASilentTargetIsUnknown(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := servertest.Queue(servertest.Web, 3, 40)
	uses(t, s, req)
	check := func(what string, known bool) {
		t.Helper()
		o := s.Target(t, servertest.Web).GetOutlook()
		if got := o.GetProblem() == ""; got != known || known != (o.GetStartTime() != nil && o.GetReplicas() > 0) || !known && !strings.HasPrefix(o.GetProblem(), "nobody asks") {
			t.Errorf("%s: the outlook is %v", what, o)
		}
	}
	for range 3 {
		s.Clock.Advance(servertest.Period)
		s.Recommend(t, req)
	}
	s.Clock.Advance(3 * servertest.Period)
	check("after three periods", true)
	s.Clock.Advance(time.Second)
	check("after more", false)
	s.Recommend(t, req)
	check("after a call", true)
}

// Without the spec nothing is told, for any guess may be wrong.
func TestWithoutASpecNothingIsTold(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 40))
	if target := s.Target(t, servertest.Web); target.GetSpecInUse() == nil && (target.GetOutlook() != nil || target.GetExplanation() != nil) {
		t.Errorf("the target has %v, %v", target.GetOutlook(), target.GetExplanation())
	}
}
