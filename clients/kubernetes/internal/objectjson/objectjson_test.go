package objectjson_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/objectjson"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestUnmarshalStrictNamesTheField(t *testing.T) {
	for _, test := range []struct {
		name, data string
		// want are the lines of the error, none for success.
		want []string
	}{
		{"a known object", `{"metadata":{"name":"web"},"spec":{"maxReplicas":3}}`, nil},
		{"all unknown fields, by path", `{"spec":{"maxReplica":3,"metrics":[{"type":"Resource","resources":{}}]}}`,
			[]string{`unknown field "spec.maxReplica"`, `unknown field "spec.metrics[0].resources"`}},
		{"field names are case-sensitive", `{"spec":{"MaxReplicas":3}}`, []string{`unknown field "spec.MaxReplicas"`}},
		{"a repeated field", `{"spec":{"maxReplicas":3,"maxReplicas":4}}`, []string{`duplicate field "spec.maxReplicas"`}},
		{"unknown fields below open ones are skipped", `{"metadata":{"color":"red","ownerReferences":[{"x":1}]},"status":{"y":{"z":1}}}`, nil},
		{"an open field's name is no prefix of another's", `{"statusOf":{}}`, []string{`unknown field "statusOf"`}},
		{"a repeated field below an open one", `{"metadata":{"name":"a","name":"b"}}`, []string{`duplicate field "metadata.name"`}},
		{"a value of another type", `{"spec":{"maxReplicas":"3"}}`, []string{`spec.maxReplicas: expected int32, found string`}},
		{"a number too large", `{"spec":{"maxReplicas":3000000000}}`, []string{`spec.maxReplicas: expected int32, found number 3000000000`}},
		{"a malformed quantity", `{"spec":{"metrics":[{"type":"External"},{"external":{"target":{"averageValue":"30 MB"}}}]}}`,
			[]string{`spec.metrics[1].external.target.averageValue: "30 MB" is not a quantity: quantities must match the regular expression`}},
		{"a quantity with a huge exponent", `{"spec":{"behavior":{"scaleUp":{"tolerance":"1e-2147483648"}}}}`,
			[]string{`spec.behavior.scaleUp.tolerance: "1e-2147483648" is not a quantity: the exponent has more than 5 digits`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var into autoscalingv2.HorizontalPodAutoscaler
			err := objectjson.UnmarshalStrict([]byte(test.data), &into, "metadata", "status")
			kubernetestest.CheckError(t, err, test.want...)
		})
	}
}

func TestUnmarshalStrictOpensFieldsOfListItems(t *testing.T) {
	var into struct {
		Steps []struct {
			Pods []struct {
				Name string `json:"name"`
			} `json:"pods"`
		} `json:"steps"`
	}
	data := `{"steps":[{"pods":[{"name":"a"},{"name":"b","x":1}]},{"pods":[],"pod":1}]}`
	err := objectjson.UnmarshalStrict([]byte(data), &into, "steps[].pods")
	kubernetestest.CheckError(t, err, `unknown field "steps[1].pod"`)
}

// A quantity with a huge exponent would keep the library's parser busy for hours.
func TestHugeExponentsAreRefusedWhereQuantitiesStand(t *testing.T) {
	for _, test := range []struct {
		name, data, want string
	}{
		{"a request", `{"spec":{"containers":[{"resources":{"requests":{"cpu":"99999999999999999999999e2000000000"}}}]}}`,
			`spec.containers[0].resources.requests.cpu: "99999999999999999999999e2000000000" is not a quantity`},
		{"a request as a number", `{"spec":{"overhead":{"cpu":1e-2147483648}}}`, `spec.overhead.cpu: "1e-2147483648" is not a quantity`},
		{"an exponent of five digits", `{"spec":{"overhead":{"cpu":"1E-99999"}}}`, ""},
		{"a commit id in a label", `{"metadata":{"labels":{"tolerance":"12e345678"}}}`, ""},
		{"a commit id in a variable", `{"spec":{"containers":[{"env":[{"name":"COMMIT","value":"12e345678"}]}]}}`, ""},
		{"a commit id in a toleration", `{"spec":{"tolerations":[{"value":"12e345678"}]}}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			start := time.Now()
			var pod corev1.Pod
			err := objectjson.Unmarshal([]byte(test.data), &pod)
			checkContains(t, err, test.want)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestUnmarshalSkipsUnknownFields(t *testing.T) {
	var value customv1beta2.MetricValue
	fatal.If(t, objectjson.Unmarshal([]byte(`{"value":"12","new":{"field":true}}`), &value))
	if got := value.Value.String(); got != "12" {
		t.Errorf("value is %s, want 12", got)
	}
	err := objectjson.Unmarshal([]byte(`{"value":"twelve"}`), &value)
	checkContains(t, err, `value: "twelve" is not a quantity`)
}

func TestSyntaxErrorsTellWhere(t *testing.T) {
	for _, test := range []struct {
		name, data string
		cut        bool
		offset     int64
	}{
		{"cut off in an object", `{"a":1,`, true, 7},
		{"cut off in a string", `{"a":"b`, true, 7},
		{"a wrong character", `{"a":1]`, false, 7},
		{"something after the object", `{} {}`, false, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := objectjson.Unmarshal([]byte(test.data), &struct{}{})
			var syntax *objectjson.SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("got %v, want a SyntaxError", err)
			}
			if syntax.Cut != test.cut || syntax.Offset != test.offset {
				t.Errorf("cut %v at %d, want %v at %d", syntax.Cut, syntax.Offset, test.cut, test.offset)
			}
		})
	}
}

// checkContains checks that err contains the wanted text; none for success.
func checkContains(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want no error", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %s", err, want)
	}
}
