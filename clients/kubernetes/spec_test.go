package kubernetes_test

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// The service's spec has the JSON of autoscaling/v2, so converting a spec equals parsing its
// JSON.
func TestSpecsConvertVerbatim(t *testing.T) {
	for _, test := range []struct{ name, spec string }{
		{"nothing is filled in", `
scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
maxReplicas: 10`},
		{"every source and target", `
scaleTargetRef: {kind: ReplicationController, name: web}
minReplicas: 0
maxReplicas: 10
metrics:
- {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
- {type: ContainerResource, containerResource: {name: memory, container: app, target: {type: AverageValue, averageValue: 200Mi}}}
- {type: Pods, pods: {metric: {name: rps, selector: {matchLabels: {verb: GET}}}, target: {type: AverageValue, averageValue: 1500m}}}
- {type: Object, object: {describedObject: {apiVersion: v1, kind: Service, name: web}, metric: {name: rps, selector: {}}, target: {type: Value, value: "1"}}}
- {type: External, external: {metric: {name: depth, selector: {matchExpressions: [{key: q, operator: In, values: [a, b]}]}}, target: {type: AverageValue, averageValue: "30"}}}`},
		{"what the service will refuse is passed on", `
scaleTargetRef: {apiVersion: a/b/c, kind: "", name: ""}
maxReplicas: 0
metrics:
- {type: Cheese}
- {type: Resource, external: {metric: {name: depth}, target: {type: Value, value: "1"}}, pods: {metric: {name: rps}, target: {type: "", value: "1", averageValue: "1"}}}`},
		{"empty behavior is behavior", `
scaleTargetRef: {kind: Deployment, name: web}
maxReplicas: 10
behavior: {}`},
		{"behavior", `
scaleTargetRef: {kind: Deployment, name: web}
maxReplicas: 10
behavior:
  scaleUp: {stabilizationWindowSeconds: 0, selectPolicy: Min, tolerance: 50m, policies: [{type: Pods, value: 4, periodSeconds: 60}]}
  scaleDown: {stabilizationWindowSeconds: 60}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			snapshot := snapshotOf(t, noMetrics)
			snapshot.Autoscaler.Spec = kubernetestest.FromYAML[autoscalingv2.HorizontalPodAutoscalerSpec](t, test.spec)
			snapshot.ScaleError = &kubernetes.ScaleError{}
			want, err := yaml.YAMLToJSON([]byte(test.spec))
			fatal.If(t, err)
			kubernetestest.CheckMessage(t, kubernetestest.Request(t, snapshot).GetSpec(), string(want))
		})
	}
}

// Objects of a cache may be converted by several at once, so that conversion stores nothing in them, such as what a quantity is
// as a text.
func TestConversionOnlyReads(t *testing.T) {
	spec := kubernetestest.FromYAML[autoscalingv2.HorizontalPodAutoscalerSpec](t, `
maxReplicas: 10
metrics: [{type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 8Mi}}}]`)
	before := *spec.Metrics[0].Resource.Target.AverageValue
	if got := kubernetes.SpecToProto(&spec).GetMetrics()[0].GetResource().GetTarget().GetAverageValue(); got != "8Mi" {
		t.Errorf("got %q", got)
	}
	if after := *spec.Metrics[0].Resource.Target.AverageValue; after != before {
		t.Errorf("before %#v, after %#v", before, after)
	}
}

const fullStatus = `
observedGeneration: 7
lastScaleTime: "2026-03-02T06:41:03Z"
currentReplicas: 3
desiredReplicas: 4
currentMetrics:
- {type: Resource, resource: {name: cpu, current: {averageUtilization: 58, averageValue: 291m}}}
- {type: ""}
- {type: ContainerResource, containerResource: {name: memory, container: app, current: {averageValue: 115692885333m}}}
- {type: Pods, pods: {metric: {name: rps, selector: {matchLabels: {verb: GET}}}, current: {averageValue: "3"}}}
- {type: Object, object: {describedObject: {apiVersion: v1, kind: Service, name: web}, metric: {name: rps, selector: {}}, current: {value: "20"}}}
- {type: External, external: {metric: {name: depth, selector: {matchExpressions: [{key: q, operator: Exists}]}}, current: {averageValue: 7500m}}}
conditions:
- {type: AbleToScale, status: "True", lastTransitionTime: "2026-02-11T08:14:18Z", reason: ReadyForNewScale, message: recommended size matches current size}
- {type: ScalingActive, status: "False", lastTransitionTime: null}`

func TestStatusesConvertBothWays(t *testing.T) {
	for _, test := range []struct{ name, status string }{
		{"empty", `{desiredReplicas: 0, currentMetrics: null}`},
		{"full", fullStatus},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := kubernetestest.FromYAML[autoscalingv2.HorizontalPodAutoscalerStatus](t, test.status)
			got, err := kubernetes.StatusFromProto(kubernetes.StatusToProto(&want))
			fatal.If(t, err)
			if !equality.Semantic.DeepEqual(*got, want) {
				t.Errorf("got %+v\nwant %+v", *got, want)
			}
		})
	}
}

func TestStatusFromProtoNamesBadQuantities(t *testing.T) {
	bad := "many"
	_, err := kubernetes.StatusFromProto(&setpointv1.HorizontalPodAutoscalerStatus{CurrentMetrics: []*setpointv1.MetricStatus{
		{Type: "Resource"},
		{Type: "Pods", Pods: &setpointv1.PodsMetricStatus{Current: &setpointv1.MetricValueStatus{AverageValue: &bad}}},
	}})
	kubernetestest.CheckError(t, err, `currentMetrics[1].pods.current.averageValue: "many" is not a quantity`)
	if got, err := kubernetes.StatusFromProto(nil); err != nil || got.DesiredReplicas != 0 {
		t.Errorf("of no status got %+v, %v", got, err)
	}
}

func TestPreviousStatusIsSentUnlessEmpty(t *testing.T) {
	snapshot := snapshotOf(t, noMetrics)
	if got := kubernetestest.Request(t, snapshot).GetPreviousStatus(); got != nil {
		t.Errorf("got %v, want none", got)
	}
	snapshot.Autoscaler.Status.CurrentMetrics = []autoscalingv2.MetricStatus{}
	if got := kubernetestest.Request(t, snapshot).GetPreviousStatus(); got != nil {
		t.Errorf("got %v for empty lists, want none", got)
	}
	snapshot.Autoscaler.Status = kubernetestest.FromYAML[autoscalingv2.HorizontalPodAutoscalerStatus](t, fullStatus)
	got := kubernetestest.Request(t, snapshot).GetPreviousStatus()
	if got.GetDesiredReplicas() != 4 || len(got.GetCurrentMetrics()) != 6 {
		t.Errorf("got %v", got)
	}
	kubernetestest.CheckMessages(t, got.GetConditions(),
		`{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-02-11T08:14:18Z","reason":"ReadyForNewScale","message":"recommended size matches current size"}`,
		`{"type":"ScalingActive","status":"False"}`)
}
