//go:build linux

package versions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

const (
	parent = "clusters/e2e/namespaces/versions/targets/"
	// patience bounds waits that take seconds on an idle machine.
	patience = 3 * time.Minute
	// step is between two questions about a target, on the clock that the questions bring.
	step = 15 * time.Second
)

// began is the instant of the first questions.
var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// exchange is a request, its answer, and whether the caller reported the count as applied.
type exchange struct {
	question *setpointv1.RecommendRequest
	answer   *setpointv1.RecommendResponse
	reported bool
}

// load requests recommendations for targets, each with its own caller, and records all of it.
type load struct {
	t         *testing.T
	instances []*service.Instance
	answered  atomic.Int64
	polled    atomic.Int64
	stopping  chan struct{}
	running   sync.WaitGroup

	mu        sync.Mutex
	exchanges map[string][]exchange // by target, in order
}

// startLoad starts callers of so many targets, and of some with stored specs. It stops with the
// test at the latest.
func startLoad(t *testing.T, instances []*service.Instance, targets, stored int) *load {
	l := &load{t: t, instances: instances, stopping: make(chan struct{}), exchanges: make(map[string][]exchange)}
	for i := range targets {
		l.running.Go(func() { l.caller(i) })
	}
	for i := range stored {
		l.running.Go(func() { l.poller(i) })
	}
	t.Cleanup(l.stop)
	return l
}

// stop waits until all calls have ended.
func (l *load) stop() {
	select {
	case <-l.stopping:
	default:
		close(l.stopping)
	}
	l.running.Wait()
}

func (l *load) stopped() bool {
	select {
	case <-l.stopping:
		return true
	default:
		return false
	}
}

// awaitMore waits until so many more questions and polls were answered.
func (l *load) awaitMore(answers, polls int64) {
	l.t.Helper()
	answers, polls = l.answered.Load()+answers, l.polled.Load()+polls
	kit.Eventually(l.t, patience, "as with one version", func() error {
		if l.answered.Load() < answers || l.polled.Load() < polls {
			return fmt.Errorf("%d answers of %d, %d polls of %d", l.answered.Load(), answers, l.polled.Load(), polls)
		}
		return nil
	})
}

// caller requests recommendations for a target, step by step, and applies them.
func (l *load) caller(number int) {
	name := fmt.Sprint(parent, "t", number)
	replicas := int32(3)
	var all []exchange
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.exchanges[name] = all
	}()
	for at := 0; !l.stopped(); at++ {
		e := exchange{question: question(name, number, at, replicas), reported: (number+at)%3 == 0}
		if err := l.persist(func(ctx context.Context, s *service.Instance) (err error) {
			e.answer, err = s.Recommendations().Recommend(ctx, e.question)
			return err
		}); err != nil {
			l.t.Errorf("%s, step %d: %v", name, at, err)
			return
		}
		if e.reported {
			if err := l.persist(func(ctx context.Context, s *service.Instance) error {
				_, err := s.Recommendations().ReportScale(ctx, reportOf(e))
				return err
			}); err != nil {
				l.t.Errorf("%s, step %d, the report: %v", name, at, err)
				return
			}
		}
		replicas = e.answer.GetDesiredReplicas()
		all = append(all, e)
		l.answered.Add(1)
	}
}

func reportOf(e exchange) *setpointv1.ReportScaleRequest {
	return &setpointv1.ReportScaleRequest{Target: e.question.GetTarget(), RecommendationId: e.answer.GetRecommendationId(), Outcome: "APPLIED"}
}

// stored is the wanted count of all targets with a stored spec: 35 of a queue, 10 each.
const stored = 4

// poller stores a spec, and from then on only reports and polls.
func (l *load) poller(number int) {
	name := fmt.Sprint(parent, "stored-", number)
	if err := l.persist(func(ctx context.Context, s *service.Instance) error {
		_, err := s.Targets().SetTargetSpec(ctx, &setpointv1.SetTargetSpecRequest{Name: name, TargetSpec: &setpointv1.TargetSpec{
			AssumeApplied: true, Period: durationpb.New(time.Second),
			Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 20, Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
			}}}},
		}})
		return err
	}); err != nil {
		l.t.Errorf("%s: %v", name, err)
		return
	}
	for !l.stopped() {
		var got *setpointv1.GetRecommendationResponse
		err := l.persist(func(ctx context.Context, s *service.Instance) error {
			_, err := s.Recommendations().ReportObservation(ctx, &setpointv1.ReportObservationRequest{
				Target: name, Scale: &setpointv1.Scale{SpecReplicas: 3, StatusReplicas: proto.Int32(3)},
				ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "35"}},
			})
			return err
		})
		if err == nil {
			err = l.persist(func(ctx context.Context, s *service.Instance) (err error) {
				got, err = s.Recommendations().GetRecommendation(ctx, &setpointv1.GetRecommendationRequest{Target: name})
				return err
			})
		}
		if err != nil {
			l.t.Errorf("%s: %v", name, err)
			return
		}
		if desired := got.GetRecommendation().GetDesiredReplicas(); desired != stored {
			l.t.Errorf("%s: a poll says %d, not %d: %v", name, desired, stored, got)
			return
		}
		l.polled.Add(1)
	}
}

// persist calls one of the instances, and then another, until there is an answer. It returns
// any error that is not retryable.
func (l *load) persist(ask func(context.Context, *service.Instance) error) error {
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		err := ask(ctx, l.instances[rand.IntN(len(l.instances))])
		cancel()
		switch status.Code(err) {
		case codes.OK:
			return nil
		case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted:
			if time.Now().After(deadline) {
				return err
			}
			time.Sleep(time.Duration(1+rand.IntN(20)) * time.Millisecond) // a pause, not a condition
		default:
			return err
		}
	}
}

// question is deterministic. Usage rises and falls, at each target's own pace, so that windows
// and policies hold and release; every other target has pods with usage, the others an external
// metric, which leads to histories of different sizes.
func question(name string, number, at int, replicas int32) *setpointv1.RecommendRequest {
	now := timestamppb.New(began.Add(time.Duration(at) * step))
	wave := at / (2 + number%5) % 40
	if wave > 20 {
		wave = 40 - wave // 0 to 20 and back
	}
	r := &setpointv1.RecommendRequest{
		Target: name, RequestId: fmt.Sprint("step-", at), EvaluationTime: now,
		Scale: &setpointv1.Scale{SpecReplicas: replicas, StatusReplicas: proto.Int32(replicas)},
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web", ApiVersion: "apps/v1"},
			MinReplicas:    proto.Int32(2), MaxReplicas: 25,
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{
				ScaleUp:   &setpointv1.HPAScalingRules{StabilizationWindowSeconds: proto.Int32(30), Policies: []*setpointv1.HPAScalingPolicy{{Type: "Percent", Value: 50, PeriodSeconds: 60}}},
				ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: proto.Int32(120), Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 1, PeriodSeconds: 45}}},
			},
		},
	}
	if number%2 == 1 {
		r.Spec.Metrics = []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
			Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
		}}}
		r.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: fmt.Sprint(15 + wave*10)}}
		return r
	}
	r.Spec.Metrics = []*setpointv1.MetricSpec{{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
		Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: proto.Int32(60)},
	}}}
	ready := timestamppb.New(began.Add(-time.Hour))
	for i := range replicas {
		pod := fmt.Sprint("web-", i)
		r.Pods = append(r.Pods, &setpointv1.Pod{
			Name: pod, Phase: "Running", StartTime: ready, Ready: &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: ready},
			Containers: []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": "500m"}}},
		})
		r.PodMetrics = append(r.PodMetrics, &setpointv1.PodMetrics{
			Pod: pod, Timestamp: now, WindowSeconds: 30,
			Containers: []*setpointv1.ContainerMetrics{{Name: "app", Usage: map[string]string{"cpu": fmt.Sprint((100+wave*100)*4/int(replicas), "m")}}},
		})
	}
	return r
}

// decided is a version's decision as text for comparison: everything but the answer's name, and
// fields that a newer version may add.
func decided(r *setpointv1.RecommendResponse) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d → %d %s %q %q", r.GetCurrentReplicas(), r.GetDesiredReplicas(), r.GetAction(), r.GetError(), r.GetEvaluationTime().AsTime())
	conditions := slices.Clone(r.GetStatus().GetConditions())
	slices.SortFunc(conditions, func(a, b *setpointv1.HorizontalPodAutoscalerCondition) int {
		return strings.Compare(a.GetType(), b.GetType())
	})
	for _, c := range conditions {
		fmt.Fprintf(&b, "; %s %s %s %q since %v", c.GetType(), c.GetStatus(), c.GetReason(), c.GetMessage(), c.GetLastTransitionTime().AsTime())
	}
	for _, e := range r.GetEvents() {
		fmt.Fprintf(&b, "; %s %s %q", e.GetType(), e.GetReason(), e.GetMessage())
	}
	fmt.Fprintf(&b, "; last scaled %v", r.GetStatus().GetLastScaleTime().AsTime())
	return b.String()
}
