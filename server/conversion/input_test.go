package conversion_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

func TestTolerancesAreNumbersOrQuantities(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"0": 0, "0.1": 0.1, ".5": 0.5, "5.": 5, "+0.1": 0.1, "-0": 0, "1e-1": 0.1, "1E-1": 0.1, "1e3": 1000, "0.30000000000000004": 0.30000000000000004,
		"100m": 0.1, "50m": 0.05, "1k": 1000, "1Ki": 1024, "10000000n": 0.01, "1E": 1e18,
	} {
		got, err := conversion.Tolerance(text)
		if err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	if got, err := conversion.Tolerance(" 100m "); err != nil || got != 0.1 { // as Kubernetes reads quantities
		t.Errorf("with blanks around it a quantity is %v, %v, want 0.1", got, err)
	}
	for _, text := range []string{
		"", " ", "some", "5%", "1,5", "-0.1", "-1m", "NaN", "Inf", "+Inf", "-Inf", "infinity", "0x1p-2", "1_0", "0.1.1", "--1", "1e400",
	} {
		if got, err := conversion.Tolerance(text); err == nil && (text != "1e400" || math.IsInf(got, 0)) {
			t.Errorf("%q is taken for %v, want it refused", text, got)
		}
	}
}

func TestTheAPIsDefaultsApply(t *testing.T) {
	t.Parallel()
	t.Run("of a spec with nothing but a maximum", func(t *testing.T) {
		t.Parallel()
		in := input(t, request(t, `{"scale": {"specReplicas": 4}, "spec": {"maxReplicas": 9}}`))
		want := recommender.Spec{
			ScaleTargetRef: recommender.ObjectReference{Kind: "Target", Name: "web"},
			MinReplicas:    1, MaxReplicas: 9,
			Metrics: []recommender.MetricSpec{{Type: recommender.ResourceMetric, Resource: "cpu", Target: recommender.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(80))}}},
		}
		if !reflect.DeepEqual(in.Spec, want) {
			t.Errorf("the spec is %+v, want %+v", in.Spec, want)
		}
		if in.Scale != (recommender.Scale{SpecReplicas: 4, StatusReplicas: 4}) {
			t.Errorf("the scale is %+v, want 4 of 4", in.Scale)
		}
		if !reflect.DeepEqual(in.Options, recommender.DefaultOptions()) || in.Namespace != "shop" {
			t.Errorf("options are %+v in %q", in.Options, in.Namespace)
		}
	})
	t.Run("of a behavior that is empty, which is not one that is absent", func(t *testing.T) {
		t.Parallel()
		in := input(t, request(t, `{"scale": {}, "spec": {"behavior": {}}}`))
		want := &recommender.Behavior{ScaleUp: recommender.DefaultScaleUp(), ScaleDown: recommender.DefaultScaleDown()}
		if !reflect.DeepEqual(in.Spec.Behavior, want) {
			t.Errorf("the behavior is %+v, want %+v", in.Spec.Behavior, want)
		}
	})
	t.Run("of each field of a direction by itself", func(t *testing.T) {
		t.Parallel()
		in := input(t, request(t, `{"scale": {}, "spec": {"behavior": {
			"scaleUp": {"stabilizationWindowSeconds": 60},
			"scaleDown": {"selectPolicy": "Min", "tolerance": "50m", "policies": [{"type": "Pods", "value": 2, "periodSeconds": 30}]}}}}`))
		up, down := recommender.DefaultScaleUp(), recommender.DefaultScaleDown()
		up.StabilizationWindowSeconds = new(int32(60))
		down.SelectPolicy, down.Tolerance = recommender.MinChange, new(0.05)
		down.Policies = []recommender.ScalingPolicy{{Type: recommender.PodsPolicy, Value: 2, PeriodSeconds: 30}}
		if got := in.Spec.Behavior; !reflect.DeepEqual(got.ScaleUp, up) || !reflect.DeepEqual(got.ScaleDown, down) {
			t.Errorf("the behavior is %+v, want %+v and %+v", got, up, down)
		}
	})
	t.Run("of zero, which is not absent", func(t *testing.T) {
		t.Parallel()
		in := input(t, request(t, `{"scale": {"specReplicas": 3, "statusReplicas": 0}, "spec": {"minReplicas": 0, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}},
			"options": {"tolerance": "0", "cpuInitializationPeriod": "0s", "initialReadinessDelay": "0s", "downscaleStabilization": "0s", "upscaleDelay": "0s", "downscaleDelay": "0s", "scaleToZero": false}}`))
		if in.Spec.MinReplicas != 0 || in.Scale.StatusReplicas != 0 {
			t.Errorf("min is %d, status replicas %d, want 0", in.Spec.MinReplicas, in.Scale.StatusReplicas)
		}
		if s := in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds; s == nil || *s != 0 {
			t.Errorf("the window is %v, want 0", s)
		}
		if want := (recommender.Options{Named: in.Options.Named}); !reflect.DeepEqual(in.Options, want) {
			t.Errorf("options are %+v, want zeros", in.Options)
		}
	})
}

func TestOptionsThatAreNotSetAreTheServers(t *testing.T) {
	t.Parallel()
	reference, _ := recommender.ProfileByName(recommender.DefaultProfile)
	defaults := recommender.Options{
		Profile: reference, Tolerance: 0.2, CPUInitializationPeriod: time.Hour, InitialReadinessDelay: time.Minute,
		DownscaleStabilization: time.Second, ScaleToZero: true, HistoryLimit: 7,
		UpscaleDelay: 3 * time.Second, DownscaleDelay: 4 * time.Second,
	}
	req := request(t, `{"scale": {}, "spec": {}}`)
	in, violations := conversion.Input(req, defaults)
	if len(violations) > 0 || !reflect.DeepEqual(in.Options, defaults) {
		t.Errorf("options are %+v, %v, want %+v", in.Options, violations, defaults)
	}
	req.Options = &setpointv1.RecommendOptions{Profile: "v1.36", Tolerance: new("0.3"), DownscaleStabilization: durationpb.New(2 * time.Second), ScaleToZero: new(false)}
	want := defaults
	want.Tolerance, want.DownscaleStabilization, want.ScaleToZero = 0.3, 2*time.Second, false
	want.Named = recommender.DownscaleStabilizationOption
	if in, violations = conversion.Input(req, defaults); len(violations) > 0 || !reflect.DeepEqual(in.Options, want) {
		t.Errorf("options are %+v, %v, want %+v", in.Options, violations, want)
	}
	req.Options = &setpointv1.RecommendOptions{
		CpuInitializationPeriod: durationpb.New(1), InitialReadinessDelay: durationpb.New(2), DownscaleStabilization: durationpb.New(3),
		UpscaleDelay: durationpb.New(4), DownscaleDelay: durationpb.New(0),
	}
	want = defaults
	want.CPUInitializationPeriod, want.InitialReadinessDelay, want.DownscaleStabilization, want.UpscaleDelay, want.DownscaleDelay = 1, 2, 3, 4, 0
	want.Named = recommender.CPUInitializationPeriodOption | recommender.InitialReadinessDelayOption | recommender.DownscaleStabilizationOption |
		recommender.UpscaleDelayOption | recommender.DownscaleDelayOption
	if in, violations = conversion.Input(req, defaults); len(violations) > 0 || !reflect.DeepEqual(in.Options, want) {
		t.Errorf("options are %+v, %v, want %+v", in.Options, violations, want)
	}
}

func TestPodsAreReadAsTheyAre(t *testing.T) {
	t.Parallel()
	in := input(t, request(t, `{"scale": {}, "spec": {}, "pods": [
		{"name": "a", "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "ready": {"status": "True", "lastTransitionTime": "2026-01-01T00:00:20.5Z"},
		 "containers": [{"name": "app", "requests": {"cpu": "500m"}}], "initContainers": [{"name": "proxy", "restartable": true, "requests": {"cpu": "50m"}}, {"name": "init"}]},
		{"name": "b", "phase": "Pending", "deleting": true, "ready": {"status": "False"}, "resources": {"requests": {"memory": "1Gi"}}, "overhead": {"cpu": "10m"}},
		{"name": "c", "phase": "Failed", "ready": {"status": "Unknown"}},
		{"name": "d", "phase": "Succeeded"}],
		"podMetrics": [{"pod": "a", "timestamp": "2026-01-01T00:10:00Z", "windowSeconds": 30.25, "containers": [{"name": "app", "usage": {"cpu": "123456789n"}}, {"name": "proxy"}]}, {"pod": "z"}]}`))
	a, b, c, d := in.Pods[0], in.Pods[1], in.Pods[2], in.Pods[3]
	if a.Name != "a" || a.Phase != recommender.PhaseRunning || a.Deleting || a.Ready != recommender.ReadyTrue ||
		!a.StartTime.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) || !a.ReadyTransition.Equal(time.Date(2026, 1, 1, 0, 0, 20, 5e8, time.UTC)) {
		t.Errorf("the first pod is %+v", a)
	}
	if len(a.Containers) != 1 || a.Containers[0].Name != "app" || a.Containers[0].Requests[0].Resource != "cpu" || a.Containers[0].Requests[0].Quantity.Milli() != 500 {
		t.Errorf("its containers are %+v", a.Containers)
	}
	if len(a.InitContainers) != 2 || !a.InitContainers[0].Restartable || a.InitContainers[0].Requests[0].Quantity.Milli() != 50 || a.InitContainers[1].Restartable || a.InitContainers[1].Name != "init" {
		t.Errorf("its init containers are %+v", a.InitContainers)
	}
	if b.Phase != recommender.PhasePending || !b.Deleting || b.Ready != recommender.ReadyFalse || !b.StartTime.IsZero() || !b.ReadyTransition.IsZero() ||
		len(b.Containers) != 0 || b.PodLevelRequests[0].Quantity.Milli() != 1<<30*1000 || b.Overhead[0].Quantity.Milli() != 10 {
		t.Errorf("the second pod is %+v", b)
	}
	if c.Phase != recommender.PhaseFailed || c.Ready != recommender.ReadyUnknown || d.Phase != recommender.PhaseOther || d.Ready != recommender.NoCondition {
		t.Errorf("the last pods are %+v and %+v", c, d)
	}
	m := in.PodMetrics[0]
	if m.Pod != "a" || m.Window != 30250*time.Millisecond || !m.Timestamp.Equal(time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC)) ||
		!reflect.DeepEqual(m.Containers[0].Usage, []recommender.ResourceUsage{{Resource: "cpu", Milli: 124}}) || len(m.Containers[1].Usage) != 0 {
		t.Errorf("the samples are %+v", m)
	}
	if z := in.PodMetrics[1]; z.Window != 0 || !z.Timestamp.IsZero() || len(z.Containers) != 0 {
		t.Errorf("a sample of nothing is %+v", z)
	}
}

// Parts of pods share their allocations; one must not reach into the next.
func TestPartsOfPodsCanBeAppendedTo(t *testing.T) {
	t.Parallel()
	in := input(t, request(t, `{"scale": {}, "spec": {}, "pods": [
		{"name": "a", "containers": [{"name": "a0", "requests": {"cpu": "1"}}], "initContainers": [{"name": "i0", "requests": {"cpu": "2"}}]},
		{"name": "b", "containers": [{"name": "b0", "requests": {"cpu": "3"}}], "initContainers": [{"name": "i1", "requests": {"cpu": "4"}}]}],
		"podMetrics": [{"pod": "a", "containers": [{"name": "a0", "usage": {"cpu": "5"}}]}, {"pod": "b", "containers": [{"name": "b0", "usage": {"cpu": "6"}}]}]}`))
	a, b := &in.Pods[0], &in.Pods[1]
	_ = append(a.Containers, recommender.Container{Name: "x"})
	_ = append(a.InitContainers, recommender.InitContainer{})
	_ = append(a.Containers[0].Requests, recommender.ResourceRequest{Resource: "x"})
	_ = append(a.InitContainers[0].Requests, recommender.ResourceRequest{Resource: "x"})
	_ = append(in.PodMetrics[0].Containers, recommender.ContainerMetrics{Name: "x"})
	_ = append(in.PodMetrics[0].Containers[0].Usage, recommender.ResourceUsage{Resource: "x"})
	if b.Containers[0].Name != "b0" || b.InitContainers[0].Name != "i1" || b.Containers[0].Requests[0].Resource != "cpu" || b.InitContainers[0].Requests[0].Resource != "cpu" ||
		in.PodMetrics[1].Containers[0].Name != "b0" || in.PodMetrics[1].Containers[0].Usage[0].Resource != "cpu" {
		t.Errorf("appending to the first pod changed the second: %+v, %+v", b, in.PodMetrics[1])
	}
}

func TestTheRequestIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	req := request(t, `{"scale": {"selector": "a=b"}, "explain": true, "spec": {"metrics": [{"type": "External", "external": {"metric": {"name": "q", "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["c", "b"]}]}}}}]},
		"externalMetrics": [{"metric": {"name": "q", "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["c", "b"]}]}}, "value": "1"}],
		"previousStatus": {"currentMetrics": [{"type": "External", "external": {"metric": {"name": "q", "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["c", "b"]}]}}, "current": {"value": "1"}}}]}}`)
	before := proto.Clone(req)
	in := input(t, req)
	in.Spec.Metrics[0].Metric.Selector.MatchExpressions[0].Values[0] = "x"
	in.PreviousStatus.CurrentMetrics[0].Metric.Selector.MatchExpressions[0].Values[0] = "x"
	if !proto.Equal(req, before) {
		t.Errorf("the request became %v", req)
	}
}

func TestSelectorProblemsAreReportedOrFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, request string
		want          *recommender.SelectorProblem
	}{
		{"none", `"scale": {"selector": "app=web,tier in (a,b)"}`, nil},
		{"no selector", `"scale": {}`, nil},
		{"one that does not parse", `"scale": {"selector": "app=="}`, nil},
		{"found", `"scale": {"selector": "app in"}`, &recommender.SelectorProblem{Reason: recommender.InvalidSelector, Message: "unable to parse requirement: found '' expected: '('"}},
		{"required", `"scale": {}, "selectorProblem": {"reason": "SelectorRequired"}`, &recommender.SelectorProblem{Reason: recommender.SelectorRequired}},
		{"invalid", `"scale": {}, "selectorProblem": {"reason": "InvalidSelector", "message": "m"}`, &recommender.SelectorProblem{Reason: recommender.InvalidSelector, Message: "m"}},
		{"ambiguous", `"scale": {"selector": "a=b"}, "selectorProblem": {"reason": "AmbiguousSelector", "autoscalers": ["shop/web", "shop/api"]}`,
			&recommender.SelectorProblem{Reason: recommender.AmbiguousSelector, Selector: "a=b", Autoscalers: []string{"shop/web", "shop/api"}}},
		{"reported rather than found", `"scale": {"selector": "app in"}, "selectorProblem": {"reason": "SelectorRequired"}`, &recommender.SelectorProblem{Reason: recommender.SelectorRequired, Selector: "app in"}},
	} {
		if got := input(t, request(t, `{"spec": {}, `+tt.request+`}`)).SelectorProblem; !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestScaleErrorsStandForTheScale(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]recommender.ScaleErrorReason{
		"": recommender.ScaleGetFailed, "FailedGet": recommender.ScaleGetFailed,
		"InvalidAPIVersion": recommender.ScaleInvalidAPIVersion, "UnknownKind": recommender.ScaleUnknownKind,
	} {
		in := input(t, request(t, `{"spec": {}, "scaleError": {"reason": "`+reason+`", "message": "m"}}`))
		if in.ScaleError == nil || *in.ScaleError != (recommender.ScaleError{Reason: want, Message: "m"}) {
			t.Errorf("%q: got %+v, want %d", reason, in.ScaleError, want)
		}
	}
	if got := refused(t, request(t, `{"spec": {}}`)); len(got) != 1 || got[0].Field != "scale" {
		t.Errorf("without either: refused by %v, want the scale", got)
	}
}

// Quantities that the controller reads as another number are noted, and only for
// explanations.
func TestQuantitiesOutOfRangeAreNoted(t *testing.T) {
	t.Parallel()
	req := request(t, `{"scale": {}, "explain": true, "spec": {"metrics": [{"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1E"}}}]},
		"pods": [{"name": "a", "containers": [{"name": "app", "requests": {"memory": "10Ei"}}]}]}`)
	if got := input(t, req).Notes; len(got) != 2 {
		t.Errorf("got %d notes, want 2: %q", len(got), got)
	}
	req.Explain = false
	if got := input(t, req).Notes; len(got) != 0 {
		t.Errorf("without an explanation there are notes: %q", got)
	}
}
