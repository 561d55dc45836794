package stored_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// Decoding an observation is what a poll costs, and its bytes are not the poller's. So only the
// decision of a period does it, whatever polls ask, and those that waited for it do not do it again.
func TestPollsDecodeAnObservationOnce(t *testing.T) {
	t.Parallel()
	number := func(n int32) *int32 { return &n }
	for _, tt := range []struct {
		name     string
		scale    int32 // the reported count; negative: none
		poll     func(i int32) stored.Poll
		decodes  int32
		problems int32
	}{
		{"the same question", 4, func(int32) stored.Poll { return stored.Poll{} }, 1, 0},
		{"another maximum each time", 4, func(i int32) stored.Poll { return stored.Poll{Max: number(4 + i)} }, 1, 0},
		{"another minimum each time", 4, func(i int32) stored.Poll { return stored.Poll{Min: number(1 + i)} }, 1, 0},
		{"another cap each time", 4, func(i int32) stored.Poll { return stored.Poll{CapMax: number(4 + i)} }, 1, 0},
		{"another count each time", 4, func(i int32) stored.Poll { return stored.Poll{Current: number(4 + 10*i)} }, 1, 39},
		{"at zero", 0, func(int32) stored.Poll { return stored.Poll{} }, 1, 0},
		{"a scale that is not known", -1, func(int32) stored.Poll { return stored.Poll{} }, 0, 40},
	} {
		for _, together := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, together %t", tt.name, together), func(t *testing.T) {
				t.Parallel()
				targets, key, decodes := polledTargets(t, tt.scale)
				var problems atomic.Int32
				var polls sync.WaitGroup
				for i := range int32(40) {
					one := func() {
						if _, err := targets.Recommendation(t.Context(), key, tt.poll(i)); err != nil {
							problems.Add(1)
						}
					}
					if together {
						polls.Go(one)
					} else {
						one()
					}
				}
				polls.Wait()
				if decodes.Load() != tt.decodes || problems.Load() != tt.problems {
					t.Errorf("%d decoded, %d problems, want %d and %d", decodes.Load(), problems.Load(), tt.decodes, tt.problems)
				}
			})
		}
	}
}

// polledTargets are targets with one whose observation is large. One at a time has room to
// decode, and each decision keeps the count; decodes counts them.
func polledTargets(t *testing.T, scale int32) (targets *stored.Targets, key store.Key, decodes *atomic.Int32) {
	t.Helper()
	engine, now := memory.New(memory.Options{}), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	t.Cleanup(func() { _ = engine.Close() })
	if _, err := engine.Part(store.Fleets, 0); err != nil {
		t.Fatal(err)
	}
	key, decodes = store.Key{Cluster: "demo", Namespace: "shop", Target: "web"}, new(atomic.Int32)
	room := make(chan struct{}, 1)
	targets, err := stored.New(engine, stored.Options{
		Clock: func() time.Time { return now },
		Room: func(_ context.Context, _ int, free func()) (func(), bool, error) {
			select {
			case room <- struct{}{}:
				return func() { <-room }, false, nil
			default:
			}
			free()
			room <- struct{}{}
			return func() { <-room }, true, nil
		},
		Recommend: func(ctx context.Context, req *setpointv1.RecommendRequest, poll record.Poll) (*setpointv1.RecommendResponse, error) {
			decodes.Add(1)
			n := req.GetScale().GetSpecReplicas()
			return &setpointv1.RecommendResponse{DesiredReplicas: n, CurrentReplicas: n, Action: "NONE", Status: &setpointv1.HorizontalPodAutoscalerStatus{}}, keep(ctx, engine, key, poll, n, now)
		},
	})
	fatal.If(t, err)
	spec := &setpointv1.TargetSpec{Spec: &setpointv1.HorizontalPodAutoscalerSpec{MinReplicas: proto.Int32(1), MaxReplicas: 1000}}
	if _, _, err := targets.SetSpec(t.Context(), key, spec, ""); err != nil {
		t.Fatal(err)
	}
	report := &setpointv1.ReportObservationRequest{}
	if scale >= 0 {
		report.Scale = &setpointv1.Scale{SpecReplicas: scale}
	}
	for i := range 1000 {
		report.Pods = append(report.Pods, &setpointv1.Pod{Name: fmt.Sprintf("web-%s-%d", strings.Repeat("x", 40), i)})
	}
	if _, err := targets.Report(t.Context(), key, report); err != nil {
		t.Fatal(err)
	}
	return targets, key, decodes
}

// keep records a decision that keeps a count, unless the poll is answered already.
func keep(ctx context.Context, engine store.Store, key store.Key, poll record.Poll, n int32, now time.Time) error {
	before, err := engine.Load(ctx, key)
	if err != nil {
		return err
	}
	r := record.Record{History: recommender.History{Seen: true, Updated: now, Last: recommender.LastDecision{
		ID: recommender.ID{1}, At: now.UnixNano(), From: n, To: n,
	}}}
	r.LastPoll = poll.Spec
	value := record.Append(nil, &r)
	_, err = engine.CompareAndSwap(ctx, store.Swap{Key: key, Old: before.Version, Value: value})
	return err
}
