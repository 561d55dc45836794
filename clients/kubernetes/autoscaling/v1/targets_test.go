package v1_test

import (
	"os"
	"slices"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/util/yaml"

	autoscalingv1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// conformance/crd compares with the API server's own printer.
func TestTargetsAreRenderedAsForAHorizontalPodAutoscaler(t *testing.T) {
	t.Parallel()
	const (
		cpu       = "{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}"
		cpuAmount = "{type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: 500m}}}"
		container = "{type: ContainerResource, containerResource: {name: memory, container: app, target: {type: Utilization, averageUtilization: 70}}}"
		pods      = "{type: Pods, pods: {metric: {name: a}, target: {type: AverageValue, averageValue: 20}}}"
		object    = "{type: Object, object: {metric: {name: a}, target: {type: Value, value: 2k}}}"
		series    = "{type: External, external: {metric: {name: a}, target: {type: AverageValue, averageValue: 30}}}"
	)
	for _, tt := range []struct{ name, metrics, readings, want string }{
		{"no metrics", "[]", "[]", "<none>"},
		{"percent of the request", "[" + cpu + "]", "[{resource: {current: {averageUtilization: 63}}}]", "cpu: 63%/80%"},
		{"not read yet", "[" + cpu + "]", "[]", "cpu: <unknown>/80%"},
		{"an amount", "[" + cpuAmount + "]", "[{resource: {current: {averageValue: 250m, averageUtilization: 5}}}]", "cpu: 250m/500m"},
		{"an amount not read yet", "[" + cpuAmount + "]", "[{}]", "cpu: <unknown>/500m"},
		{"an amount without a value", "[" + cpuAmount + "]", "[{resource: {current: {}}}]", "cpu: <nil>/500m"},
		{"of a container", "[" + container + "]", "[{containerResource: {current: {averageUtilization: 7}}}]", "memory: 7%/70%"},
		{"neither amount nor percent", "[{type: Resource, resource: {name: cpu, target: {}}}]", "[]", "cpu: <unknown>/<auto>"},
		{"of pods", "[" + pods + "]", "[{pods: {current: {averageValue: 12}}}]", "12/20"},
		{"of an object", "[" + object + "]", "[{object: {current: {value: 1500}}}]", "1500/2k"},
		{"an average of a series", "[" + series + "]", "[{external: {current: {averageValue: 5, value: 50}}}]", "5/30 (avg)"},
		{"a series without an average", "[" + series + "]", "[{external: {current: {value: 50}}}]", "<unknown>/30 (avg)"},
		{"a reading of another type", "[" + pods + "]", "[{object: {current: {averageValue: 12}}}]", "<unknown>/20"},
		{"two", "[" + cpu + ", " + pods + "]", "[{}, {pods: {current: {averageValue: 12}}}]", "cpu: <unknown>/80%, 12/20"},
		{"more", "[" + cpu + ", " + pods + ", " + object + ", " + series + "]", "[]", "cpu: <unknown>/80%, <unknown>/20 + 2 more..."},
		{"a type that there is not", "[{type: Odd}]", "[]", "<unknown type>"},
		{"no source", "[{type: Pods}, {type: External}, {type: Object}]", "[{pods: {}}]", "<unknown type>, <unknown type> + 1 more..."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var metrics []autoscalingv2.MetricSpec
			var readings []autoscalingv2.MetricStatus
			fatal.If(t, yaml.Unmarshal([]byte(tt.metrics), &metrics))
			fatal.If(t, yaml.Unmarshal([]byte(tt.readings), &readings))
			if got := autoscalingv1.Targets(metrics, readings); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// The counts of a shadow are those from before it was one: without this column its DESIRED of 0 reads as a decision.
func TestKubectlShowsOfEachAutoscalerWhetherItIsAShadow(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../deploy/helm/setpoint/files/crd/autoscalers.yaml")
	fatal.If(t, err)
	type column struct {
		JSONPath string `json:"jsonPath"`
		Priority int    `json:"priority"` // 0: without -o wide, too
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Columns []column `json:"additionalPrinterColumns"`
			} `json:"versions"`
		} `json:"spec"`
	}
	fatal.If(t, yaml.Unmarshal(text, &definition))
	if want := (column{JSONPath: ".spec.shadow"}); !slices.Contains(definition.Spec.Versions[0].Columns, want) {
		t.Errorf("the columns are %v, without %v", definition.Spec.Versions[0].Columns, want)
	}
}
