package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/store"
)

// measured starts a service whose metrics can be read.
func measured(tb testing.TB, changes ...func(*setup)) (*service, *prometheus.Registry) {
	tb.Helper()
	r := prometheus.NewRegistry()
	return start(tb, append(changes, func(su *setup) { su.options.Registerer = r })...), r
}

// reading is the values of series, by name and labels: of histograms how often they
// were observed.
type reading map[string]float64

func read(tb testing.TB, r *prometheus.Registry) reading {
	tb.Helper()
	families, err := r.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	values := reading{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			values[seriesName(f, m)] = value(m)
		}
	}
	return values
}

// seriesName is as in PromQL, without the prefix and quotes.
func seriesName(f *dto.MetricFamily, m *dto.Metric) string {
	labels := make([]string, 0, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetName()+"="+l.GetValue())
	}
	name := strings.TrimPrefix(f.GetName(), "setpoint_")
	if len(labels) == 0 {
		return name
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}

func value(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	}
	return m.GetGauge().GetValue()
}

// since is what changed, of series whose names begin so.
func (after reading) since(before reading, prefixes ...string) reading {
	changed := reading{}
	for name, v := range after {
		if v != before[name] && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			changed[name] = v - before[name]
		}
	}
	return changed
}

func (after reading) expect(tb testing.TB, want reading) {
	tb.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if after[name] != want[name] {
			tb.Errorf("%s: %v, want %v", name, after[name], want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, wanted := want[name]; !wanted {
			tb.Errorf("%s: %v, want none", name, after[name])
		}
	}
}

// aboutDecisions are the metrics of decisions, whatever call they came with.
var aboutDecisions = []string{"recommendation", "decision", "metric_failures"}

// queueBehavior is queue, with other rules.
func queueBehavior(length int32, b *setpointv1.HorizontalPodAutoscalerBehavior) *setpointv1.RecommendRequest {
	req := queue(web, 10, length)
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
		want            reading
	}{
		{"unchanged", nil, queue(web, 10, 100), reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=Metrics}": 1}},
		{"up", nil, queue(web, 10, 120), reading{"decisions_total{action=SCALE_UP}": 1, "decision_paths_total{path=Metrics}": 1}},
		{"down", nil, queue(web, 10, 50), reading{"decisions_total{action=SCALE_DOWN}": 1, "decision_paths_total{path=Metrics}": 1}},
		{
			"up, limited by a policy", nil, queueBehavior(500, quick),
			reading{"decisions_total{action=SCALE_UP}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_limited_total{reason=ScaleUpLimit}": 1},
		},
		{
			"down, limited by a policy", nil, queueBehavior(10, quick),
			reading{"decisions_total{action=SCALE_DOWN}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_limited_total{reason=ScaleDownLimit}": 1},
		},
		{
			"up to the maximum", nil, with(queue(web, 10, 500), bounded(1, 12)),
			reading{"decisions_total{action=SCALE_UP}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_limited_total{reason=TooManyReplicas}": 1},
		},
		{
			"down to the minimum", nil, with(queue(web, 10, 10), bounded(8, 12)),
			reading{"decisions_total{action=SCALE_DOWN}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_limited_total{reason=TooFewReplicas}": 1},
		},
		{
			"up, held by the window", queueBehavior(100, slow), queueBehavior(120, slow),
			reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_held_total{reason=ScaleUpStabilized}": 1},
		},
		{
			"down, held by the window", queueBehavior(100, slow), queueBehavior(80, slow),
			reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_held_total{reason=ScaleDownStabilized}": 1},
		},
		{
			"above the maximum", nil, with(queue(web, 10, 100), bounded(1, 5)),
			reading{"decisions_total{action=SCALE_DOWN}": 1, "decision_paths_total{path=AboveMax}": 1},
		},
		{
			"below the minimum", nil, with(queue(web, 10, 100), bounded(11, 50)),
			reading{"decisions_total{action=SCALE_UP}": 1, "decision_paths_total{path=BelowMin}": 1},
		},
		{
			"above the maximum, limited before", with(queue(web, 10, 500), bounded(1, 12)), with(queue(web, 10, 100), bounded(1, 5)),
			reading{"decisions_total{action=SCALE_DOWN}": 1, "decision_paths_total{path=AboveMax}": 1},
		},
		{
			"a metric failed", nil, with(queue(web, 10, 100), failed),
			reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=MetricsFailed}": 1, "metric_failures_total{type=External}": 1},
		},
		{
			"a metric failed, held and limited before", queueBehavior(10, slow), with(queueBehavior(10, slow), failed),
			reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=MetricsFailed}": 1, "metric_failures_total{type=External}": 1},
		},
		{
			"one of two metrics failed", nil, with(queue(web, 10, 120), withMetric(podsMetric)),
			reading{"decisions_total{action=SCALE_UP}": 1, "decision_paths_total{path=Metrics}": 1, "metric_failures_total{type=Pods}": 1},
		},
		{
			"metrics of all types failed", nil,
			with(queue(web, 10, 120), failed, withMetric(podsMetric), withMetric(objectMetric), withMetric(cpuMetric), withMetric(containerMetric)),
			reading{
				"decisions_total{action=NONE}": 1, "decision_paths_total{path=MetricsFailed}": 1, "metric_failures_total{type=External}": 1,
				"metric_failures_total{type=Pods}": 1, "metric_failures_total{type=Object}": 1,
				"metric_failures_total{type=Resource}": 1, "metric_failures_total{type=ContainerResource}": 1,
			},
		},
		{
			"the selector is missing", nil, with(queue(web, 10, 120), func(r *setpointv1.RecommendRequest) {
				r.SelectorProblem = &setpointv1.SelectorProblem{Reason: "SelectorRequired"}
			}),
			reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=SelectorFailed}": 1},
		},
		{
			"the scale could not be read", nil, with(queue(web, 10, 120), func(r *setpointv1.RecommendRequest) {
				r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Message: "503"}
			}),
			reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=ScaleUnavailable}": 1},
		},
		{"someone scaled to zero", nil, queue(web, 0, 120), reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=ScalingDisabled}": 1}},
		{
			"the profile cooldown, shortly after a change", with(queue(web, 10, 200), coolingDown), with(queue(web, 20, 400), coolingDown),
			reading{"decisions_total{action=NONE}": 1, "decision_paths_total{path=Metrics}": 1, "decisions_held_total{reason=BackoffBoth}": 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, r := measured(t)
			if tt.before != nil {
				resp := s.recommend(t, tt.before)
				if resp.GetAction() != "NONE" {
					s.report(t, web, resp.GetRecommendationId(), "APPLIED", "")
				}
				s.clock.Advance(period)
			}
			before := read(t, r)
			s.recommend(t, tt.request)
			tt.want["recommendations_total{outcome=decided}"] = 1
			read(t, r).since(before, aboutDecisions...).expect(t, tt.want)
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
	bad := with(queue(web, 10, 100), func(r *setpointv1.RecommendRequest) { r.Spec.MaxReplicas = 0 })
	requests := []*setpointv1.RecommendRequest{
		with(queue(web, 10, 120), withID("first")), with(queue(web, 12, 500), withID("first")),
		with(queue(web, 10, 120), dryRun), bad,
	}
	want := reading{
		"recommendations_total{outcome=decided}": 1, "recommendations_total{outcome=replayed}": 1,
		"recommendations_total{outcome=dry_run}": 1, "recommendations_total{outcome=failed}": 1,
		"recommendation_errors_total{code=InvalidArgument}": 1,
		"decisions_total{action=SCALE_UP}":                  1, "decision_paths_total{path=Metrics}": 1,
	}
	for name, ask := range map[string]func(*testing.T, *service){
		"alone": func(t *testing.T, s *service) {
			for _, req := range requests {
				_, _ = s.recommendations.Recommend(t.Context(), req)
			}
		},
		"in a batch": func(t *testing.T, s *service) { s.batch(t, requests...) },
		"on a stream": func(t *testing.T, s *service) {
			stream := s.stream(t)
			for i, req := range requests {
				send(t, stream, fmt.Sprint(i), req)
				receive(t, stream)
			}
		},
		"over REST": func(t *testing.T, s *service) {
			for _, req := range requests {
				s.ask(t, http.MethodPost, recommendPath(web), req)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := measured(t)
			before := read(t, r)
			ask(t, s)
			read(t, r).since(before, aboutDecisions...).expect(t, want)
		})
	}
}

const (
	recommendMethod = "setpoint.v1.RecommendationService/Recommend"
	batchMethod     = "setpoint.v1.RecommendationService/BatchRecommend"
	streamedMethod  = "setpoint.v1.RecommendationService/StreamRecommend"
)

func TestCallsAreCountedByMethodAndCode(t *testing.T) {
	t.Parallel()
	s, r := measured(t)
	before := read(t, r)
	s.recommend(t, queue(web, 3, 30))
	_, _ = s.recommendations.Recommend(t.Context(), &setpointv1.RecommendRequest{Target: web})
	s.ask(t, http.MethodPost, recommendPath(web), queue(web, 3, 30)).expect(t, http.StatusOK)
	s.ask(t, http.MethodPost, recommendPath(web), `{"spec":`).expect(t, http.StatusBadRequest)
	s.ask(t, http.MethodGet, "/v1/nothing", nil).expect(t, http.StatusNotFound)
	s.ask(t, http.MethodGet, "/v1/clusters/demo/namespaces/shop/targets/none", nil).expect(t, http.StatusNotFound)
	s.batch(t, queue(web, 3, 30), &setpointv1.RecommendRequest{})
	if _, err := healthv1.NewHealthClient(s.conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.simulations.Simulate(t.Context(), nil); err != nil && status.Code(err) != codes.InvalidArgument {
		t.Fatal(err)
	}
	got := read(t, r).since(before, "requests_", "request_", "rest_")
	for name := range got {
		if strings.Contains(name, "Simulat") {
			delete(got, name)
		}
	}
	got.expect(t, reading{
		"requests_total{code=OK,method=" + recommendMethod + "}": 2,
		// Those that are wrong, and bodies that name their target, too.
		"requests_slow_path_total{reason=unusual,stage=decode}":                    2,
		"requests_slow_path_total{reason=unusual,stage=rest}":                      2,
		"requests_total{code=InvalidArgument,method=" + recommendMethod + "}":      1,
		"requests_total{code=NotFound,method=setpoint.v1.TargetService/GetTarget}": 1,
		"requests_total{code=OK,method=" + batchMethod + "}":                       1,
		"requests_total{code=OK,method=grpc.health.v1.Health/Check}":               1,
		"request_duration_seconds{method=" + recommendMethod + "}":                 3,
		"request_duration_seconds{method=setpoint.v1.TargetService/GetTarget}":     1,
		"request_duration_seconds{method=" + batchMethod + "}":                     1,
		"request_duration_seconds{method=grpc.health.v1.Health/Check}":             1,
		"rest_requests_total{code=2xx}":                                            1,
		"rest_requests_total{code=4xx}":                                            3,
	})
}

func TestStreamsAndTheirMessagesAreCounted(t *testing.T) {
	t.Parallel()
	s, r := measured(t)
	stream := s.stream(t)
	for i := range 3 {
		send(t, stream, fmt.Sprint(i), queue(web, 3, 30))
		receive(t, stream)
	}
	sent := "stream_messages_total{direction=sent,method=" + streamedMethod + "}"
	eventually(t, func() bool { return read(t, r)[sent] == 3 }) // it is counted once it is sent
	read(t, r).since(reading{}, "stream").expect(t, reading{
		"streams_open{method=" + streamedMethod + "}":                             1,
		"stream_messages_total{direction=received,method=" + streamedMethod + "}": 3,
		"stream_messages_total{direction=sent,method=" + streamedMethod + "}":     3,
		"stream_message_duration_seconds":                                         3,
	})
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := receiveAll(t, stream); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		now := read(t, r)
		return now["streams_open{method="+streamedMethod+"}"] == 0 && now["requests_total{code=OK,method="+streamedMethod+"}"] == 1
	})
}

// eventually waits for what follows an answer a little later.
func eventually(tb testing.TB, done func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatal("it does not come")
		}
	}
}

func TestCallsInFlightAreShown(t *testing.T) {
	t.Parallel()
	reached, release := make(chan struct{}), make(chan struct{})
	s, r := measured(t, func(su *setup) { su.store.load = waitingLoad(reached, release) })
	answered := make(chan error, 1)
	go func() {
		_, err := s.recommendations.Recommend(t.Context(), queue(web, 3, 30))
		answered <- err
	}()
	<-reached
	if n := read(t, r)["requests_in_flight{method="+recommendMethod+"}"]; n != 1 {
		t.Errorf("%v in flight, want 1", n)
	}
	close(release)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return read(t, r)["requests_in_flight{method="+recommendMethod+"}"] == 0 })
}

// Callers choose names of targets, metrics and requests; none of them becomes a label.
func TestCallersAddNoSeries(t *testing.T) {
	t.Parallel()
	s, r := measured(t)
	before := read(t, r)
	for i := range 200 {
		s.batch(t,
			with(queue(fmt.Sprintf("clusters/c%d/namespaces/n%d/targets/t%d", i, i, i), 3, 50), withID(fmt.Sprint(i)), func(r *setpointv1.RecommendRequest) {
				r.Spec.Metrics[0].External.Metric.Name = fmt.Sprintf("m%d", i)
			}),
			queue(fmt.Sprintf("bad %d", i), 3, 50))
		s.ask(t, http.MethodGet, fmt.Sprintf("/v1/path%d", i), nil)
		_ = s.conn.Invoke(t.Context(), fmt.Sprintf("/a.B%d/C", i), &setpointv1.GetTargetRequest{}, &setpointv1.GetTargetResponse{})
	}
	if after := read(t, r); len(after) != len(before) {
		t.Errorf("%d series became %d", len(before), len(after))
	}
}

func TestMetricsAreInOrder(t *testing.T) {
	t.Parallel()
	s, r := measured(t, func(su *setup) { su.options.TargetMetrics = 5 })
	s.recommend(t, queue(web, 3, 30))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
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
	s, r := measured(t, func(su *setup) { su.options.TargetMetrics = 2 })
	s.recommend(t, with(queue(web, 3, 90), dryRun)) // shows nothing
	if got := read(t, r).since(reading{}, "target_"); len(got) != 0 {
		t.Errorf("a dry run shows %v", got)
	}
	s.recommend(t, queue(web, 3, 50))
	read(t, r).since(reading{}, "target_").expect(t, reading{
		"target_current_replicas" + labels: 3, "target_desired_replicas" + labels: 5,
		"target_last_decision_timestamp_seconds" + labels: float64(t0.Unix()),
	})
	for i := range 5 {
		s.recommend(t, queue(fmt.Sprintf("clusters/demo/namespaces/shop/targets/t%d", i), 3, 30))
	}
	got := read(t, r)
	if got["target_metrics_dropped_total"] != 4 || got["target_desired_replicas{cluster=demo,namespace=shop,target=t0}"] != 3 {
		t.Errorf("got %v", got.since(reading{}, "target_"))
	}
	if _, err := s.targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: web}); err != nil {
		t.Fatal(err)
	}
	s.clock.Advance(59 * time.Minute)
	if _, shown := read(t, r)["target_desired_replicas"+labels]; shown {
		t.Error("a target that was deleted is still shown")
	}
	s.clock.Advance(time.Minute)
	if got := read(t, r).since(reading{}, "target_desired", "target_current"); len(got) != 0 {
		t.Errorf("after an hour there are still %v", got)
	}
}

func TestTargetsHaveNoMetricsUnlessAsked(t *testing.T) {
	t.Parallel()
	s, r := measured(t)
	s.recommend(t, queue(web, 3, 50))
	for name := range read(t, r) {
		if strings.HasPrefix(name, "target_") {
			t.Errorf("there is %s", name)
		}
	}
}

func TestAPanicIsCountedAsAFailure(t *testing.T) {
	t.Parallel()
	s, r := measured(t, func(su *setup) { panicky(su) })
	_, _ = s.recommendations.Recommend(t.Context(), queue(boom, 3, 50))
	stream := s.stream(t)
	send(t, stream, "boom", queue(boom, 3, 50))
	receive(t, stream)
	got := read(t, r)
	if n := got["requests_total{code=Internal,method="+recommendMethod+"}"]; n != 1 {
		t.Errorf("%v calls failed, want 1", n)
	}
	if n := got["recommendation_errors_total{code=Internal}"]; n != 1 {
		t.Errorf("%v messages failed, want 1", n)
	}
}

// waitingLoad waits in the first load until it is released.
func waitingLoad(reached chan<- struct{}, release <-chan struct{}) func(context.Context, store.Key, loadFunc) (store.Record, error) {
	return func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
		reached <- struct{}{}
		<-release
		return load(ctx, key)
	}
}

// Beyond the limit of a history the oldest of falling recommendations stand for others:
// the answer says so, and so does a metric.
func TestADecisionThatTheHistoryLimitMayHaveHeldIsCounted(t *testing.T) {
	t.Parallel()
	s, r := measured(t, func(su *setup) { su.options.Recommend.HistoryLimit = recommender.LeastHistoryLimit })
	falling := func(length int32) *setpointv1.RecommendRequest {
		req := queueBehavior(length, &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: rules(3600, 2)})
		req.Explain = true
		return req
	}
	says := func(resp *setpointv1.RecommendResponse) bool {
		return slices.ContainsFunc(resp.GetExplanation().GetWarnings(), func(w string) bool { return strings.Contains(w, "than the history's limit of 8 came") })
	}
	for i := range int32(recommender.LeastHistoryLimit) {
		if says(s.recommend(t, falling(10*(80-i*5)))) {
			t.Fatalf("a limit of 8 is passed with %d recommendations", i+2)
		}
		s.clock.Advance(time.Minute)
		if i == recommender.LeastHistoryLimit-2 {
			break
		}
	}
	if n := read(t, r)["decisions_history_limited_total"]; n != 0 {
		t.Fatalf("%v decisions counted within the limit", n)
	}
	for i := range int32(20) {
		s.recommend(t, falling(10*(40-i)))
		s.clock.Advance(time.Minute)
	}
	s.clock.Advance(35 * time.Minute) // the rest of the first ones still holds the count
	if resp := s.recommend(t, falling(10)); !says(resp) || resp.GetAction() != "NONE" {
		t.Errorf("%s, warnings %q", resp.GetAction(), resp.GetExplanation().GetWarnings())
	}
	if n := read(t, r)["decisions_history_limited_total"]; n < 1 {
		t.Errorf("%v decisions counted", n)
	}
}
