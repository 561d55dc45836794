package v1_test

import (
	"encoding/json"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const manifest = `{
  "apiVersion": "autoscaling.setpoint.dev/v1", "kind": "Autoscaler",
  "metadata": {"name": "web", "namespace": "shop", "generation": 3, "labels": {"a": "b"}},
  "spec": {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    "minReplicas": 2, "maxReplicas": 9,
    "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}],
    "syncPeriodSeconds": 5, "shadow": true,
    "options": {
      "profile": "v1.28", "tolerance": "50m", "cpuInitializationPeriodSeconds": 1, "initialReadinessDelaySeconds": 0,
      "downscaleStabilizationSeconds": 60, "upscaleDelaySeconds": 70, "downscaleDelaySeconds": 80, "scaleToZero": false
    }
  },
  "status": {
    "desiredReplicas": 3, "currentReplicas": 2, "currentMetrics": null,
    "reference": "Deployment/web", "targets": "cpu: <unknown>/80%", "explanation": "Because.", "recommendationId": "r-1"
  }
}`

func read(t *testing.T) *autoscalingv1.Autoscaler {
	t.Helper()
	scheme := runtime.NewScheme()
	fatal.If(t, autoscalingv1.AddToScheme(scheme))
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	object, _, err := decoder.Decode([]byte(manifest), nil, nil)
	fatal.If(t, err)
	autoscaler, ok := object.(*autoscalingv1.Autoscaler)
	if !ok {
		t.Fatalf("a %T", object)
	}
	return autoscaler
}

func TestAManifestIsReadInFull(t *testing.T) {
	t.Parallel()
	a := read(t)
	written, err := json.Marshal(a)
	fatal.If(t, err)
	var got, want any
	fatal.If(t, json.Unmarshal(written, &got))
	fatal.If(t, json.Unmarshal([]byte(manifest), &want))
	if !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("written\n%s", written)
	}
}

func TestAsAHorizontalPodAutoscalerItHasTheSameMetaSpecAndStatus(t *testing.T) {
	t.Parallel()
	a := read(t)
	hpa := a.HorizontalPodAutoscaler()
	if hpa.APIVersion != "autoscaling/v2" || hpa.Kind != "HorizontalPodAutoscaler" {
		t.Errorf("%s %s", hpa.APIVersion, hpa.Kind)
	}
	if !apiequality.Semantic.DeepEqual(hpa.ObjectMeta, a.ObjectMeta) ||
		!apiequality.Semantic.DeepEqual(hpa.Spec, a.Spec.HorizontalPodAutoscalerSpec) ||
		!apiequality.Semantic.DeepEqual(hpa.Status, a.Status.HorizontalPodAutoscalerStatus) {
		t.Errorf("%+v", hpa)
	}
	untouched := a.DeepCopy()
	hpa.Labels["a"] = "c"
	*hpa.Spec.MinReplicas = 1
	hpa.Spec.Metrics[0].Type = ""
	hpa.Status.Conditions = append(hpa.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{})
	if !apiequality.Semantic.DeepEqual(a, untouched) {
		t.Error("a change of the one changed the other")
	}
}

func TestAStatusBringsWhatKubectlShows(t *testing.T) {
	t.Parallel()
	a := read(t)
	a.Status.Reference, a.Status.Targets = "", ""
	percent := int32(63)
	status := autoscalingv2.HorizontalPodAutoscalerStatus{DesiredReplicas: 4, CurrentMetrics: []autoscalingv2.MetricStatus{{
		Resource: &autoscalingv2.ResourceMetricStatus{Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: &percent}},
	}}}
	a.SetHorizontalPodAutoscalerStatus(&status)
	if a.Status.Reference != "Deployment/web" || a.Status.Targets != "cpu: 63%/80%" {
		t.Errorf("%q, %q", a.Status.Reference, a.Status.Targets)
	}
	if a.Status.DesiredReplicas != 4 || a.Status.Explanation != "Because." || a.Status.RecommendationID != "r-1" {
		t.Errorf("%+v", a.Status)
	}
	percent = 1
	if *a.Status.CurrentMetrics[0].Resource.Current.AverageUtilization != 63 {
		t.Error("a change of the one changed the other")
	}
}

func TestReadyIsWhatBothConditionsSay(t *testing.T) {
	t.Parallel()
	const able, active, limited = autoscalingv2.AbleToScale, autoscalingv2.ScalingActive, autoscalingv2.ScalingLimited
	type conditions map[autoscalingv2.HorizontalPodAutoscalerConditionType]corev1.ConditionStatus
	for _, tt := range []struct {
		rule string
		are  conditions
		want string
	}{
		{"it can scale, and metrics say to what", conditions{able: "True", active: "True"}, "True"},
		{"that it is limited makes no difference", conditions{able: "True", active: "True", limited: "True"}, "True"},
		{"no metric could be read", conditions{able: "True", active: "False"}, "False"},
		{"the recommender is away", conditions{able: "False", active: "True"}, "False"},
		{"one that is false is enough", conditions{able: "Unknown", active: "False"}, "False"},
		{"nobody knows", conditions{able: "True", active: "Unknown"}, "Unknown"},
		{"one is missing", conditions{able: "True", limited: "True"}, "Unknown"},
		{"nothing was decided yet", nil, ""},
	} {
		var status autoscalingv2.HorizontalPodAutoscalerStatus
		for kind, is := range tt.are {
			status.Conditions = append(status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind, Status: is})
		}
		a := read(t)
		a.SetHorizontalPodAutoscalerStatus(&status)
		if a.Status.Ready != tt.want {
			t.Errorf("%s: %s, want %s", tt.rule, a.Status.Ready, tt.want)
		}
	}
}

func TestSyncPeriod(t *testing.T) {
	t.Parallel()
	a := read(t)
	if got := a.Spec.SyncPeriod(time.Minute); got != 5*time.Second {
		t.Errorf("said: %v", got)
	}
	a.Spec.SyncPeriodSeconds = nil
	if got := a.Spec.SyncPeriod(time.Minute); got != time.Minute {
		t.Errorf("not said: %v", got)
	}
}

func TestOptionsAreThoseOfARequest(t *testing.T) {
	t.Parallel()
	o := read(t).Spec.Options.ToProto()
	if o.GetProfile() != "v1.28" || o.GetTolerance() != "50m" || o.ScaleToZero == nil || o.GetScaleToZero() ||
		o.GetCpuInitializationPeriod().AsDuration() != time.Second || o.GetInitialReadinessDelay() == nil ||
		o.GetInitialReadinessDelay().AsDuration() != 0 || o.GetDownscaleStabilization().AsDuration() != time.Minute {
		t.Errorf("%v", o)
	}
	var none *autoscalingv1.Options
	if none.ToProto() != nil || (&autoscalingv1.Options{}).ToProto() != nil {
		t.Error("options that say nothing are some")
	}
	zero := resource.MustParse("0")
	o = (&autoscalingv1.Options{Tolerance: &zero}).ToProto()
	if o.Tolerance == nil || o.GetTolerance() != "0" || o.CpuInitializationPeriod != nil || o.InitialReadinessDelay != nil ||
		o.DownscaleStabilization != nil || o.ScaleToZero != nil {
		t.Errorf("only a tolerance is said: %v", o)
	}
	// Objects of a cache are read by several at once.
	tolerance := resource.MustParse("0.05")
	before := tolerance
	if got := (&autoscalingv1.Options{Tolerance: &tolerance}).ToProto().GetTolerance(); got != "50m" || tolerance != before {
		t.Errorf("%q; %#v has become %#v", got, before, tolerance)
	}
}
