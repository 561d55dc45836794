//go:build linux

package release

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// callers is how many call at once, each for a target of its own, and pause the time between two
// calls of one.
const (
	callers = 12
	pause   = 200 * time.Millisecond
)

// load is the callers' load. What two versions decide, store and send to watchers under load is
// the matter of test/e2e/versions.
type load struct {
	t        *testing.T
	cancel   context.CancelFunc
	running  sync.WaitGroup
	answers  [callers]atomic.Int64
	failures atomic.Int64 // calls that failed for good
}

// begin starts the callers.
func begin(t *testing.T, client *setpoint.Client) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{t: t, cancel: cancel}
	for i := range callers {
		l.running.Go(func() {
			for ctx.Err() == nil {
				short, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
				answer, err := client.Recommend(short, &setpointv1.RecommendRequest{
					Target: fmt.Sprintf("clusters/default/namespaces/load/targets/target-%d", i),
					Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 60, Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
						Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
					}}}},
					Scale:           &setpointv1.Scale{SpecReplicas: 3, StatusReplicas: proto.Int32(3)},
					ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: "50"}},
				})
				stop()
				switch {
				case err != nil:
					l.failures.Add(1)
					t.Logf("caller %d: %v", i, err)
				case answer.GetDesiredReplicas() != 5:
					t.Errorf("caller %d is told %d replicas, want 5", i, answer.GetDesiredReplicas())
				default:
					l.answers[i].Add(1)
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

// steps is how many answers there were.
func (l *load) steps() (n int64) {
	for i := range l.answers {
		n += l.answers[i].Load()
	}
	return n
}

// proceed waits until each caller has had so many more answers.
func (l *load) proceed(n int64) {
	l.t.Helper()
	for i := range l.answers {
		want := l.answers[i].Load() + n
		kit.Eventually(l.t, patience, "proceeding", func() error {
			if got := l.answers[i].Load(); got < want {
				return fmt.Errorf("caller %d has had %d answers, want %d", i, got, want)
			}
			return nil
		})
	}
}

// end stops the callers after their current call.
func (l *load) end() {
	l.cancel()
	l.running.Wait()
}
