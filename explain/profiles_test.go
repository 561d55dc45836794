package explain

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/replay"
)

// usingAll makes a request of pods that use so many milli-cores of 500 each, target 60 %,
// without behavior.
func usingAll(milli ...int) *setpointv1.RecommendRequest {
	req := checkout(len(milli), "checkout-%d", func(i int) int { return milli[i] })
	req.Spec.Behavior = nil
	return req
}

// changedAgo sets when the count last changed.
func changedAgo(ago time.Duration) func(*setpointv1.RecommendRequest) {
	return func(req *setpointv1.RecommendRequest) {
		req.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{LastScaleTime: timestamppb.New(start.Add(-ago))}
	}
}

// queue adds an External metric with a target per replica; without values it fails.
func queue(values ...string) func(*setpointv1.RecommendRequest) {
	return func(req *setpointv1.RecommendRequest) {
		req.Spec.Metrics = append(req.Spec.Metrics, &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{
			Metric: &setpointv1.MetricIdentifier{Name: "queue"},
			Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
		}})
		for _, value := range values {
			req.ExternalMetrics = append(req.ExternalMetrics, &setpointv1.ExternalMetric{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: value})
		}
	}
}

// failingFirst puts a metric that can't be read first.
func failingFirst(req *setpointv1.RecommendRequest) {
	queue()(req)
	slices.Reverse(req.GetSpec().GetMetrics())
}

// windows sets a behavior with these windows, in seconds.
func windows(up, down int32) func(*setpointv1.RecommendRequest) {
	return func(req *setpointv1.RecommendRequest) {
		req.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{
			ScaleUp: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: &up}, ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: &down},
		}
	}
}

// leastChange selects the policy that allows least.
func leastChange(req *setpointv1.RecommendRequest) {
	windows(0, 0)(req)
	for _, rules := range []*setpointv1.HPAScalingRules{req.GetSpec().GetBehavior().GetScaleUp(), req.GetSpec().GetBehavior().GetScaleDown()} {
		rules.SelectPolicy = proto.String("Min")
	}
}

func atZero(req *setpointv1.RecommendRequest) {
	req.Scale.SpecReplicas, req.Pods, req.PodMetrics = 0, nil, nil
}

// The differences of each profile are explained in its own words.
func TestGoldenProfiles(t *testing.T) {
	type change = func(*setpointv1.RecommendRequest)
	for _, g := range []struct {
		file, profile string
		// before are the pods' usages a minute apart, up to a minute ago; 0: none.
		before []int
		milli  []int
		change []change
	}{
		{"v1.28-tolerance-edge", "v1.28", nil, []int{330, 330, 330}, []change{func(r *setpointv1.RecommendRequest) {
			windows(0, 300)(r)
			r.Spec.Behavior.ScaleUp.Tolerance = proto.String("0.5")
		}}},
		{"v1.28-at-zero", "v1.28", nil, nil, []change{atZero}},
		{"v1.19-window-raises", "v1.19", []int{400}, []int{200, 200, 200}, []change{windows(0, 300)}},
		{"v1.19-window-lowers", "v1.19", []int{150}, []int{400, 400, 400, 400}, []change{windows(300, 0)}},
		{"v1.19-min-lets-nothing-change", "v1.19", nil, []int{400, 400, 400}, []change{leastChange}},
		{"v1.19-failed-metric", "v1.19", nil, []int{100, 100, 100, 100}, []change{windows(0, 0), failingFirst}},
		{"v1.19-ignored-pod-counts", "v1.19", nil, []int{400, 400, 600}, []change{func(r *setpointv1.RecommendRequest) { r.Pods[2].Deleting = true }}},
		{"v1.15-behavior-ignored", "v1.15", nil, []int{400, 400, 400}, []change{windows(60, 60)}},
		{"v1.15-missing-pod", "v1.15", nil, []int{500, 500, -1}, []change{func(r *setpointv1.RecommendRequest) {
			r.Spec.Metrics[0].Resource.Target.AverageUtilization = proto.Int32(150)
		}}},
		{"v1.15-at-zero", "v1.15", nil, nil, []change{atZero}},
		{"cooldown-held-down", "cooldown", nil, []int{100, 100, 100, 100}, []change{changedAgo(4 * time.Minute), func(r *setpointv1.RecommendRequest) {
			r.Options.DownscaleStabilization = durationpb.New(time.Minute)
		}}},
		{"cooldown-held-up", "cooldown", nil, []int{400, 400, 400}, []change{changedAgo(10 * time.Second), func(r *setpointv1.RecommendRequest) {
			r.Options.UpscaleDelay = durationpb.New(15 * time.Second)
		}}},
		{"cooldown-growth", "cooldown", nil, []int{900, 900, 900}, nil},
		{"cooldown-within-tolerance", "cooldown", nil, []int{300, 310, 305}, []change{changedAgo(time.Minute)}},
		{"cooldown-first-failure", "cooldown", nil, []int{400, 400, 400}, []change{queue()}},
		{"design-2015-up", "design-2015", nil, []int{444, 430, 461}, []change{changedAgo(time.Hour)}},
		{"design-2015-within-tolerance", "design-2015", nil, []int{320, 320, 320, 320}, nil},
		{"design-2015-held", "design-2015", nil, []int{60, 80, 100}, []change{changedAgo(4 * time.Minute), func(r *setpointv1.RecommendRequest) {
			r.Options.CpuInitializationPeriod = durationpb.New(time.Minute)
		}}},
		{"design-2015-other-way", "design-2015", nil, []int{400, 400}, []change{func(r *setpointv1.RecommendRequest) { r.Scale.SpecReplicas = 9 }}},
		{"design-2015-a-sample-missing", "design-2015", nil, []int{400, 400, -1}, nil},
		{"design-2015-at-zero", "design-2015", nil, nil, []change{atZero, func(r *setpointv1.RecommendRequest) { r.Spec.MinReplicas = proto.Int32(0) }}},
		{"design-2015-capped", "design-2015", nil, []int{900, 900, 900}, []change{windows(0, 0), func(r *setpointv1.RecommendRequest) { r.Spec.MaxReplicas = 5 }}},
	} {
		t.Run(g.file, func(t *testing.T) {
			engine := replay.NewEngine()
			request := func(milli []int) *setpointv1.RecommendRequest {
				req := usingAll(milli...)
				req.Options = &setpointv1.RecommendOptions{Profile: g.profile, ScaleToZero: proto.Bool(true)}
				if g.profile == "v1.15" || g.profile == "cooldown" || g.profile == "design-2015" {
					req.Options.ScaleToZero = nil
				}
				for _, change := range g.change {
					change(req)
				}
				return req
			}
			for i, milli := range g.before {
				req := request(slices.Repeat([]int{milli}, len(g.milli)))
				req.EvaluationTime = timestamppb.New(start.Add(-time.Duration(len(g.before)-i) * time.Minute))
				resp := decide(t, engine, req, "another one changed it")
				if resp.GetCurrentReplicas() != int32(len(g.milli)) {
					t.Fatalf("%d replicas before", resp.GetCurrentReplicas())
				}
			}
			req := request(g.milli)
			resp := decide(t, engine, req, "")
			for _, problem := range problems(t, req, resp, defaultWidth) {
				t.Error(problem)
			}
			golden(t, g.file, req, resp, Options{})
		})
	}
}

// A profile without words of its own gets those of the newest version, so this test lists all
// profiles.
func TestEveryProfileHasItsWords(t *testing.T) {
	usual := []string{"v1.36", "v1.37"}
	for _, name := range recommender.ProfileNames() {
		if _, known := habitsOf[name]; known == slices.Contains(usual, name) {
			t.Errorf("%s: words of its own: %t", name, known)
		}
	}
	for name := range habitsOf {
		if _, known := recommender.ProfileByName(name); !known {
			t.Errorf("there is no profile %s", name)
		}
	}
}

// The cooldown profile has the observed replicas for the count, of which there may be some though none are asked for.
func TestCooldownAtZeroKeepsWhatIsObserved(t *testing.T) {
	req := usingAll()
	req.Options, req.Scale.StatusReplicas = &setpointv1.RecommendOptions{Profile: "cooldown"}, proto.Int32(3)
	for _, problem := range problems(t, req, decide(t, replay.NewEngine(), req, ""), defaultWidth) {
		t.Error(problem)
	}
}
