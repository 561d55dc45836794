package kubernetes_test

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
)

const (
	defaultUp   = `{stabilizationWindowSeconds: 0, selectPolicy: Max, policies: [{type: Pods, value: 4, periodSeconds: 15}, {type: Percent, value: 100, periodSeconds: 15}]}`
	defaultDown = `{selectPolicy: Max, policies: [{type: Percent, value: 100, periodSeconds: 15}]}`
)

func TestDefaults(t *testing.T) {
	const given = "minReplicas: 2\nmetrics: [{type: Pods}]\n"
	for _, test := range []struct{ name, spec, want string }{
		{"nothing given", "", "minReplicas: 1\nmetrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]"},
		{"what is given stays", given, given},
		{"no metrics given", "minReplicas: 0\nmetrics: []", "minReplicas: 0\nmetrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]"},
		{"empty behavior", given + "behavior: {}", given + "behavior: {scaleUp: " + defaultUp + ", scaleDown: " + defaultDown + "}"},
		{"each field of a direction on its own",
			given + "behavior: {scaleUp: {tolerance: 50m, stabilizationWindowSeconds: 60}, scaleDown: {selectPolicy: Disabled}}",
			given + "behavior: {scaleUp: {tolerance: 50m, stabilizationWindowSeconds: 60, selectPolicy: Max, policies: [{type: Pods, value: 4, periodSeconds: 15}, {type: Percent, value: 100, periodSeconds: 15}]}, " +
				"scaleDown: {selectPolicy: Disabled, policies: [{type: Percent, value: 100, periodSeconds: 15}]}}"},
		{"policies are replaced as a whole",
			given + "behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 60}]}, scaleDown: {stabilizationWindowSeconds: 0}}",
			given + "behavior: {scaleUp: {stabilizationWindowSeconds: 0, selectPolicy: Max, policies: [{type: Pods, value: 1, periodSeconds: 60}]}, " +
				"scaleDown: {stabilizationWindowSeconds: 0, selectPolicy: Max, policies: [{type: Percent, value: 100, periodSeconds: 15}]}}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := autoscalingv2.HorizontalPodAutoscaler{Spec: kubernetestest.FromYAML[autoscalingv2.HorizontalPodAutoscalerSpec](t, test.spec)}
			kubernetes.Defaults(&got)
			want := kubernetestest.FromYAML[autoscalingv2.HorizontalPodAutoscalerSpec](t, test.want)
			if !equality.Semantic.DeepEqual(got.Spec, want) {
				found, _ := yaml.Marshal(got.Spec)
				t.Errorf("got\n%s\nwant\n%s", found, test.want)
			}
			again := got.DeepCopy()
			kubernetes.Defaults(again)
			if !equality.Semantic.DeepEqual(&got, again) {
				t.Error("defaulting twice changes the autoscaler again")
			}
		})
	}
}

func TestDefaultsLeaveEmptyPoliciesForValidation(t *testing.T) {
	got := kubernetestest.FromYAML[autoscalingv2.HorizontalPodAutoscaler](t, `
metadata: {name: web, namespace: shop}
spec: {scaleTargetRef: {kind: Deployment, name: web}, behavior: {scaleDown: {policies: []}}}`)
	kubernetes.Defaults(&got)
	violations := kubernetes.Validate(&got)
	kubernetestest.CheckError(t, violations.ToAggregate(), "spec.behavior.scaleDown.policies: Required value: must specify at least one Policy")
}

func TestValidate(t *testing.T) {
	const target = "spec: {scaleTargetRef: {kind: Deployment, name: web}"
	for _, test := range []struct {
		name, autoscaler string
		// want is the error as the API server words it, empty for none.
		want string
	}{
		{"valid", "metadata: {name: web.v2, namespace: shop}\n" + target + "}", ""},
		{"the rules for values are the service's", "metadata: {name: web, namespace: shop}\n" + target + ", maxReplicas: -1, metrics: [{type: Cheese}]}", ""},
		{"no name", "metadata: {namespace: shop}\n" + target + "}", "metadata.name: Required value: name or generateName is required"},
		{"a name that the server would generate", "metadata: {generateName: web-, namespace: shop}\n" + target + "}", "metadata.name: Required value: name or generateName is required"},
		{"a malformed name", "metadata: {name: Web, namespace: shop}\n" + target + "}", `metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain must consist of`},
		{"no namespace", "metadata: {name: web}\n" + target + "}", "metadata.namespace: Required value"},
		{"a malformed namespace", "metadata: {name: web, namespace: a.b}\n" + target + "}", `metadata.namespace: Invalid value: "a.b": must not contain dots`},
		{"a malformed label", "metadata: {name: web, namespace: shop, labels: {'a b': c}}\n" + target + "}", `metadata.labels: Invalid value: "a b": name part must consist of`},
		{"no target", "metadata: {name: web, namespace: shop}", "[spec.scaleTargetRef.kind: Required value, spec.scaleTargetRef.name: Required value]"},
		{"empty policies", "metadata: {name: web, namespace: shop}\n" + target + ", behavior: {scaleUp: {policies: []}}}",
			"spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"},
		{"policies left out", "metadata: {name: web, namespace: shop}\n" + target + ", behavior: {scaleUp: {}, scaleDown: {policies: null}}}", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			autoscaler := kubernetestest.FromYAML[autoscalingv2.HorizontalPodAutoscaler](t, test.autoscaler)
			err := kubernetes.Validate(&autoscaler).ToAggregate()
			if test.want == "" {
				kubernetestest.CheckError(t, err)
				return
			}
			kubernetestest.CheckError(t, err, test.want)
		})
	}
}
