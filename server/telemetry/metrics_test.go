package telemetry_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// aboutDecisions are the metrics of decisions, whatever call they came with.
var aboutDecisions = []string{"recommendation", "decision", "metric_failures"}

// queueBehavior is queue, with other rules.
func queueBehavior(length int32, b *setpointv1.HorizontalPodAutoscalerBehavior) *setpointv1.RecommendRequest {
	req := servertest.Queue(servertest.Web, 10, length)
	req.Spec.Behavior = b
	return req
}

func rules(window, pods int32) *setpointv1.HPAScalingRules {
	return &setpointv1.HPAScalingRules{
		StabilizationWindowSeconds: new(window),
		Policies:                   []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: pods, PeriodSeconds: 60}},
	}
}

func bounded(least, most int32) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.Spec.MinReplicas, r.Spec.MaxReplicas = &least, most }
}

func TestEachKindOfDecisionIsCounted(t *testing.T) {
	t.Parallel()
	slow := &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: rules(600, 3), ScaleDown: rules(600, 2)}
	quick := &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0, 3), ScaleDown: rules(0, 2)}
	failed := func(r *setpointv1.RecommendRequest) { r.ExternalMetrics = nil }
	for _, tt := range []struct {
		name string
		// before is the request 15 seconds earlier, nil: none.
		before, request *setpointv1.RecommendRequest
		want            servertest.Reading
	}{
		{"unchanged", nil, servertest.Queue(servertest.Web, 10, 100), servertest.Reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=Metrics}": 1}},
		{"up", nil, servertest.Queue(servertest.Web, 10, 120), servertest.Reading{"decisions_total{action=SCALE_UP}": 1, "decision_paths_total{path=Metrics}": 1}},
		{"down", nil, servertest.Queue(servertest.Web, 10, 50), servertest.Reading{"decisions_total{action=SCALE_DOWN}": 1, "decision_paths_total{path=Metrics}": 1}},
		{
			"up, limited by a policy", nil, queueBehavior(500, quick),
			servertest.Reading{"decisions_total{action=SCALE_UP}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_limited_total{reason=ScaleUpLimit}": 1},
		},
		{
			"down, limited by a policy", nil, queueBehavior(10, quick),
			servertest.Reading{"decisions_total{action=SCALE_DOWN}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_limited_total{reason=ScaleDownLimit}": 1},
		},
		{
			"up to the maximum", nil, servertest.With(servertest.Queue(servertest.Web, 10, 500), bounded(1, 12)),
			servertest.Reading{"decisions_total{action=SCALE_UP}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_limited_total{reason=TooManyReplicas}": 1},
		},
		{
			"down to the minimum", nil, servertest.With(servertest.Queue(servertest.Web, 10, 10), bounded(8, 12)),
			servertest.Reading{"decisions_total{action=SCALE_DOWN}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_limited_total{reason=TooFewReplicas}": 1},
		},
		{
			"up, held by the window", queueBehavior(100, slow), queueBehavior(120, slow),
			servertest.Reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_held_total{reason=ScaleUpStabilized}": 1},
		},
		{
			"down, held by the window", queueBehavior(100, slow), queueBehavior(80, slow),
			servertest.Reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_held_total{reason=ScaleDownStabilized}": 1},
		},
		{
			"above the maximum", nil, servertest.With(servertest.Queue(servertest.Web, 10, 100), bounded(1, 5)),
			servertest.Reading{"decisions_total{action=SCALE_DOWN}": 1, "decision_paths_total{path=AboveMax}": 1},
		},
		{
			"below the minimum", nil, servertest.With(servertest.Queue(servertest.Web, 10, 100), bounded(11, 50)),
			servertest.Reading{"decisions_total{action=SCALE_UP}": 1, "decision_paths_total{path=BelowMin}": 1},
		},
		{
			"above the maximum, limited before", servertest.With(servertest.Queue(servertest.Web, 10, 500), bounded(1, 12)), servertest.With(servertest.Queue(servertest.Web, 10, 100), bounded(1, 5)),
			servertest.Reading{"decisions_total{action=SCALE_DOWN}": 1, "decision_paths_total{path=AboveMax}": 1},
		},
		{
			"a metric failed", nil, servertest.With(servertest.Queue(servertest.Web, 10, 100), failed),
			servertest.Reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=MetricsFailed}": 1, "metric_failures_total{type=External}": 1},
		},
		{
			"a metric failed, held and limited before", queueBehavior(10, slow), servertest.With(queueBehavior(10, slow), failed),
			servertest.Reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=MetricsFailed}": 1, "metric_failures_total{type=External}": 1},
		},
		{
			"one of two metrics failed", nil, servertest.With(servertest.Queue(servertest.Web, 10, 120), withMetric(podsMetric)),
			servertest.Reading{"decisions_total{action=SCALE_UP}": 1, "decision_paths_total{path=Metrics}": 1, "metric_failures_total{type=Pods}": 1},
		},
		{
			"metrics of all types failed", nil,
			servertest.With(servertest.Queue(servertest.Web, 10, 120), failed, withMetric(podsMetric), withMetric(objectMetric), withMetric(cpuMetric), withMetric(containerMetric)),
			servertest.Reading{
				"decisions_total{action=NONE}": 1, "decision_paths_total{path=MetricsFailed}": 1, "metric_failures_total{type=External}": 1,
				"metric_failures_total{type=Pods}": 1, "metric_failures_total{type=Object}": 1,
				"metric_failures_total{type=Resource}": 1, "metric_failures_total{type=ContainerResource}": 1,
			},
		},
		{
			"the selector is missing", nil, servertest.With(servertest.Queue(servertest.Web, 10, 120), func(r *setpointv1.RecommendRequest) {
				r.SelectorProblem = &setpointv1.SelectorProblem{Reason: "SelectorRequired"}
			}),
			servertest.Reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=SelectorFailed}": 1},
		},
		{
			"the scale could not be read", nil, servertest.With(servertest.Queue(servertest.Web, 10, 120), func(r *setpointv1.RecommendRequest) {
				r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Message: "503"}
			}),
			servertest.Reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=ScaleUnavailable}": 1},
		},
		{"someone scaled to zero", nil, servertest.Queue(servertest.Web, 0, 120), servertest.Reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=ScalingDisabled}": 1}},
		{
			"the profile cooldown, shortly after a change", servertest.With(servertest.Queue(servertest.Web, 10, 200), coolingDown), servertest.With(servertest.Queue(servertest.Web, 20, 400), coolingDown),
			servertest.Reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_held_total{reason=BackoffBoth}": 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, r := servertest.Measured(t)
			if tt.before != nil {
				resp := s.Recommend(t, tt.before)
				if resp.GetAction() != "NONE" {
					s.Report(t, servertest.Web, resp.GetRecommendationId(), "APPLIED", "")
				}
				s.Clock.Advance(servertest.Period)
			}
			before := servertest.Read(t, r)
			s.Recommend(t, tt.request)
			tt.want["recommendations_total{outcome=decided}"] = 1
			servertest.Read(t, r).Since(before, aboutDecisions...).Expect(t, tt.want)
		})
	}
}

// Metrics of which the request has no readings.
var (
	average    = &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("10")}
	podsMetric = &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{
		Metric: &setpointv1.MetricIdentifier{Name: "rps"}, Target: average,
	}}
	objectMetric = &setpointv1.MetricSpec{Type: "Object", Object: &setpointv1.ObjectMetricSource{
		Metric: &setpointv1.MetricIdentifier{Name: "rps"}, Target: average,
		DescribedObject: &setpointv1.CrossVersionObjectReference{ApiVersion: "v1", Kind: "Service", Name: "web"},
	}}
	cpuMetric = &setpointv1.MetricSpec{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
		Name: "cpu", Target: average,
	}}
	containerMetric = &setpointv1.MetricSpec{Type: "ContainerResource", ContainerResource: &setpointv1.ContainerResourceMetricSource{
		Name: "cpu", Container: "app", Target: average,
	}}
)

func withMetric(m *setpointv1.MetricSpec) func(*setpointv1.RecommendRequest) {
	return func(r *setpointv1.RecommendRequest) { r.Spec.Metrics = append(r.Spec.Metrics, m) }
}

func coolingDown(r *setpointv1.RecommendRequest) {
	r.Spec.Behavior = nil
	r.Options = &setpointv1.RecommendOptions{Profile: "cooldown"}
}

func TestEachAnswerIsCountedHoweverItCame(t *testing.T) {
	t.Parallel()
	bad := servertest.With(servertest.Queue(servertest.Web, 10, 100), func(r *setpointv1.RecommendRequest) { r.Spec.MaxReplicas = 0 })
	requests := []*setpointv1.RecommendRequest{
		servertest.With(servertest.Queue(servertest.Web, 10, 120), servertest.WithID("first")), servertest.With(servertest.Queue(servertest.Web, 12, 500), servertest.WithID("first")),
		servertest.With(servertest.Queue(servertest.Web, 10, 120), servertest.DryRun), bad,
	}
	want := servertest.Reading{
		"recommendations_total{outcome=decided}": 1, "recommendations_total{outcome=replayed}": 1,
		"recommendations_total{outcome=dry_run}": 1, "recommendations_total{outcome=failed}": 1,
		"recommendation_errors_total{code=InvalidArgument}": 1,
		"decisions_total{action=SCALE_UP}":                  1, "decision_paths_total{path=Metrics}": 1,
	}
	for name, ask := range map[string]func(*testing.T, *servertest.Service){
		"alone": func(t *testing.T, s *servertest.Service) {
			for _, req := range requests {
				_, _ = s.Recommendations.Recommend(t.Context(), req)
			}
		},
		"in a batch": func(t *testing.T, s *servertest.Service) { s.Batch(t, requests...) },
		"on a stream": func(t *testing.T, s *servertest.Service) {
			stream := s.Stream(t)
			for i, req := range requests {
				servertest.Send(t, stream, fmt.Sprint(i), req)
				servertest.Receive(t, stream)
			}
		},
		"over REST": func(t *testing.T, s *servertest.Service) {
			for _, req := range requests {
				s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), req)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := servertest.Measured(t)
			before := servertest.Read(t, r)
			ask(t, s)
			servertest.Read(t, r).Since(before, aboutDecisions...).Expect(t, want)
		})
	}
}

// Callers choose names of targets, metrics and requests; none of them becomes a label.
func TestCallersAddNoSeries(t *testing.T) {
	t.Parallel()
	s, r := servertest.Measured(t)
	before := servertest.Read(t, r)
	for i := range 200 {
		s.Batch(t,
			servertest.With(servertest.Queue(fmt.Sprintf("clusters/c%d/namespaces/n%d/targets/t%d", i, i, i), 3, 50), servertest.WithID(fmt.Sprint(i)), func(r *setpointv1.RecommendRequest) {
				r.Spec.Metrics[0].External.Metric.Name = fmt.Sprintf("m%d", i)
			}),
			servertest.Queue(fmt.Sprintf("bad %d", i), 3, 50))
		s.Ask(t, http.MethodGet, fmt.Sprintf("/v1/path%d", i), nil)
		_ = s.Conn.Invoke(t.Context(), fmt.Sprintf("/a.B%d/C", i), &setpointv1.GetTargetRequest{}, &setpointv1.GetTargetResponse{})
	}
	if after := servertest.Read(t, r); len(after) != len(before) {
		t.Errorf("%d series became %d", len(before), len(after))
	}
}

func TestMetricsAreInOrder(t *testing.T) {
	t.Parallel()
	s, r := servertest.Measured(t, func(su *servertest.Setup) { su.Options.TargetMetrics = 5 })
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	families, err := r.Gather()
	fatal.If(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	fatal.If(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "setpoint_") {
			t.Errorf("%s is not one of ours by its name", f.GetName())
		}
	}
}

func TestTargetsHaveMetricsOnRequest(t *testing.T) {
	t.Parallel()
	const labels = "{cluster=demo,namespace=shop,target=web}"
	s, r := servertest.Measured(t, func(su *servertest.Setup) { su.Options.TargetMetrics = 2 })
	s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 90), servertest.DryRun)) // shows nothing
	if got := servertest.Read(t, r).Since(servertest.Reading{}, "target_"); len(got) != 0 {
		t.Errorf("a dry run shows %v", got)
	}
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
	servertest.Read(t, r).Since(servertest.Reading{}, "target_").Expect(t, servertest.Reading{
		"target_current_replicas" + labels: 3, "target_desired_replicas" + labels: 5, "target_proposed_replicas" + labels: 5,
		"target_min_replicas" + labels: 1, "target_max_replicas" + labels: 1000,
		"target_status_condition{cluster=demo,condition=AbleToScale,namespace=shop,status=true,target=web}":     1,
		"target_status_condition{cluster=demo,condition=ScalingActive,namespace=shop,status=true,target=web}":   1,
		"target_status_condition{cluster=demo,condition=ScalingLimited,namespace=shop,status=false,target=web}": 1,
		"target_last_decision_timestamp_seconds" + labels:                                                       float64(servertest.T0.Unix()),
		"target_not_asked_timestamp_seconds" + labels:                                                           float64(servertest.T0.Add(15 * time.Minute).Unix()),
	})
	for i := range 5 {
		s.Recommend(t, servertest.Queue(fmt.Sprintf("clusters/demo/namespaces/shop/targets/t%d", i), 3, 30))
	}
	got := servertest.Read(t, r)
	if got["target_metrics_dropped_total"] != 4 || got["target_desired_replicas{cluster=demo,namespace=shop,target=t0}"] != 3 {
		t.Errorf("got %v", got.Since(servertest.Reading{}, "target_"))
	}
	if _, err := s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web}); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(59 * time.Minute)
	if _, shown := servertest.Read(t, r)["target_desired_replicas"+labels]; shown {
		t.Error("a target that was deleted is still shown")
	}
	s.Clock.Advance(time.Minute)
	if got := servertest.Read(t, r).Since(servertest.Reading{}, "target_desired", "target_current"); len(got) != 0 {
		t.Errorf("after an hour there are still %v", got)
	}
}

func TestTargetsHaveNoMetricsUnlessAsked(t *testing.T) {
	t.Parallel()
	s, r := servertest.Measured(t)
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
	for name := range servertest.Read(t, r) {
		if strings.HasPrefix(name, "target_") {
			t.Errorf("there is %s", name)
		}
	}
}

// Beyond the limit of a history the oldest of falling recommendations stand for others:
// the answer says so, and so does a metric.
func TestADecisionThatTheHistoryLimitMayHaveHeldIsCounted(t *testing.T) {
	t.Parallel()
	s, r := servertest.Measured(t, func(su *servertest.Setup) { su.Options.Recommend.HistoryLimit = recommender.LeastHistoryLimit })
	falling := func(length int32) *setpointv1.RecommendRequest {
		req := queueBehavior(length, &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: rules(3600, 2)})
		req.Explain = true
		return req
	}
	says := func(resp *setpointv1.RecommendResponse) bool {
		return slices.ContainsFunc(resp.GetExplanation().GetWarnings(), func(w string) bool { return strings.Contains(w, "than the history's limit of 8 came") })
	}
	for i := range int32(recommender.LeastHistoryLimit) {
		if says(s.Recommend(t, falling(10*(80-i*5)))) {
			t.Fatalf("a limit of 8 is passed with %d recommendations", i+2)
		}
		s.Clock.Advance(time.Minute)
		if i == recommender.LeastHistoryLimit-2 {
			break
		}
	}
	if n := servertest.Read(t, r)["decisions_history_limited_total"]; n != 0 {
		t.Fatalf("%v decisions counted within the limit", n)
	}
	for i := range int32(20) {
		s.Recommend(t, falling(10*(40-i)))
		s.Clock.Advance(time.Minute)
	}
	s.Clock.Advance(35 * time.Minute) // the rest of the first ones still holds the count
	if resp := s.Recommend(t, falling(10)); !says(resp) || resp.GetAction() != "NONE" {
		t.Errorf("%s, warnings %q", resp.GetAction(), resp.GetExplanation().GetWarnings())
	}
	if n := servertest.Read(t, r)["decisions_history_limited_total"]; n < 1 {
		t.Errorf("%v decisions counted", n)
	}
}

func TestOperationsOfTheStoreAreTimedAndFailuresCounted(t *testing.T) {
	t.Parallel()
	f := &servertest.Faults{}
	f.On.Store(true)
	s, r := servertest.Measured(t, f.FailLoads(store.ErrUnavailable))
	before := servertest.Read(t, r)
	_, _ = s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 30))
	servertest.Read(t, r).Since(before, "store_errors", "store_operation").Expect(t, servertest.Reading{
		"store_errors_total{operation=load}": 1, "store_operation_duration_seconds{operation=load}": 1,
	})
}

// A caller that hangs up makes no failure of the store.
func TestCallersThatHangUpAreNoFailuresOfTheStore(t *testing.T) {
	t.Parallel()
	loading := make(chan struct{})
	s, r := servertest.Measured(t, func(su *servertest.Setup) {
		su.Store.OnLoad = func(ctx context.Context, _ store.Key, _ servertest.LoadFunc) (store.Record, error) {
			close(loading)
			<-ctx.Done()
			return store.Record{}, fmt.Errorf("load: %w: %w", store.ErrUnavailable, ctx.Err())
		}
	})
	before := servertest.Read(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.Recommendations.Recommend(ctx, servertest.Queue(servertest.Web, 3, 30))
	}()
	<-loading
	cancel()
	<-ended
	s.StopAndWait(t)
	servertest.Read(t, r).Since(before, "store_errors", "store_operation").Expect(t, servertest.Reading{"store_operation_duration_seconds{operation=load}": 1})
}
