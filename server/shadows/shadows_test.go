package shadows_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/explain"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/server/shadows"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/stages/forecast"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// store stores a spec of a target with shadows.
func set(t *testing.T, s *servertest.Service, target string, spec *setpointv1.HorizontalPodAutoscalerSpec, shadows ...*setpointv1.Shadow) *setpointv1.TargetSpec {
	t.Helper()
	resp, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: target, TargetSpec: &setpointv1.TargetSpec{
		Spec: spec, Period: durationpb.New(time.Second), Shadows: shadows,
	}})
	fatal.If(t, err)
	return resp.GetTargetSpec()
}

func shadow(name string, spec *setpointv1.HorizontalPodAutoscalerSpec) *setpointv1.Shadow {
	return &setpointv1.Shadow{Name: name, Spec: spec}
}

// only is the only shadow of a target.
func only(t *testing.T, s *servertest.Service, target string) *setpointv1.ShadowState {
	t.Helper()
	all := s.Target(t, target).GetShadows()
	if len(all) != 1 {
		t.Fatalf("%d shadows: %v", len(all), all)
	}
	return all[0]
}

// cpu is a request of ten pods with that usage, and a spec with that target.
func cpu(usage string, wanted int32) *setpointv1.RecommendRequest {
	req := servertest.PodsRequest(10)
	for _, m := range req.GetPodMetrics() {
		m.Containers[0].Usage["cpu"], m.Containers[1].Usage["cpu"] = usage, "50m"
	}
	req.Spec.Metrics[0].Resource.Target.AverageUtilization = &wanted
	return req
}

// H1 to H3: the design's examples. Agents send their own spec; a slow path is as good as the fast one.
func TestAShadowDecidesBesideWhatIsInForce(t *testing.T) {
	other := cpu("", 70).GetSpec()
	for _, tt := range []struct {
		name         string
		usage        string
		live, shadow int32
	}{
		{"H1: 80 % of cpu, 60 % wanted, the shadow wants 70 %", "350m", 14, 12},
		{"H2: 65 % is within both tolerances", "275m", 10, 10},
	} {
		for _, slow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, slow %t", tt.name, slow), func(t *testing.T) {
				s := servertest.Start(t)
				req := cpu(tt.usage, 60)
				if slow {
					servertest.TakeSlowPath(req)
				}
				set(t, s, req.GetTarget(), req.GetSpec(), shadow("next", other))
				if got := s.Recommend(t, req).GetDesiredReplicas(); got != tt.live {
					t.Fatalf("decided %d, want %d", got, tt.live)
				}
				got := only(t, s, req.GetTarget())
				if got.GetName() != "next" || got.GetLiveReplicas() != tt.live || got.GetDesiredReplicas() != tt.shadow || got.GetProblem() != "" ||
					got.GetComparedDecisions() != 1 || got.GetLargestDifference() != tt.shadow-tt.live || (got.GetDiffersSinceTime() != nil) != (tt.live != tt.shadow) {
					t.Errorf("got %v", got)
				}
			})
		}
	}
}

// Overrides act on shadows, too: one that pins the count is no difference.
func TestOverridesActOnShadows(t *testing.T) {
	s := servertest.Start(t)
	spec := servertest.Queue(servertest.Web, 1, 1).GetSpec()
	set(t, s, servertest.Web, spec, shadow("same", spec))
	if _, err := setpointv1.NewOverrideServiceClient(s.Conn).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{
		Parent: servertest.Web, OverrideId: "pinned",
		Override: &setpointv1.Override{Reason: "migration", Pin: new(int32(7)), ExpireTime: timestamppb.New(servertest.T0.Add(time.Hour))},
	}); err != nil {
		t.Fatal(err)
	}
	if got := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)).GetDesiredReplicas(); got != 7 {
		t.Fatalf("decided %d", got)
	}
	if got := s.Target(t, servertest.Web).GetShadows()[0]; got.GetDesiredReplicas() != 7 || got.GetDifferentDecisions() != 0 || got.GetComparedDecisions() != 1 {
		t.Errorf("the shadow: %v", got)
	}
}

func TestAShadowWithOtherMetricsIsOff(t *testing.T) { // H3
	s, registry := servertest.Measured(t)
	spec := servertest.Queue(servertest.Web, 1, 1).GetSpec()
	set(t, s, servertest.Web, spec, shadow("next", spec))
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
	if got := only(t, s, servertest.Web); got.GetProblem() != "" || got.GetDesiredReplicas() != 5 {
		t.Fatalf("before: %v", got)
	}
	s.Clock.Advance(servertest.Period)
	edited := servertest.Queue(servertest.Web, 5, 0)
	edited.Spec.Metrics[0].External.Metric.Name, edited.ExternalMetrics[0].Metric.Name, edited.ExternalMetrics[0].Value = "lag", "lag", "80"
	if got := s.Recommend(t, edited).GetDesiredReplicas(); got != 8 {
		t.Errorf("the spec in use decided %d", got)
	}
	if got := only(t, s, servertest.Web); got.GetProblem() != `its metric "External:queue-depth" is none of the spec in use, so it is not read` || got.GetComparedDecisions() != 1 {
		t.Errorf("after: %v", got)
	}
	s.Clock.Advance(servertest.Period)
	s.Recommend(t, servertest.Queue(servertest.Web, 8, 80))
	if got := only(t, s, servertest.Web); got.GetProblem() != "" || got.GetComparedDecisions() != 2 {
		t.Errorf("once it is back: %v", got)
	}
	servertest.Read(t, registry).Since(nil, "shadow_").Expect(t, servertest.Reading{
		"shadow_decisions_total{result=same}": 2, "shadow_decisions_total{result=off}": 1,
	})
}

// What shadows cost counts for the call that they are decided with: 100 metrics of 20,000 pods are 2 million cells, and a
// call has 2 million and 8 for each of its bytes. Stages cost a second evaluation.
func TestShadowsAreWithinTheBudgetOfTheCall(t *testing.T) {
	const problem = "the call has too many pods and metrics for one more decision: ask for less at once"
	s := servertest.Start(t)
	req := servertest.Queue(servertest.Web, 3, 50)
	for i := range 99 {
		name := fmt.Sprintf("q%d", i)
		req.Spec.Metrics = append(req.Spec.Metrics, proto.CloneOf(req.GetSpec().GetMetrics()[0]))
		req.Spec.Metrics[1+i].External.Metric.Name = name
		req.ExternalMetrics = append(req.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: name}, Value: "1"})
	}
	for i := range 20_000 {
		req.Pods = append(req.Pods, &setpointv1.Pod{Name: fmt.Sprintf("pod-%010d", i)})
	}
	plain, staged := shadow("plain", req.GetSpec()), shadow("staged", req.GetSpec())
	staged.Stages = &setpointv1.Stages{WindowThroughFailures: true}
	for _, tt := range []struct {
		shadows  []*setpointv1.Shadow
		problems []string
	}{
		{[]*setpointv1.Shadow{plain}, []string{""}},
		{[]*setpointv1.Shadow{staged}, []string{problem}},
		{[]*setpointv1.Shadow{plain, shadow("other", plain.GetSpec())}, []string{"", problem}},
	} {
		set(t, s, servertest.Web, req.GetSpec(), tt.shadows...)
		s.Clock.Advance(servertest.Period)
		if got := s.Recommend(t, req).GetDesiredReplicas(); got != 5 {
			t.Fatalf("decided %d", got)
		}
		for i, got := range s.Target(t, servertest.Web).GetShadows() {
			if got.GetProblem() != tt.problems[i] {
				t.Errorf("%d shadows, %s: problem %q, want %q", len(tt.shadows), got.GetName(), got.GetProblem(), tt.problems[i])
			}
		}
	}
	s.Clock.Advance(servertest.Period)
	req.Pods = req.Pods[:2000]
	s.Recommend(t, req)
	for _, got := range s.Target(t, servertest.Web).GetShadows() {
		if got.GetProblem() != "" || got.GetComparedDecisions() == 0 {
			t.Errorf("of fewer pods: %v", got)
		}
	}
}

// A shadow has the forecast of the spec in use, as far as it is made in the same way: with other targets as much as these
// differ. Here it acts for shadows only.
func TestAShadowForesees(t *testing.T) {
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.MaxClockSkew = 0 })
	foresees := func(mode string, quantile int32) *setpointv1.Stages {
		return &setpointv1.Stages{Forecast: &setpointv1.Forecast{Mode: mode, TimeZone: "UTC", QuantilePercent: quantile}}
	}
	ask := func(replicas, queue int32, stages *setpointv1.Stages) *setpointv1.RecommendResponse {
		req := servertest.Queue(servertest.Web, replicas, queue)
		req.Stages = stages
		resp := s.Recommend(t, req)
		s.Clock.Advance(forecast.Length)
		return resp
	}
	const quarters = 9 * 96
	for range quarters {
		ask(14, 140, foresees("", 0))
	}
	part, err := s.Memory.Part(store.Forecasts, 0)
	fatal.If(t, err)
	servertest.Eventually(t, func() bool {
		r, err := part.Load(t.Context(), servertest.KeyOf(servertest.Web))
		ring, bad := forecast.Decode(r.Value)
		return err == nil && bad == nil && ring.Recent(forecast.BucketOf(s.Clock.Now())-quarters, quarters) >= quarters-1
	})
	spec := servertest.Queue(servertest.Web, 1, 1).GetSpec()
	twice := proto.CloneOf(spec)
	twice.Metrics[0].External.Target.AverageValue = new("20")
	floor := func(name string, spec *setpointv1.HorizontalPodAutoscalerSpec, quantile int32) *setpointv1.Shadow {
		return &setpointv1.Shadow{Name: name, Spec: spec, Stages: foresees("FLOOR", quantile)}
	}
	for _, c := range []struct {
		live          *setpointv1.Stages
		first, second int32
		one           *setpointv1.Shadow
	}{
		{foresees("", 0), 14, 7, floor("twice", twice, 0)},
		{foresees("", 0), 14, 9, floor("quantile", spec, 50)}, // another forecast: of its past nothing is known
		{nil, 9, 9, floor("quantile", spec, 50)},              // of none, too
	} {
		set(t, s, servertest.Web, spec, floor("same", spec, 0), c.one)
		if got := ask(9, 90, c.live).GetDesiredReplicas(); got != 9 {
			t.Fatalf("decided %d", got)
		}
		if got := s.Target(t, servertest.Web).GetShadows(); got[0].GetDesiredReplicas() != c.first || got[1].GetDesiredReplicas() != c.second || got[0].GetProblem()+got[1].GetProblem() != "" {
			t.Errorf("in use %v, %s: %v", c.live, c.one.GetName(), got)
		}
	}
}

// A shadow that can't compute a count keeps it, which is no recommendation to compare: promoted, it would answer polls
// with an error.
func TestAShadowWhoseMetricsFailIsOff(t *testing.T) {
	s := servertest.Start(t)
	both, lag := servertest.Queue(servertest.Web, 3, 50), servertest.Queue(servertest.Web, 3, 50).GetSpec()
	lag.Metrics[0].External.Metric.Name = "lag"
	both.Spec.Metrics = append(both.Spec.Metrics, lag.GetMetrics()...)
	set(t, s, servertest.Web, both.GetSpec(), shadow("next", lag), &setpointv1.Shadow{Name: "old", Spec: both.GetSpec(), Options: &setpointv1.RecommendOptions{Profile: "design-2015"}})
	if got := s.Recommend(t, both).GetDesiredReplicas(); got != 5 {
		t.Fatalf("decided %d", got)
	}
	for _, got := range s.Target(t, servertest.Web).GetShadows() {
		if !strings.HasPrefix(got.GetProblem(), "it can't compute a count: ") || got.GetComparedDecisions() != 0 {
			t.Errorf("without its metric: %v", got)
		}
	}
	s.Clock.Advance(servertest.Period)
	both.ExternalMetrics = append(both.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: "lag"}, Value: "40"})
	s.Recommend(t, both)
	if got := s.Target(t, servertest.Web).GetShadows()[0]; got.GetProblem() != "" || got.GetDesiredReplicas() != 4 || got.GetComparedDecisions() != 1 {
		t.Errorf("once it is there: %v", got)
	}
}

// windowed is a spec with windows and policies both ways.
func windowed(average string) *setpointv1.HorizontalPodAutoscalerSpec {
	spec := servertest.Queue(servertest.Web, 1, 1).GetSpec()
	spec.MaxReplicas = 60
	spec.Metrics[0].External.Target.AverageValue = &average
	spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{
		ScaleUp:   &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(30)), Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 6, PeriodSeconds: 60}}},
		ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(120)), Policies: []*setpointv1.HPAScalingPolicy{{Type: "Percent", Value: 20, PeriodSeconds: 60}}},
	}
	return spec
}

// A shadow with the spec in use never differs, from whenever on there is one: with scale events, changes that fail,
// other writers, metrics that fail, pauses, and stages.
func TestPropertyAShadowWithTheSpecInUseNeverDiffers(t *testing.T) {
	s := servertest.Start(t)
	random := rand.New(rand.NewPCG(33, 3))
	spec := windowed("10")
	stages := &setpointv1.Stages{Guards: &setpointv1.Guards{Reversals: &setpointv1.ReversalBudget{Count: 1, Period: durationpb.New(time.Hour)}}}
	replicas, load := int32(5), int32(50)
	for i := range 1000 {
		if i == 100 {
			if _, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Web, TargetSpec: &setpointv1.TargetSpec{
				Spec: spec, Shadows: []*setpointv1.Shadow{{Name: "same", Spec: spec, Stages: stages}, {Name: "two", Spec: windowed("20")}},
			}}); err != nil {
				t.Fatal(err)
			}
		}
		load = max(0, load+random.Int32N(81)-40)
		req := servertest.Queue(servertest.Web, replicas, load)
		req.Spec, req.Stages, req.RestartAfterPause = spec, stages, random.IntN(2) == 0
		if random.IntN(20) == 0 {
			req.ExternalMetrics = nil
		}
		resp := s.Recommend(t, req)
		if i >= 100 {
			all := s.Target(t, servertest.Web).GetShadows()
			if got := all[0]; got.GetDesiredReplicas() != resp.GetDesiredReplicas() || got.GetProblem() != "" {
				t.Fatalf("step %d: decided %d of %d, the shadow: %v", i, resp.GetDesiredReplicas(), replicas, got)
			}
			if i == 999 && (all[0].GetDifferentDecisions() != 0 || all[0].GetComparedDecisions() != 900 || all[0].GetLiveReplicaSeconds() != all[0].GetShadowReplicaSeconds() || all[1].GetDifferentDecisions() < 100) {
				t.Errorf("in the end: %v", all)
			}
		}
		switch random.IntN(10) {
		case 0: // it fails
		case 1: // somebody else scales
			replicas = max(1, replicas+random.Int32N(5)-2)
		default:
			replicas = resp.GetDesiredReplicas()
			if resp.GetRecommendationId() != "" && random.IntN(2) == 0 {
				s.Report(t, servertest.Web, resp.GetRecommendationId(), "APPLIED", "")
			}
		}
		s.Clock.Advance(time.Duration(5+random.IntN(30)) * time.Second)
		if random.IntN(20) == 0 {
			s.Clock.Advance(time.Hour)
		}
	}
}

// For a caller that asks for that, windows begin anew after a pause, those of shadows as well: neither a shadow nor a spec that
// was one, and is in use since the pause, obeys the first value at once.
func TestAPauseRestartsTheWindowsOfShadows(t *testing.T) {
	for _, moved := range []bool{false, true} {
		s := servertest.Start(t)
		spec, other := windowed("10"), windowed("20")
		set(t, s, servertest.Web, spec, shadow("next", other))
		ask := func(spec *setpointv1.HorizontalPodAutoscalerSpec, replicas, queue int32) int32 {
			req := servertest.Queue(servertest.Web, replicas, queue)
			req.Spec, req.RestartAfterPause = spec, true
			s.Clock.Advance(servertest.Period)
			return s.Recommend(t, req).GetDesiredReplicas()
		}
		for range 4 {
			ask(spec, 12, 120)
		}
		s.Clock.Advance(time.Hour)
		if moved {
			spec = other
		}
		got, beside := ask(spec, 12, 20), only(t, s, servertest.Web)
		if got != 12 || beside.GetDesiredReplicas() != 12 || beside.GetProblem() != "" {
			t.Errorf("moved %t: after the pause %d, the shadow: %v", moved, got, beside)
		}
	}
}

// step reports a queue and polls, as a caller that applies each answer.
type caller struct {
	*servertest.Service
	replicas int32
}

func (c *caller) step(t *testing.T, queue int32) int32 {
	t.Helper()
	c.Observe(t, c.replicas, fmt.Sprint(queue))
	resp, err := c.Recommendations.GetRecommendation(t.Context(), &setpointv1.GetRecommendationRequest{Target: servertest.Polled, CurrentReplicas: &c.replicas})
	fatal.If(t, err)
	c.replicas = resp.GetRecommendation().GetDesiredReplicas()
	c.Clock.Advance(servertest.Period)
	return c.replicas
}

func polled(average string, window int32) *setpointv1.HorizontalPodAutoscalerSpec {
	spec := servertest.QueueSpec(1, 100).GetSpec()
	spec.Metrics[0].External.Target.AverageValue = &average
	spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{
		StabilizationWindowSeconds: &window, Policies: []*setpointv1.HPAScalingPolicy{{Type: "Percent", Value: 100, PeriodSeconds: 15}},
	}}
	return spec
}

func promote(t *testing.T, s *servertest.Service, etag, condition string) (*setpointv1.TargetSpec, error) {
	t.Helper()
	resp, err := s.Targets.PromoteShadow(t.Context(), &setpointv1.PromoteShadowRequest{Name: servertest.Polled, Shadow: "next", Etag: etag, Condition: condition})
	return resp.GetTargetSpec(), err
}

// H4: the window of the shadow, which has seen the load, holds the count from the first decision on; so does that of the
// former spec after the way back.
func TestPromotionKeepsWindows(t *testing.T) {
	c := &caller{Service: servertest.Start(t), replicas: 1}
	eager, patient := polled("10", 0), polled("10", 300)
	stored := set(t, c.Service, servertest.Polled, eager, shadow("next", patient))
	if got := c.step(t, 40); got != 4 {
		t.Fatalf("decided %d", got)
	}
	if got := c.step(t, 10); got != 1 {
		t.Fatalf("without a window %d", got)
	}
	if got := only(t, c.Service, servertest.Polled); got.GetDesiredReplicas() != 4 || got.GetDifferentDecisions() != 1 {
		t.Fatalf("the shadow: %v", got)
	}
	c.replicas = 4 // somebody scales up by hand
	promoted, err := promote(t, c.Service, stored.GetEtag(), "")
	fatal.If(t, err)
	if !proto.Equal(promoted.GetSpec(), patient) || !proto.Equal(promoted.GetShadows()[0].GetSpec(), eager) || promoted.GetShadows()[0].GetName() != "next" {
		t.Fatalf("stored: %v", promoted)
	}
	if got := c.step(t, 10); got != 4 {
		t.Errorf("the promoted spec decided %d: its window is cold", got)
	}
	if got := only(t, c.Service, servertest.Polled); got.GetDesiredReplicas() != 1 || got.GetComparedDecisions() != 1 {
		t.Errorf("the former spec as the shadow: %v", got)
	}
	_, err = promote(t, c.Service, stored.GetEtag(), "")
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Aborted, "SPEC_CHANGED")
	back, err := promote(t, c.Service, promoted.GetEtag(), "")
	if err != nil || !proto.Equal(back.GetSpec(), eager) || !proto.Equal(back.GetShadows()[0].GetSpec(), patient) {
		t.Fatalf("back: %v, %v", back, err)
	}
	if got := c.step(t, 10); got != 1 {
		t.Errorf("the former spec decided %d", got)
	}
	if got := only(t, c.Service, servertest.Polled); got.GetDesiredReplicas() != 4 {
		t.Errorf("the shadow's window is cold: %v", got)
	}
	for edits, spec := range []*setpointv1.HorizontalPodAutoscalerSpec{patient, polled("10", 600)} {
		set(t, c.Service, servertest.Polled, eager, shadow("last", spec))
		c.replicas = 4
		c.step(t, 10)
		if got := only(t, c.Service, servertest.Polled); got.GetDesiredReplicas() != 4 || got.GetComparedDecisions() != 1 {
			t.Errorf("renamed, edits %d: %v", edits, got)
		}
	}
}

// sourced are sources of metrics that always have 40.
type sourced struct{}

func (sourced) Check(store.Key, *setpointv1.TargetSpec) []validation.Violation { return nil }

func (sourced) Fetch(context.Context, store.Key, *setpointv1.TargetSpec, []string) (*stored.Fetched, error) {
	return &stored.Fetched{ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "40"}}}, nil
}

// A shadow without a metric that the stored spec has a query for is not promoted, and the error says which.
func TestAQueryWithoutItsMetricIsInTheWayOfAPromotion(t *testing.T) {
	c := &caller{Service: servertest.Start(t, func(su *servertest.Setup) { su.Options.Sources = sourced{} }), replicas: 1}
	other := polled("10", 0)
	other.Metrics[0].External.Metric.Name = "lag"
	spec := &setpointv1.TargetSpec{Spec: polled("10", 0), Queries: []*setpointv1.MetricQuery{{Metric: "External:queue", Source: "any", Query: "q"}}, Shadows: []*setpointv1.Shadow{shadow("next", other)}}
	resp, err := c.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Polled, TargetSpec: spec})
	fatal.If(t, err)
	if got := c.step(t, 40); got != 4 {
		t.Fatalf("decided %d", got)
	}
	_, err = promote(t, c.Service, resp.GetTargetSpec().GetEtag(), "")
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "NOT_PROMOTED")
	if !strings.Contains(status.Convert(err).Message(), "no metric External:queue, or several, for which the stored spec has a query (queries[0])") {
		t.Errorf("the error: %v", err)
	}
	if after, err := c.Targets.GetTargetSpec(t.Context(), &setpointv1.GetTargetSpecRequest{Name: servertest.Polled}); err != nil || after.GetTargetSpec().GetEtag() != resp.GetTargetSpec().GetEtag() {
		t.Errorf("the stored spec is another one: %v, %v", after, err)
	}
}

// The history of a spec that is in use no more, and no shadow, is kept for an hour, for the way back.
func TestTheFormerSpecIsKeptForAnHour(t *testing.T) {
	s := servertest.Start(t)
	eager, patient := servertest.Queue(servertest.Web, 1, 40), servertest.Queue(servertest.Web, 1, 40)
	patient.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(3600))
	set(t, s, servertest.Web, patient.GetSpec(), shadow("next", eager.GetSpec()))
	ask := func(of *setpointv1.RecommendRequest, replicas, queue int32) int32 {
		t.Helper()
		req := servertest.Queue(servertest.Web, replicas, queue)
		req.Spec = of.GetSpec()
		return s.Recommend(t, req).GetDesiredReplicas()
	}
	former := func() (n int) {
		t.Helper()
		known, err := record.Decode(s.Stored(t, servertest.Web))
		kept := &storedv1.Shadows{}
		if err != nil || proto.Unmarshal(known.Shadows, kept) != nil {
			t.Fatal("the record can't be read", err)
		}
		for _, h := range kept.GetHistories() {
			if h.GetName() == "" {
				n++
			}
		}
		return n
	}
	if got := ask(patient, 1, 40); got != 4 {
		t.Fatalf("decided %d", got)
	}
	if former() != 0 {
		t.Error("the spec in use is kept beside itself")
	}
	s.Clock.Advance(servertest.Period)
	if got := ask(eager, 4, 10); got != 1 || former() != 1 {
		t.Fatalf("another spec decided %d, %d histories of former ones", got, former())
	}
	s.Clock.Advance(30 * time.Minute)
	if got := ask(patient, 4, 10); got != 4 || former() != 0 {
		t.Errorf("back within the hour it decided %d: its window is cold; %d histories of former ones", got, former())
	}
	s.Clock.Advance(servertest.Period)
	ask(eager, 4, 10)
	s.Clock.Advance(time.Hour - 2*servertest.Period)
	if ask(eager, 1, 10); former() != 1 {
		t.Error("it is gone within the hour")
	}
	s.Clock.Advance(2 * servertest.Period)
	if ask(eager, 1, 10); former() != 0 {
		t.Error("it is kept for longer than an hour")
	}
}

// With metrics of single targets each shadow has one, unless it is off, which go with the shadow.
func TestAShadowHasAMetric(t *testing.T) {
	s, registry := servertest.Measured(t, func(su *servertest.Setup) { su.Options.TargetMetrics = 5 })
	req := servertest.Queue(servertest.Web, 1, 40)
	half, off := proto.CloneOf(req.GetSpec()), proto.CloneOf(req.GetSpec())
	half.Metrics[0].External.Target.AverageValue, off.Metrics[0].External.Metric.Name = new("20"), "lag"
	set(t, s, servertest.Web, req.GetSpec(), shadow("half", half), shadow("off", off))
	s.Recommend(t, req)
	servertest.Read(t, registry).Since(nil, "shadow_decisions_").Expect(t, servertest.Reading{"shadow_decisions_total{result=different}": 1, "shadow_decisions_total{result=off}": 1})
	const name = "target_shadow_desired_replicas{cluster=demo,namespace=shop,shadow=half,target=web}"
	got := servertest.Read(t, registry).Since(nil, "target_shadow_")
	if len(got) != 1 || got[name] != 2 {
		t.Errorf("got %v, want %s 2", got, name)
	}
	set(t, s, servertest.Web, req.GetSpec())
	s.Clock.Advance(servertest.Period)
	s.Recommend(t, req)
	if got := servertest.Read(t, registry).Since(nil, "target_shadow_"); len(got) != 0 {
		t.Errorf("without shadows: %v", got)
	}
}

// A report about a change that was recommended before a promotion finds it.
func TestAChangeBeforeAPromotionIsReported(t *testing.T) {
	for _, outcome := range []string{"APPLIED", "DROPPED"} {
		c := &caller{Service: servertest.Start(t), replicas: 1}
		stored := set(t, c.Service, servertest.Polled, polled("10", 0), shadow("next", polled("20", 0)))
		pending := func() string { return c.Target(t, servertest.Polled).GetHistory().GetPending().GetRecommendationId() }
		c.step(t, 20)
		before := pending()
		c.step(t, 40)
		id := pending()
		if _, err := promote(t, c.Service, stored.GetEtag(), ""); err != nil {
			t.Fatal(err)
		}
		if outcome == "DROPPED" {
			c.replicas = 3
		}
		if got := c.step(t, 40); got != 2 {
			t.Errorf("decided %d with twice the target", got)
		}
		if got := c.Decisions(t, servertest.Polled); len(got) != 3 || got[1].GetRecommendationId() != id || got[1].GetOutcome() != outcome {
			t.Errorf("%s: the log has %v", outcome, got)
		}
		c.Report(t, servertest.Polled, before, "APPLIED", "")
		c.Report(t, servertest.Polled, id, "APPLIED", "")
	}
}

// Agents that send another spec find its history where it was a shadow, and nothing of the shadows is lost.
func TestAnAgentThatTakesTheShadowsSpecFindsItsWindow(t *testing.T) {
	s := servertest.Start(t)
	eager, patient := servertest.Queue(servertest.Web, 1, 40), servertest.Queue(servertest.Web, 1, 40)
	patient.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(300))
	stored := set(t, s, servertest.Web, eager.GetSpec(), shadow("next", patient.GetSpec()))
	ask := func(of *setpointv1.RecommendRequest, replicas, queue int32) int32 {
		req := servertest.Queue(servertest.Web, replicas, queue)
		req.Spec = of.GetSpec()
		s.Clock.Advance(servertest.Period)
		return s.Recommend(t, req).GetDesiredReplicas()
	}
	ask(eager, 1, 40)
	if got := ask(eager, 4, 10); got != 1 {
		t.Fatalf("without a window %d", got)
	}
	_, err := s.Targets.PromoteShadow(t.Context(), &setpointv1.PromoteShadowRequest{Name: servertest.Web, Shadow: "next", Etag: stored.GetEtag()})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "NOT_PROMOTED")
	// The spec is the stored one, as targets get says: what keeps the shadow from being promoted is who sent it.
	if now := s.Target(t, servertest.Web); now.GetSpecInUse().GetHash() != now.GetTargetSpec().GetHash() || !strings.Contains(err.Error(), "callers send their own spec with each request, the stored one or another") {
		t.Error(now.GetSpecInUse().GetHash(), now.GetTargetSpec().GetHash(), err)
	}
	if got := ask(patient, 4, 10); got != 4 {
		t.Errorf("with the shadow's spec %d", got)
	}
	if got := only(t, s, servertest.Web); got.GetDesiredReplicas() != 4 {
		t.Errorf("the shadow: %v", got)
	}
}

// What agents send is what the Kubernetes API has: the workload's name and defaults that the user of a stored spec left
// out. It is the shadow's spec nevertheless, and the former one's, too, on the way back.
func TestAnAgentsSpecHasDefaultsFilledIn(t *testing.T) {
	s := servertest.Start(t)
	eager, patient := polled("10", 0), polled("10", 300)
	asStored := servertest.Queue(servertest.Web, 1, 40).GetSpec()
	for _, spec := range []*setpointv1.HorizontalPodAutoscalerSpec{eager, patient} {
		spec.Metrics, spec.ScaleTargetRef, spec.MinReplicas = asStored.GetMetrics(), nil, nil
	}
	set(t, s, servertest.Web, eager, shadow("next", patient))
	var options *setpointv1.RecommendOptions
	var stages *setpointv1.Stages
	ask := func(of *setpointv1.HorizontalPodAutoscalerSpec, replicas, queue int32) int32 {
		req := servertest.Queue(servertest.Web, replicas, queue)
		req.Spec, req.Options, req.Stages = proto.CloneOf(of), options, stages
		req.Spec.ScaleTargetRef = &setpointv1.CrossVersionObjectReference{ApiVersion: "apps/v1", Kind: "Deployment", Name: "web"}
		req.Spec.MinReplicas = new(int32(1))
		req.Spec.Behavior.ScaleDown.SelectPolicy = new("Max")
		req.Spec.Behavior.ScaleUp = &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)), SelectPolicy: new("Max"), Policies: []*setpointv1.HPAScalingPolicy{
			{Type: "Pods", Value: 4, PeriodSeconds: 15}, {Type: "Percent", Value: 100, PeriodSeconds: 15},
		}}
		s.Clock.Advance(servertest.Period)
		return s.Recommend(t, req).GetDesiredReplicas()
	}
	ask(eager, 1, 40)
	if got := ask(eager, 4, 10); got != 1 {
		t.Fatalf("without a window %d", got)
	}
	if got := ask(patient, 4, 10); got != 4 {
		t.Errorf("with the shadow's spec %d: its window is cold", got)
	}
	if got := only(t, s, servertest.Web); got.GetDesiredReplicas() != 4 || got.GetComparedDecisions() != 3 {
		t.Errorf("the shadow: %v", got)
	}
	if got := ask(eager, 4, 10); got != 1 {
		t.Errorf("with the former spec %d", got)
	}
	other := proto.CloneOf(patient)
	other.MaxReplicas--
	if got := ask(other, 4, 10); got != 1 {
		t.Errorf("with another spec, which is nobody's, %d: it goes on with the history before", got)
	}
	stages = &setpointv1.Stages{WindowThroughFailures: true}
	if got := ask(patient, 4, 10); got != 1 {
		t.Errorf("with the shadow's spec and other stages %d", got)
	}
	stages, options = nil, &setpointv1.RecommendOptions{Tolerance: new("0.2")}
	if got := ask(patient, 4, 10); got != 1 {
		t.Errorf("with the shadow's spec and another tolerance %d", got)
	}
	options = &setpointv1.RecommendOptions{DownscaleStabilization: durationpb.New(5 * time.Minute)}
	if got := ask(patient, 4, 10); got != 4 {
		t.Errorf("with the shadow's spec and a default set %d: its window is cold", got)
	}
}

// The former spec may have a metric that the promoted one does not have, so it decides nothing as a shadow; the way back
// is open nevertheless, also before the next decision, and goes on with the history of the decisions.
func TestTheWayBackIsOpen(t *testing.T) {
	c := &caller{Service: servertest.Start(t), replicas: 4}
	more := polled("10", 300)
	lag := proto.CloneOf(more.GetMetrics()[0])
	lag.External.Metric.Name = "lag"
	more.Metrics = append(more.Metrics, lag)
	stored := set(t, c.Service, servertest.Polled, more, shadow("next", polled("10", 300)))
	c.step(t, 40)
	there := func() {
		t.Helper()
		var err error
		stored, err = promote(t, c.Service, stored.GetEtag(), "")
		fatal.If(t, err)
	}
	there()
	there() // nothing was decided between
	if !proto.Equal(stored.GetSpec(), more) {
		t.Fatalf("back: %v", stored)
	}
	c.step(t, 40)
	there()
	for range 24 { // its own window passes
		c.step(t, 40)
	}
	if got := only(t, c.Service, servertest.Polled).GetProblem(); !strings.Contains(got, "lag") {
		t.Errorf("the former spec: %q", got)
	}
	_, err := promote(t, c.Service, stored.GetEtag(), "different < 100 % over 1m")
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "NOT_PROMOTED")
	if !strings.Contains(err.Error(), "it decides nothing: its metric") {
		t.Error(err)
	}
	there()
	if _, err := c.Recommendations.ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{
		Target: servertest.Polled, ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "lag"}, Value: "10"}},
	}); err != nil {
		t.Fatal(err)
	}
	if got := c.step(t, 10); got != 4 {
		t.Errorf("decided %d after the way back: its window is cold", got)
	}
	if got := only(t, c.Service, servertest.Polled); got.GetProblem() != "" || got.GetDesiredReplicas() != 4 {
		t.Errorf("the spec that was promoted: %v", got)
	}
}

// Who promotes is killed between the two writes, of the stored spec and of the target's record; the next poll, of another
// instance, puts the record right, and neither then nor after the way back is a window cold.
func TestAPromotionThatWasCutIsMendedByTheNextPoll(t *testing.T) {
	var faults servertest.Faults
	c := &caller{Service: servertest.Start(t, faults.FailSwaps(store.ErrUnavailable, false)), replicas: 1}
	eager, patient := polled("10", 0), polled("10", 300)
	before := set(t, c.Service, servertest.Polled, eager, shadow("next", patient))
	c.step(t, 40)
	if got := c.step(t, 10); got != 1 {
		t.Fatalf("decided %d before", got)
	}
	faults.On.Store(true)
	if _, err := promote(t, c.Service, before.GetEtag(), ""); err == nil {
		t.Fatal("nothing was cut")
	}
	faults.On.Store(false)
	resp, err := c.Targets.GetTargetSpec(t.Context(), &setpointv1.GetTargetSpecRequest{Name: servertest.Polled})
	if err != nil || !proto.Equal(resp.GetTargetSpec().GetSpec(), patient) {
		t.Fatalf("stored %v, %v", resp, err)
	}
	hashOf := func(spec *setpointv1.HorizontalPodAutoscalerSpec) string {
		return conversion.SpecHash(conversion.HashOfSpec(spec, nil, nil))
	}
	if got := only(t, c.Service, servertest.Polled).GetSpecHash(); got != hashOf(patient) {
		t.Fatalf("the record has shadow %s: nothing was cut", got)
	}
	c.replicas = 4 // somebody scales up by hand
	if got := c.step(t, 10); got != 4 {
		t.Errorf("decided %d with the promoted spec: its window is cold", got)
	}
	if got := only(t, c.Service, servertest.Polled); got.GetSpecHash() != hashOf(eager) || got.GetDesiredReplicas() != 1 || got.GetComparedDecisions() != 1 {
		t.Errorf("the shadow after the next poll: %v", got)
	}
	if _, err := promote(t, c.Service, resp.GetTargetSpec().GetEtag(), ""); err != nil {
		t.Fatal(err)
	}
	if got := c.step(t, 10); got != 1 {
		t.Errorf("decided %d after the way back", got)
	}
	// A spec without shadows is stored, and cut, too.
	faults.On.Store(true)
	if _, err := c.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Polled, TargetSpec: &setpointv1.TargetSpec{Spec: eager, Period: durationpb.New(time.Second)}}); err == nil {
		t.Fatal("nothing was cut")
	}
	faults.On.Store(false)
	if c.step(t, 10); len(c.Target(t, servertest.Polled).GetShadows()) != 0 {
		t.Error("shadows that the stored spec has no more are left")
	}
}

func TestConditionsOfPromotions(t *testing.T) {
	c := &caller{Service: servertest.Start(t), replicas: 4}
	stored := set(t, c.Service, servertest.Polled, polled("10", 0), shadow("next", polled("10", 300)))
	refused := func(condition, want string) {
		t.Helper()
		_, err := promote(t, c.Service, stored.GetEtag(), condition)
		servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "NOT_PROMOTED")
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", condition, err, want)
		}
	}
	refused("", "nothing was decided on this target: poll it once")
	c.step(t, 40)
	refused("replicas < 99 % over 5m", "nine tenths of 5 m: nothing ran in the 0s observed (1 decisions)")
	for range 19 {
		c.step(t, 40)
	}
	c.step(t, 10) // one of 21 differs
	refused("different < 2 % over 7 days", "was not observed for nine tenths of 7 days: 4.76 % of its decisions differed in the 5m observed (21 decisions)")
	if got := only(t, c.Service, servertest.Polled).GetObservedDuration().AsDuration(); got != 5*time.Minute {
		t.Errorf("it was observed for %v", got)
	}
	refused("different < 2% over 5 minutes", "not below 2 %: ")
	refused("replicas < 99 % over 5m", "not below 99 %: 100 % of the replicas")
	for _, text := range []string{"different > 2 % over 1h", "same < 2 % over 1 h", "different < 2 over 1h", "different < 2 % over 31 days", "different < 2 % over 0 h", "different < -1 % over 1h"} {
		_, err := promote(t, c.Service, stored.GetEtag(), text)
		servertest.WantViolations(t, err, "condition")
	}
	if _, err := c.Targets.PromoteShadow(t.Context(), &setpointv1.PromoteShadowRequest{Name: servertest.Polled, Shadow: "nobody", Etag: stored.GetEtag()}); status.Code(err) != codes.NotFound {
		t.Errorf("of no shadow: %v", err)
	}
	if _, err := promote(t, c.Service, stored.GetEtag(), "different < 6 % over 5 minutes"); err != nil {
		t.Error(err)
	}
}

// A promotion is judged by the percentages that are shown, also where whole seconds are few: here 40.5 of 81.
func TestAConditionIsJudgedByWhatIsShown(t *testing.T) {
	now, spec := time.Now(), shadow("next", polled("10", 0))
	kept := &storedv1.Shadows{}
	fatal.If(t, proto.Unmarshal(shadows.Specs(&setpointv1.TargetSpec{Shadows: []*setpointv1.Shadow{spec}}), kept))
	kept.Histories = []*storedv1.ShadowHistory{{
		Name: "next", Hash: kept.GetSpecs()[0].GetHash(),
		Spans: []int64{now.Add(-14 * time.Second).UnixMilli(), 14_000, 400, 49, 13_500, 81_000, 40_500 - 81_000, -3},
	}}
	encode := func() []byte {
		b, err := proto.Marshal(kept)
		fatal.If(t, err)
		return b
	}
	b := encode()
	shown := explain.Shadow(shadows.States(b)[0])
	for text, percent := range map[string]string{"replicas < 50 % over 1m": "50.6 %", "different < 2 % over 1m": "12.3 %"} {
		condition, problem := shadows.ParseCondition(text)
		if why := shadows.Refusal(b, spec, condition, now); problem != "" || !strings.Contains(why, ": "+percent+" of") || !strings.Contains(shown, percent) {
			t.Errorf("%s: %q beside %q, want %s in both; %s", text, why, shown, percent, problem)
		}
	}
	// At the bound: 2 % of 400 decisions, observed for nine tenths of a minute.
	kept.Histories[0].Spans = []int64{now.Add(-time.Minute).UnixMilli(), 60_000, 400, 8, 54_000, 54_000, 0, 0}
	b = encode()
	for text, want := range map[string]string{"different < 2 % over 1m": "it is not below 2 %", "different < 2.001 % over 1m": "", "replicas < 100.001 % over 1m": ""} {
		condition, problem := shadows.ParseCondition(text)
		if why := shadows.Refusal(b, spec, condition, now); problem != "" || !strings.HasPrefix(why, want) || (why == "") != (want == "") {
			t.Errorf("%s: %q, want %q; %s", text, why, want, problem)
		}
	}
}

// An instance that is killed after it stored a spec leaves the shadows before in the record.
func TestAConditionIsAboutTheStoredShadow(t *testing.T) {
	condition, problem := shadows.ParseCondition("different < 2 % over 30 days")
	if problem != "" {
		t.Fatal(problem)
	}
	kept := shadows.Specs(&setpointv1.TargetSpec{Shadows: []*setpointv1.Shadow{shadow("first", polled("30", 0)), shadow("next", polled("10", 0))}})
	for _, tt := range []struct{ name, average, want string }{
		{"next", "10", "nothing was decided"}, {"next", "20", "another spec of that name"}, {"third", "10", "no decision has seen it yet"},
	} {
		if got := shadows.Refusal(kept, shadow(tt.name, polled(tt.average, 0)), condition, time.Now()); !strings.Contains(got, tt.want) {
			t.Errorf("%s of %s: %q, want %q", tt.name, tt.average, got, tt.want)
		}
	}
}

func TestShadowsThatAreRefused(t *testing.T) {
	s := servertest.Start(t)
	good, bad := polled("10", 0), polled("ten", 0)
	huge := polled("10", 0)
	huge.Metrics[0].External.Metric.Selector = &setpointv1.LabelSelector{MatchLabels: map[string]string{}}
	for i := range 100 {
		huge.Metrics[0].External.Metric.Selector.MatchLabels[fmt.Sprintf("%s/%d", strings.Repeat("x.", 100)+"com", i)] = "x"
	}
	for _, tt := range []struct {
		name    string
		shadows []*setpointv1.Shadow
		field   string
	}{
		{"a third one", []*setpointv1.Shadow{shadow("a", good), shadow("b", good), shadow("c", good)}, "targetSpec.shadows"},
		{"no name", []*setpointv1.Shadow{shadow("", good)}, "targetSpec.shadows[0].name"},
		{"a name in capitals", []*setpointv1.Shadow{shadow("Next", good)}, "targetSpec.shadows[0].name"},
		{"the same name", []*setpointv1.Shadow{shadow("a", good), shadow("a", good)}, "targetSpec.shadows[1].name"},
		{"no spec", []*setpointv1.Shadow{shadow("a", nil)}, "targetSpec.shadows[0].spec"},
		{"a bad spec", []*setpointv1.Shadow{shadow("a", bad)}, "targetSpec.shadows[0].spec.metrics[0].external.target.averageValue"},
		{"a long spec", []*setpointv1.Shadow{shadow("a", huge)}, "targetSpec.shadows[0].spec"},
	} {
		_, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Polled, TargetSpec: &setpointv1.TargetSpec{Spec: good, Shadows: tt.shadows}})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		servertest.WantViolations(t, err, tt.field)
	}
}

// Deleted shadows are gone, those of a deleted target stay with its stored spec, and a namesake begins without history.
func TestShadowsComeAndGoWithTheStoredSpec(t *testing.T) {
	s := servertest.Start(t)
	spec := servertest.Queue(servertest.Web, 1, 1).GetSpec()
	set(t, s, servertest.Web, spec, shadow("next", spec))
	ask := func(uid string) {
		s.Clock.Advance(servertest.Period)
		req := servertest.Queue(servertest.Web, 3, 50)
		req.TargetUid = uid
		s.Recommend(t, req)
	}
	ask("one")
	ask("one")
	if got := only(t, s, servertest.Web); got.GetComparedDecisions() != 2 {
		t.Errorf("got %v", got)
	}
	ask("two")
	if got := only(t, s, servertest.Web); got.GetComparedDecisions() != 1 {
		t.Errorf("of a namesake: %v", got)
	}
	if _, err := s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web}); err != nil {
		t.Fatal(err)
	}
	ask("two")
	if got := only(t, s, servertest.Web); got.GetComparedDecisions() != 1 {
		t.Errorf("of a target that was deleted: %v", got)
	}
	set(t, s, servertest.Web, spec, shadow("next", windowed("5")))
	ask("two")
	if got := only(t, s, servertest.Web); got.GetComparedDecisions() != 1 || got.GetDesiredReplicas() == 5 {
		t.Errorf("edited: %v", got)
	}
	if _, err := s.Targets.DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: servertest.Web}); err != nil {
		t.Fatal(err)
	}
	if got := s.Target(t, servertest.Web).GetShadows(); got != nil {
		t.Errorf("deleted: %v", got)
	}
}

// Two instances on one Redis decide while shadows are promoted to and fro: no history is lost, whoever decides with
// which version of the spec.
func TestPromotionsWhileTwoInstancesDecide(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	both := make([]*servertest.Service, 2)
	for i := range both {
		engine := servertest.Redis(t, server.URL())
		both[i] = servertest.Start(t, func(su *servertest.Setup) { su.Engine, su.Log, su.Options.Clock = engine, engine, time.Now })
	}
	c := &caller{Service: both[0], replicas: 1}
	set(t, both[0], servertest.Polled, polled("10", 0), shadow("next", polled("10", 3600)))
	c.step(t, 90)                                                                           // which only the window of an hour remembers later
	set(t, both[0], servertest.Polled, polled("10", 0), shadow("next", polled("10", 3600))) // another version is decided at once
	c.step(t, 10)
	done := make(chan struct{})
	var polls sync.WaitGroup
	for _, s := range both {
		polls.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := s.Recommendations.GetRecommendation(context.Background(), &setpointv1.GetRecommendationRequest{Target: servertest.Polled, CurrentReplicas: new(int32(9))}); err != nil && status.Code(err) != codes.Aborted && status.Code(err) != codes.FailedPrecondition {
					t.Error(err)
					return
				}
			}
		})
	}
	promotions := 0
	for i, until := 0, time.Now().Add(20*time.Second); promotions < 21 && time.Now().Before(until); i++ {
		s := both[i%2]
		now, err := s.Targets.GetTargetSpec(t.Context(), &setpointv1.GetTargetSpecRequest{Name: servertest.Polled})
		fatal.If(t, err)
		s.Observe(t, 9, "10")
		switch _, err := promote(t, s, now.GetTargetSpec().GetEtag(), ""); status.Code(err) {
		case codes.OK:
			promotions++
		case codes.Aborted, codes.FailedPrecondition: // its first decision is still to come
		default:
			t.Fatal(err)
		}
	}
	close(done)
	polls.Wait()
	if promotions != 21 {
		t.Fatalf("%d promotions", promotions)
	}
	c.replicas = 9
	got := c.step(t, 10)
	spec, err := c.Targets.GetTargetSpec(t.Context(), &setpointv1.GetTargetSpecRequest{Name: servertest.Polled})
	fatal.If(t, err)
	patient, other := got, only(t, c.Service, servertest.Polled).GetDesiredReplicas()
	if spec.GetTargetSpec().GetSpec().GetBehavior().GetScaleDown().GetStabilizationWindowSeconds() == 0 {
		patient, other = other, patient
	}
	if patient != 9 || other != 1 {
		t.Errorf("the patient one decided %d, want 9 by its window; the other one %d, want 1", patient, other)
	}
}
