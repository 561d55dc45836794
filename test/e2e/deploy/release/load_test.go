//go:build linux

package release

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

const (
	// period is the time between two requests of a caller, by its own clock.
	period = 15 * time.Second
	// pause is between them by the clock.
	pause = 200 * time.Millisecond
)

// load is the callers' load.
type load struct {
	t        *testing.T
	client   *setpoint.Client
	began    time.Time // by the callers' clock
	cancel   context.CancelFunc
	running  sync.WaitGroup
	failures atomic.Int64 // calls that failed for good, and were made again
	callers  []*caller

	unwatch  context.CancelFunc
	watching chan struct{} // closed when the watcher has ended
	mu       sync.Mutex
	watched  map[string][]string // of each target, the watched changes
	missed   int
}

// caller requests recommendations for one target, applies and reports them.
type caller struct {
	load    *load
	number  int
	mu      sync.Mutex
	answers []*setpointv1.RecommendResponse
	reports []*setpointv1.ReportScaleResponse // nil: there was nothing to report
}

// asker is a client, or a stand-in.
type asker interface {
	Recommend(context.Context, *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error)
	ReportScale(context.Context, *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error)
}

// begin starts the callers, after a watcher that sees all they do.
func begin(t *testing.T, client *setpoint.Client) *load {
	t.Helper()
	l := &load{t: t, client: client, began: time.Now().Add(-6 * time.Hour).Truncate(time.Second), watched: map[string][]string{}, watching: make(chan struct{})}
	watching, unwatch := context.WithCancel(context.Background())
	l.unwatch = unwatch
	alive := make(chan struct{})
	go l.watch(watching, alive)
	select {
	case <-alive:
	case <-l.watching:
		unwatch()
		t.FailNow()
	case <-time.After(patience):
		unwatch()
		t.Fatalf("a watcher hears nothing within %v", patience)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	for i := range callers {
		c := &caller{load: l, number: i}
		l.callers = append(l.callers, c)
		l.running.Go(func() { c.run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		unwatch()
		l.running.Wait()
		<-l.watching
	})
	return l
}

func (c *caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		answer, report := c.step(c.load.client, c.count(), c.last())
		c.mu.Lock()
		c.answers, c.reports = append(c.answers, answer), append(c.reports, report)
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (c *caller) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.answers)
}

// last is the last answer; nil: there was none.
func (c *caller) last() *setpointv1.RecommendResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) == 0 {
		return nil
	}
	return c.answers[len(c.answers)-1]
}

func (c *caller) target() string {
	return fmt.Sprintf("clusters/default/namespaces/load/targets/target-%d", c.number)
}

// step requests and reports until it is answered, with the same id each time, as callers do.
func (c *caller) step(client asker, number int, last *setpointv1.RecommendResponse) (*setpointv1.RecommendResponse, *setpointv1.ReportScaleResponse) {
	request := c.request(number, last)
	answer := insist(c.load, func(ctx context.Context) (*setpointv1.RecommendResponse, error) {
		return client.Recommend(ctx, request)
	})
	if answer.GetAction() == "NONE" {
		return answer, nil
	}
	report := &setpointv1.ReportScaleRequest{Target: request.GetTarget(), RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED"}
	return answer, insist(c.load, func(ctx context.Context) (*setpointv1.ReportScaleResponse, error) {
		return client.ReportScale(ctx, report)
	})
}

// insist retries a call until it succeeds, within the test's patience.
func insist[T any](l *load, call func(context.Context) (T, error)) T {
	for deadline := time.Now().Add(patience); ; {
		answer, err := call(context.Background())
		if err == nil {
			return answer
		}
		if l.failures.Add(1) <= 20 {
			l.t.Logf("a call failed: %v", err)
		}
		if time.Now().After(deadline) || status.Code(err) == codes.InvalidArgument || status.Code(err) == codes.PermissionDenied {
			l.t.Errorf("no answer: %v", err)
			return answer
		}
		time.Sleep(pause)
	}
}

// request is the same for the same number and last answer. Loads rise and fall, each target
// differently; behaviors have windows and policies, so that decisions follow from history.
func (c *caller) request(number int, last *setpointv1.RecommendResponse) *setpointv1.RecommendRequest {
	replicas := int32(3)
	if last != nil {
		replicas = last.GetDesiredReplicas()
	}
	wave := (number*7 + c.number*13) % 80
	if wave > 40 {
		wave = 80 - wave
	}
	return &setpointv1.RecommendRequest{
		Target: c.target(), RequestId: fmt.Sprintf("%d-%d", c.number, number),
		EvaluationTime: timestamppb.New(c.load.began.Add(time.Duration(number) * period)),
		Scale:          &setpointv1.Scale{SpecReplicas: replicas, StatusReplicas: proto.Int32(replicas)},
		ExternalMetrics: []*setpointv1.ExternalMetric{{
			Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: fmt.Sprint(5 + wave*(c.number+4)),
		}},
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MinReplicas: proto.Int32(1), MaxReplicas: 60,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
			}}},
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{
				ScaleUp: &setpointv1.HPAScalingRules{Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: int32(2 + c.number), PeriodSeconds: 45}}},
				ScaleDown: &setpointv1.HPAScalingRules{
					StabilizationWindowSeconds: proto.Int32(int32(30 * (c.number % 4))),
					Policies:                   []*setpointv1.HPAScalingPolicy{{Type: "Percent", Value: 30, PeriodSeconds: 60}},
				},
			},
		},
	}
}

// watch records watched changes and missed ones.
func (l *load) watch(ctx context.Context, alive chan<- struct{}) {
	defer close(l.watching)
	request := &setpointv1.WatchDecisionsRequest{Parent: "clusters/default/namespaces/load/targets/-", ChangesOnly: true}
	for response, err := range l.client.WatchDecisions(ctx, request, func(err error) { l.t.Logf("a watch goes on elsewhere: %v", err) }) {
		if err != nil {
			if ctx.Err() == nil {
				l.t.Errorf("watch: %v", err)
			}
			return
		}
		if alive != nil {
			close(alive)
			alive = nil
		}
		l.mu.Lock()
		l.missed += int(response.GetMissedDecisions())
		if response.GetMissedUncounted() {
			l.missed++
		}
		if d := response.GetDecision(); d != nil {
			l.watched[response.GetTarget()] = append(l.watched[response.GetTarget()], told(d.GetRecommendationId(), d.GetOutcome(), d.GetDesiredReplicas()))
		}
		l.mu.Unlock()
	}
}

func told(id, outcome string, desired int32) string {
	return fmt.Sprintf("%s %s to %d", id, outcome, desired)
}

// steps is how many there were.
func (l *load) steps() (n int) {
	for _, c := range l.callers {
		n += c.count()
	}
	return n
}

// proceed waits until each caller has made so many more steps.
func (l *load) proceed(n int) {
	l.t.Helper()
	for _, c := range l.callers {
		want := c.count() + n
		kit.Eventually(l.t, patience, "proceeding", func() error {
			if got := c.count(); got < want {
				return fmt.Errorf("caller %d has made %d steps, want %d", c.number, got, want)
			}
			return nil
		})
	}
}

// end stops the callers after their current step.
func (l *load) end() {
	l.cancel()
	l.running.Wait()
}

// compareWithUndisturbed sends the same requests to one undisturbed service.
func (l *load) compareWithUndisturbed(t *testing.T) {
	t.Helper()
	reference := direct{service.Start(t, "--allow-evaluation-time").Recommendations()}
	changes := 0
	for _, c := range l.callers {
		var last *setpointv1.RecommendResponse
		for number, got := range c.answers {
			want, report := c.step(reference, number, last)
			last = want
			if want.GetAction() != "NONE" {
				changes++
			}
			// Ids are random.
			want, got = proto.CloneOf(want), proto.CloneOf(got)
			want.RecommendationId, got.RecommendationId = "", ""
			reported := c.reports[number]
			if report != nil && reported != nil {
				reported = proto.CloneOf(reported)
				report.RecommendationId, reported.RecommendationId = "", ""
			}
			if !proto.Equal(want, got) || !proto.Equal(report, reported) {
				t.Errorf("%s, step %d of %d differs from the undisturbed run (-undisturbed +upgraded):\n%s%s", c.target(), number, len(c.answers),
					cmp.Diff(want, got, protocmp.Transform()), cmp.Diff(report, reported, protocmp.Transform()))
				break
			}
		}
	}
	t.Logf("%d of %d decisions changed a count", changes, l.steps())
	if changes < callers {
		t.Error("which is too little to compare")
	}
}

// direct is a service that is asked once.
type direct struct {
	service setpointv1.RecommendationServiceClient
}

func (d direct) Recommend(ctx context.Context, r *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	return d.service.Recommend(ctx, r)
}

func (d direct) ReportScale(ctx context.Context, r *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	return d.service.ReportScale(ctx, r)
}

// compareWatched checks that the watcher received each change once when it was decided, and
// once when it was applied, and no other. Their order is open if one instance decided and
// another one got the report.
func (l *load) compareWatched(t *testing.T) {
	t.Helper()
	want := map[string][]string{}
	for _, c := range l.callers {
		for _, answer := range c.answers {
			if answer.GetAction() != "NONE" {
				for _, outcome := range []string{"PENDING", "APPLIED"} {
					want[c.target()] = append(want[c.target()], told(answer.GetRecommendationId(), outcome, answer.GetDesiredReplicas()))
				}
			}
		}
	}
	kit.Eventually(t, patience, "watched", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for target := range want {
			if len(l.watched[target]) < len(want[target]) {
				return fmt.Errorf("%s: %d of %d", target, len(l.watched[target]), len(want[target]))
			}
		}
		return nil
	})
	l.unwatch()
	<-l.watching
	sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := cmp.Diff(want, l.watched, sorted); diff != "" {
		t.Errorf("what was watched (-made +watched):\n%s", diff)
	}
	if l.missed > 0 {
		t.Errorf("the watcher missed %d", l.missed)
	}
}
