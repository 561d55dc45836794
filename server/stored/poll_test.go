package stored_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"github.com/setpoint-dev/setpoint/server/validation"
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

// Nor does one do it after the other that gets no count from what is stored, until that changes or the period is over.
func TestPollsWithoutACountDecodeAnObservationOnce(t *testing.T) { //nolint:paralleltest // It counts allocations.
	engine, now, decides := memory.New(memory.Options{}), time.Unix(1_700_000_000, 0), 0
	t.Cleanup(func() { _ = engine.Close() })
	_, err := engine.Part(store.Fleets, 0)
	fatal.If(t, err)
	targets, err := stored.New(engine, stored.Options{
		Clock: func() time.Time { return now },
		Recommend: func(context.Context, *setpointv1.RecommendRequest, record.Poll) (*setpointv1.RecommendResponse, error) {
			decides++
			return &setpointv1.RecommendResponse{DesiredReplicas: 3, CurrentReplicas: 3, Action: "NONE", Status: &setpointv1.HorizontalPodAutoscalerStatus{}, Error: "no metric can be read"}, nil
		},
	})
	fatal.If(t, err)
	key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
	spec := &setpointv1.TargetSpec{Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 10}}
	_, _, err = targets.SetSpec(t.Context(), key, spec, "")
	fatal.If(t, err)
	report := &setpointv1.ReportObservationRequest{Scale: &setpointv1.Scale{SpecReplicas: 3}}
	for i := range 4000 {
		report.ExternalMetrics = append(report.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: "m"}, Labels: map[string]string{"k": fmt.Sprint(i)}, Value: "1"})
	}
	_, err = targets.Report(t.Context(), key, report)
	fatal.If(t, err)
	poll := func() {
		_, err = targets.Recommendation(t.Context(), key, stored.Poll{DryRun: true})
	}
	// Undecided, and not recorded.
	for range 3 {
		poll()
	}
	var undecided *stored.UndecidedError
	if !errors.As(err, &undecided) || decides != 1 {
		t.Errorf("decided %d times, want once; %v", decides, err)
	}
	now = now.Add(stored.DefaultPeriod)
	if poll(); decides != 2 {
		t.Errorf("decided %d times, want once in each period", decides)
	}
	// Refused.
	selector := &setpointv1.LabelSelector{}
	for i := range 200 {
		selector.MatchExpressions = append(selector.MatchExpressions, &setpointv1.LabelSelectorRequirement{Key: fmt.Sprint("x", i), Operator: "DoesNotExist"})
	}
	spec.Spec.Metrics = []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: &setpointv1.MetricIdentifier{Name: "m", Selector: selector}}}}
	_, _, err = targets.SetSpec(t.Context(), key, spec, "")
	fatal.If(t, err)
	poll()
	allocations := testing.AllocsPerRun(3, poll)
	if !errors.Is(err, stored.ErrSelectorTerms) || allocations > 4000 {
		t.Errorf("%v takes %v allocations again", err, allocations)
	}
	report.ExternalMetrics = report.ExternalMetrics[:1]
	_, err = targets.Report(t.Context(), key, report)
	fatal.If(t, err)
	if poll(); !errors.As(err, &undecided) {
		t.Errorf("after a report that can be compared: %v", err)
	}
}

// A report looks into the spec where nothing is stored that tells whether the target is a fleet. A large one has its turn.
func TestAFirstReportReadsALargeSpecInItsTurn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spec  *setpointv1.TargetSpec
		turns int
		err   error
	}{
		{"a small spec", &setpointv1.TargetSpec{}, 0, nil},
		{"a large spec", &setpointv1.TargetSpec{}, 1, nil},
		{"a large fleet", &setpointv1.TargetSpec{Fleet: &setpointv1.FleetSpec{}}, 1, stored.ErrIsFleet},
	} {
		engine, turns := memory.New(memory.Options{}), 0
		t.Cleanup(func() { _ = engine.Close() })
		_, err := engine.Part(store.Fleets, 0)
		fatal.If(t, err)
		targets, err := stored.New(engine, stored.Options{Turn: func(context.Context) (func(), error) {
			turns++
			return func() {}, nil
		}})
		fatal.If(t, err)
		key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
		test.spec.Spec = &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 10}
		if test.turns > 0 {
			test.spec.Spec.Metrics = []*setpointv1.MetricSpec{{Type: strings.Repeat("x", stored.Small)}}
		}
		_, _, err = targets.SetSpec(t.Context(), key, test.spec, "")
		fatal.If(t, err)
		turns = 0
		_, err = targets.Report(t.Context(), key, &setpointv1.ReportObservationRequest{Scale: &setpointv1.Scale{SpecReplicas: 3}})
		if !errors.Is(err, test.err) || turns != test.turns {
			t.Errorf("%s: %v after %d turns, want %v after %d", test.name, err, turns, test.err, test.turns)
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

// queried are sources that fetch nothing. They are called with the names of pods.
type queried func(pods []string)

func (queried) Check(store.Key, *setpointv1.TargetSpec) []validation.Violation { return nil }
func (q queried) Fetch(_ context.Context, _ store.Key, _ *setpointv1.TargetSpec, pods []string) (*stored.Fetched, error) {
	q(pods)
	return &stored.Fetched{}, nil
}

// A spec that changes while its poll waits for memory has other queries: who waits for their sources holds no memory, and has
// waited for none while holding the observation.
func TestAPollHoldsNoMemoryWhileItWaitsForMore(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	engine := memory.New(memory.Options{})
	t.Cleanup(func() { _ = engine.Close() })
	_, err := engine.Part(store.Fleets, 0)
	fatal.If(t, err)
	key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
	spec := func(maximum int32) *setpointv1.TargetSpec {
		return &setpointv1.TargetSpec{
			Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: maximum, Metrics: []*setpointv1.MetricSpec{{Type: "Pods", Pods: &setpointv1.PodsMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "load"}, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("1")},
			}}}},
			Queries: []*setpointv1.MetricQuery{{Metric: "Pods:load", Source: "prometheus"}},
		}
	}
	var targets *stored.Targets
	rooms, held, fetches := 0, 0, 0
	polls := false
	targets, err = stored.New(engine, stored.Options{
		Clock: func() time.Time { return now }, Sources: queried(func(pods []string) {
			fetches++
			if rooms != fetches-1 || held != 0 || !slices.Equal(pods, []string{"web-0", "web-1"}) {
				t.Errorf("fetch %d: %d rooms, %d held, for %q", fetches, rooms, held, pods)
			}
		}),
		Room: func(ctx context.Context, _ int, free func()) (func(), bool, error) {
			if !polls {
				return func() {}, false, nil
			}
			if held > 0 {
				t.Error("it waits for memory while it holds some")
			}
			rooms++
			waited := rooms == 1
			if waited {
				free()
				polls = false
				_, _, err := targets.SetSpec(ctx, key, spec(20), "")
				fatal.If(t, err)
				polls = true
			}
			held++
			return func() { held-- }, waited, nil
		},
		Recommend: func(context.Context, *setpointv1.RecommendRequest, record.Poll) (*setpointv1.RecommendResponse, error) {
			if held != 1 {
				t.Errorf("%d are held while it decides", held)
			}
			return &setpointv1.RecommendResponse{DesiredReplicas: 3, CurrentReplicas: 3, Action: "NONE", Status: &setpointv1.HorizontalPodAutoscalerStatus{}}, nil
		},
	})
	fatal.If(t, err)
	_, _, err = targets.SetSpec(t.Context(), key, spec(10), "")
	fatal.If(t, err)
	_, err = targets.Report(t.Context(), key, &setpointv1.ReportObservationRequest{
		Scale: &setpointv1.Scale{SpecReplicas: 3, StatusReplicas: proto.Int32(3)}, Pods: []*setpointv1.Pod{{Name: "web-0", Phase: "Running"}, {Name: "web-1"}},
	})
	fatal.If(t, err)
	polls = true
	_, err = targets.Recommendation(t.Context(), key, stored.Poll{})
	fatal.If(t, err)
	if rooms != 2 || fetches != 2 || held != 0 {
		t.Errorf("%d rooms and %d fetches, want 2 of each; %d are held", rooms, fetches, held)
	}
}
