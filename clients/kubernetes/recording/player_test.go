package recording_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// curated returns a scenario of the curated recordings, whose steps the caller may
// replace.
func curated(t testing.TB, name string) *recording.Scenario {
	t.Helper()
	for _, scenario := range readRecordings(t, "curated.jsonl.gz") {
		if scenario.Name == name {
			out := *scenario
			out.Steps = slices.Clone(scenario.Steps)
			return &out
		}
	}
	t.Fatalf("no scenario %s", name)
	return nil
}

// play returns the requests of the steps.
func play(t testing.TB, scenario *recording.Scenario) []*setpointv1.RecommendRequest {
	t.Helper()
	var out []*setpointv1.RecommendRequest
	player := recording.NewPlayer(scenario)
	for i := range scenario.Steps {
		request, err := player.Request(&scenario.Steps[i], "replay")
		fatal.If(t, err)
		out = append(out, request)
	}
	return out
}

// checkMessage compares a message with its JSON.
func checkMessage(t testing.TB, got proto.Message, wantJSON string) {
	t.Helper()
	want := got.ProtoReflect().New().Interface()
	fatal.If(t, protojson.Unmarshal([]byte(wantJSON), want))
	if !proto.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", protojson.Format(got), protojson.Format(want))
	}
}

func TestRequestOfAStep(t *testing.T) {
	scenario := curated(t, "resource/cpu-utilization/scale-up")
	got := play(t, scenario)[0]
	checkMessage(t, got.GetOptions(), `{"profile":"v1.36","tolerance":"0.1","cpuInitializationPeriod":"300s","initialReadinessDelay":"30s","downscaleStabilization":"300s","scaleToZero":false}`)
	if got.GetTarget() != "clusters/replay/namespaces/default/targets/web" || !got.GetEvaluationTime().AsTime().Equal(scenario.Steps[0].Time) {
		t.Errorf("got target %s at %v", got.GetTarget(), got.GetEvaluationTime().AsTime())
	}
	if len(got.GetPods()) == 0 || len(got.GetPodMetrics()) != len(got.GetPods()) || got.GetPreviousStatus() != nil {
		t.Errorf("got %s", protojson.Format(got))
	}
}

func TestTheClusterAnswersAsTheAPIsDo(t *testing.T) {
	for _, test := range []struct {
		scenario, rule string
		step           int
		holds          func(*setpointv1.RecommendRequest) bool
	}{
		{"resource/metrics-with-other-labels-are-not-listed", "PodMetrics go by their own labels", 0, func(r *setpointv1.RecommendRequest) bool {
			return len(r.GetPodMetrics()) == 2
		}},
		{"resource/metrics-of-unknown-pods/average-value", "PodMetrics may be of no pod", 0, func(r *setpointv1.RecommendRequest) bool {
			return len(r.GetPodMetrics()) > len(r.GetPods())
		}},
		{"pods/other-labels-are-not-selected", "pods go by the selector", 0, func(r *setpointv1.RecommendRequest) bool {
			return len(r.GetPods()) == 2
		}},
		{"pods-metric/unknown-pod", "values of Pods metrics may be of no pod", 0, func(r *setpointv1.RecommendRequest) bool {
			return len(r.GetCustomMetrics()) > len(r.GetPods())
		}},
		{"object-value/namespace", "a Namespace is the autoscaler's, whatever the spec calls it", 0, func(r *setpointv1.RecommendRequest) bool {
			return len(r.GetCustomMetrics()) == 1 && r.GetCustomMetrics()[0].GetDescribedObject().GetName() == "default"
		}},
		{"object-value/not-found", "nothing stands for an object's value that is not there", 0, func(r *setpointv1.RecommendRequest) bool {
			return len(r.GetCustomMetrics()) == 0 && len(r.GetMetricErrors()) == 0
		}},
		{"external-value/selector", "external series come with labels and without selector", 0, func(r *setpointv1.RecommendRequest) bool {
			first := r.GetExternalMetrics()[0]
			return first.GetMetric().GetSelector() == nil && len(first.GetLabels()) > 0
		}},
		{"metrics/api-errors-of-each-kind", "errors of whole APIs", 0, func(r *setpointv1.RecommendRequest) bool {
			return subjects(r) == "custom.metrics.k8s.io external.metrics.k8s.io metrics.k8s.io"
		}},
		{"external-value/api-error", "errors of metrics", 0, func(r *setpointv1.RecommendRequest) bool {
			return subjects(r) != ""
		}},
		{"selector/empty", "a missing selector", 0, func(r *setpointv1.RecommendRequest) bool {
			return r.GetSelectorProblem().GetReason() == "SelectorRequired" && r.GetPods() == nil
		}},
		{"selector/ambiguous-on-one-pod", "no pod is shared yet", 0, func(r *setpointv1.RecommendRequest) bool {
			return r.GetSelectorProblem() == nil
		}},
		{"selector/ambiguous-on-one-pod", "one pod is shared", 1, func(r *setpointv1.RecommendRequest) bool {
			return strings.Join(r.GetSelectorProblem().GetAutoscalers(), " ") == "default/rival default/web"
		}},
		{"selector/other-hpa-no-overlap", "autoscalers of other namespaces share nothing", 0, func(r *setpointv1.RecommendRequest) bool {
			return r.GetSelectorProblem() == nil
		}},
		{"target/invalid-api-version", "an apiVersion that does not parse", 0, func(r *setpointv1.RecommendRequest) bool {
			return r.GetScaleError().GetReason() == "InvalidAPIVersion" && r.GetScaleError().GetMessage() == "unexpected GroupVersion string: a/b/c"
		}},
		{"target/unknown-kind", "an unknown kind", 0, func(r *setpointv1.RecommendRequest) bool {
			return r.GetScaleError().GetReason() == "UnknownKind" && r.GetScaleError().GetMessage() == "no matches for apps/, Resource=Widget"
		}},
		{"target/scale-cannot-be-read", "a scale that can't be read", 1, func(r *setpointv1.RecommendRequest) bool {
			return r.GetScaleError().GetReason() == "FailedGet" && r.GetScaleError().GetMessage() == `deployments.apps "web" not found`
		}},
		{"target/replication-controller", "a kind of the core group", 0, func(r *setpointv1.RecommendRequest) bool {
			return r.GetScaleError() == nil
		}},
		{"life/initial-status-is-kept", "the status before the first step", 0, func(r *setpointv1.RecommendRequest) bool {
			return r.GetPreviousStatus().GetDesiredReplicas() == 7 && len(r.GetPreviousStatus().GetConditions()) == 2
		}},
		{"stabilization/configured-default-window-fractional", "a fraction of a second", 0, func(r *setpointv1.RecommendRequest) bool {
			return r.GetOptions().GetDownscaleStabilization().AsDuration()%time.Second != 0
		}},
	} {
		t.Run(test.scenario+"/"+test.rule, func(t *testing.T) {
			if request := play(t, curated(t, test.scenario))[test.step]; !test.holds(request) {
				t.Errorf("%s does not hold: %s", test.rule, protojson.Format(request))
			}
		})
	}
}

// subjects lists the subjects of the request's errors.
func subjects(request *setpointv1.RecommendRequest) string {
	var out []string
	for _, failure := range request.GetMetricErrors() {
		out = append(out, failure.GetMetric())
	}
	return strings.Join(out, " ")
}

func TestErrorsOfAMetricComeBeforeThoseOfItsAPI(t *testing.T) {
	scenario := curated(t, "metrics/api-errors-of-each-kind")
	scenario.Steps[0].Errors = map[string]string{"custom": "a", "custom:rps": "b", "external:other": "c", "resource": "d"}
	const want = "custom.metrics.k8s.io/rps custom.metrics.k8s.io metrics.k8s.io"
	if got := subjects(play(t, scenario)[0]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The autoscaler's life cycle: its status begins with the scenario's, its spec is replaced, it
// is deleted, and recreated without the status.
func TestThePlayerKeepsTheAutoscaler(t *testing.T) {
	scenario := curated(t, "life/initial-status-is-kept")
	first := scenario.Steps[0]
	edited := scenario.HPA.DeepCopy()
	edited.Spec.MaxReplicas = 5
	edited.Status = autoscalingv2.HorizontalPodAutoscalerStatus{DesiredReplicas: 99}
	step := func(change func(*recording.Step)) recording.Step {
		out := first
		change(&out)
		return out
	}
	scenario.Steps = []recording.Step{
		first,
		step(func(s *recording.Step) { s.HPA = edited }),
		step(func(*recording.Step) {}),
		step(func(s *recording.Step) { s.HPADeleted = true }),
		step(func(*recording.Step) {}),
		step(func(s *recording.Step) { s.HPA = edited }),
	}
	want := []struct {
		what         string
		max, desired int32
	}{
		{"the scenario's", 10, 7}, {"edited: the status goes on", 5, 7}, {"as before", 5, 7},
		{"deleted", 0, 0}, {"still deleted", 0, 0}, {"made again: no status", 5, 0},
	}
	for i, got := range play(t, scenario) {
		if got.GetSpec().GetMaxReplicas() != want[i].max || got.GetPreviousStatus().GetDesiredReplicas() != want[i].desired {
			t.Errorf("step %d, %s: got %v", i, want[i].what, got)
		}
		if (got == nil) != (want[i].max == 0) {
			t.Errorf("step %d, %s: got %v", i, want[i].what, got)
		}
	}
	if scenario.HPA.Spec.MaxReplicas != 10 {
		t.Error("the player changed the scenario")
	}
}

func TestWithSpecReplacesEverySpec(t *testing.T) {
	scenario := curated(t, "life/metric-spec-edited")
	spec := scenario.HPA.Spec.DeepCopy()
	spec.MaxReplicas = 77
	player := recording.NewPlayer(scenario).WithSpec(spec, nil, nil)
	for i := range scenario.Steps {
		request, err := player.Request(&scenario.Steps[i], "replay")
		if err != nil || request.GetSpec().GetMaxReplicas() != 77 {
			t.Errorf("step %d: got %v, %v", i, request.GetSpec(), err)
		}
	}
	if scenario.HPA.Spec.MaxReplicas == 77 {
		t.Error("the player changed the scenario")
	}
}

// Of the recorded options a spec replaces those that it brings, in steps of both forms. Durations do not add up.
func TestWithSpecReplacesTheOptionsThatItBrings(t *testing.T) {
	t.Parallel()
	objects := curated(t, "life/metric-spec-edited")
	objects.Config.Tolerance, objects.Config.DownscaleStabilizationSeconds = 0.2, 300
	asked := &setpointv1.RecommendRequest{Target: "clusters/c/namespaces/n/targets/t", Options: objects.Config.Options()}
	for form, scenario := range map[string]*recording.Scenario{"objects": objects, "calls": {Name: "calls", Steps: []recording.Step{{Request: asked}, {Request: asked}}}} {
		for _, own := range []*setpointv1.RecommendOptions{nil, {}, {DownscaleStabilization: durationpb.New(500 * time.Millisecond)}} {
			player := recording.NewPlayer(scenario).WithSpec(objects.HPA.Spec.DeepCopy(), nil, own)
			want := 300 * time.Second
			if own.GetDownscaleStabilization() != nil {
				want = 500 * time.Millisecond
			}
			for i := range scenario.Steps {
				request, err := player.Request(&scenario.Steps[i], "replay")
				if got := request.GetOptions(); err != nil || got.GetTolerance() != "0.2" || got.GetDownscaleStabilization().AsDuration() != want {
					t.Errorf("%s with %v, step %d: got %v, %v", form, own, i, got, err)
				}
			}
		}
	}
	if asked.GetOptions().GetDownscaleStabilization().AsDuration() != 300*time.Second {
		t.Error("the player changed the scenario")
	}
}

func TestOptions(t *testing.T) {
	for _, test := range []struct {
		name, tolerance string
		config          recording.Config
		wantWindow      time.Duration
	}{
		{"zero is a setting", "0", recording.Config{}, 0},
		{"the shortest text of the number", "0.1", recording.Config{Tolerance: 0.1}, 0},
		{"a number that needs all its digits", "0.30000000000000004", recording.Config{Tolerance: 0.30000000000000004}, 0},
		{"a small one without exponent", "0.00000001", recording.Config{Tolerance: 1e-8}, 0},
		{"a fraction of a second", "0", recording.Config{DownscaleStabilizationSeconds: 7.5}, 7500 * time.Millisecond},
		{"a fraction that float64 can't hold", "0", recording.Config{DownscaleStabilizationSeconds: 0.3}, 300 * time.Millisecond},
		{"beyond what a duration holds", "0", recording.Config{DownscaleStabilizationSeconds: 1e300}, 290 * 365 * 24 * time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.config.Options()
			if got.GetTolerance() != test.tolerance || got.GetDownscaleStabilization().AsDuration() != test.wantWindow {
				t.Errorf("got tolerance %s, window %v, want %s, %v",
					got.GetTolerance(), got.GetDownscaleStabilization().AsDuration(), test.tolerance, test.wantWindow)
			}
		})
	}
}

// A recording of a controller without delays sets none in requests, so that nothing warns about
// them.
func TestDelaysOfARecording(t *testing.T) {
	t.Parallel()
	if o := (recording.Config{}).Options(); o.GetUpscaleDelay() != nil || o.GetDownscaleDelay() != nil {
		t.Errorf("delays of none: %v", o)
	}
	up, down := 7.5, 0.0
	o := recording.Config{UpscaleDelaySeconds: &up, DownscaleDelaySeconds: &down}.Options()
	if o.GetUpscaleDelay().AsDuration() != 7500*time.Millisecond || o.GetDownscaleDelay() == nil || o.GetDownscaleDelay().AsDuration() != 0 {
		t.Errorf("delays of 7.5 s and 0: %v", o)
	}
}
