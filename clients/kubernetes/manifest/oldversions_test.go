package manifest_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Workloads in the API versions of old clusters stand in for a scale as today's do.
func TestOldWorkloadsAndScalesAreScales(t *testing.T) {
	const (
		selector = `"selector":{"matchLabels":{"app":"web"}}`
		template = `"template":{"metadata":{"labels":{"app":"web"}}}`
	)
	workload := func(version, kind, spec string) string {
		return `{"apiVersion":"` + version + `","kind":"` + kind + `","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":4,` + spec + `},"status":{"replicas":3}}`
	}
	scale := func(version, status string) string {
		return `{"apiVersion":"` + version + `","kind":"Scale","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":4},"status":{"replicas":3` + status + `}}`
	}
	const found = `{"specReplicas":4,"statusReplicas":3,"selector":"app=web"}`
	for _, tt := range []struct {
		name string
		// refVersion and kind are those of the autoscaler's scaleTargetRef.
		refVersion, kind string
		object           string
		// want is the scale; empty: none.
		want string
	}{
		{"apps/v1beta2, a Deployment", "apps/v1beta2", "Deployment", workload("apps/v1beta2", "Deployment", selector), found},
		{"apps/v1beta2, a StatefulSet", "apps/v1beta2", "StatefulSet", workload("apps/v1beta2", "StatefulSet", selector), found},
		{"apps/v1beta2, a ReplicaSet", "apps/v1beta2", "ReplicaSet", workload("apps/v1beta2", "ReplicaSet", selector), found},
		{"apps/v1beta1, a Deployment", "apps/v1beta1", "Deployment", workload("apps/v1beta1", "Deployment", selector), found},
		{"apps/v1beta1, a StatefulSet", "apps/v1beta1", "StatefulSet", workload("apps/v1beta1", "StatefulSet", selector), found},
		{"extensions/v1beta1, a Deployment", "extensions/v1beta1", "Deployment", workload("extensions/v1beta1", "Deployment", selector), found},
		{"extensions/v1beta1, a ReplicaSet", "extensions/v1beta1", "ReplicaSet", workload("extensions/v1beta1", "ReplicaSet", selector), found},
		{"the labels of the template where there is no selector", "extensions/v1beta1", "Deployment", workload("extensions/v1beta1", "Deployment", template), found},
		{"also where it is null", "apps/v1beta1", "StatefulSet", workload("apps/v1beta1", "StatefulSet", `"selector":null,`+template), found},
		{"an autoscaler that calls it by its old group", "extensions/v1beta1", "Deployment", workload("apps/v1", "Deployment", selector), found},
		{"an object of the old group", "apps/v1", "Deployment", workload("extensions/v1beta1", "Deployment", selector), found},
		{"not an object of another group", "example.com/v1", "Deployment", workload("apps/v1", "Deployment", selector), ""},
		{"nor another kind of that group", "extensions/v1beta1", "StatefulSet", workload("apps/v1beta1", "StatefulSet", selector), ""},
		{"a Scale of apps/v1beta2, its selector a map", "apps/v1beta2", "Deployment", scale("apps/v1beta2", `,"selector":{"app":"web"}`), found},
		{"a Scale of apps/v1beta1", "apps/v1beta1", "Deployment", scale("apps/v1beta1", `,"selector":{"app":"web"}`), found},
		{"a Scale of extensions/v1beta1, its selector a text", "extensions/v1beta1", "Deployment",
			scale("extensions/v1beta1", `,"selector":{"app":"web"},"targetSelector":"app in (web,www)"`),
			`{"specReplicas":4,"statusReplicas":3,"selector":"app in (web,www)"}`},
		{"a Scale without a selector", "extensions/v1beta1", "Deployment", scale("extensions/v1beta1", ""), `{"specReplicas":4,"statusReplicas":3}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var dump manifest.Dump
			fatal.If(t, dump.Read("hpa.yaml", strings.NewReader(autoscalerYAML("autoscaling/v1", "")), manifest.Autoscalers))
			ref := &dump.Autoscalers[0].Spec.ScaleTargetRef
			ref.APIVersion, ref.Kind = tt.refVersion, tt.kind
			fatal.If(t, dump.Read("scale.json", strings.NewReader(tt.object), manifest.Scales))
			snapshot, err := dump.Snapshot("web")
			if err != nil || (snapshot.Scale != nil) != (tt.want != "") {
				t.Fatalf("scale %v, %v", snapshot.Scale, err)
			}
			if tt.want != "" {
				kubernetestest.CheckMessage(t, kubernetestest.Request(t, snapshot).GetScale(), tt.want)
			}
		})
	}
	var dump manifest.Dump
	err := dump.Read("scale.json", strings.NewReader(workload("apps/v1beta1", "Deployment", `"template":{}`)), manifest.Scales)
	checkSays(t, err, "spec.selector: Required value")
}

// The custom metrics of v1.2 become Pods metrics: averages.
func TestCustomMetricsOfTheFirstYears(t *testing.T) {
	const targets = `alpha/target.custom-metrics.podautoscaler.kubernetes.io: '{"items":[{"name":"qps","value":"1500m"},{"name":"conns","value":"10"}]}'`
	const pods = `{"type":"Pods","pods":{"metric":{"name":"qps"},"target":{"type":"AverageValue","averageValue":"1500m"}}},` +
		`{"type":"Pods","pods":{"metric":{"name":"conns"},"target":{"type":"AverageValue","averageValue":"10"}}}`
	const cpu = `{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":70}}}`
	const usual = `{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}`
	const newer = `autoscaling.alpha.kubernetes.io/metrics: '[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}]'`
	for _, tt := range []struct{ name, version, annotations, spec, want string }{
		{"autoscaling/v1", "autoscaling/v1", targets, "", pods},
		{"beside cpu", "autoscaling/v1", targets, "  targetCPUUtilizationPercentage: 70\n", pods + "," + cpu},
		{"extensions/v1beta1", "extensions/v1beta1", targets, "", pods},
		{"extensions/v1beta1 beside cpu", "extensions/v1beta1", targets, "  cpuUtilization: {targetPercentage: 70}\n", pods + "," + cpu},
		{"an empty list: the usual target", "extensions/v1beta1", `alpha/target.custom-metrics.podautoscaler.kubernetes.io: '{"items":[]}'`, "", usual},
		{"none: the usual target", "extensions/v1beta1", `a: b`, "", usual},
		{"the later annotation is the newer word", "autoscaling/v1", targets + "\n    " + newer, "",
			`{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}}`},
		{"later versions never read it", "autoscaling/v2", targets, "", usual},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(autoscalerYAML(tt.version, tt.spec), "namespace: shop}", "namespace: shop, annotations: {}}", 1)
			text = strings.Replace(text, "metadata: {name: web, namespace: shop, annotations: {}}", "metadata:\n  name: web\n  namespace: shop\n  annotations:\n    "+tt.annotations, 1)
			read, err := readAutoscalers("hpa.yaml", strings.NewReader(text))
			fatal.If(t, err)
			kubernetes.Defaults(read[0])
			checkJSON(t, read[0].Spec.Metrics, "["+tt.want+"]")
		})
	}
	annotated := func(annotation string) string {
		return strings.Replace(autoscalerYAML("autoscaling/v1", ""), "metadata: {name: web, namespace: shop}", "metadata:\n  name: web\n  namespace: shop\n  annotations:\n    "+annotation, 1)
	}
	read, err := readAutoscalers("hpa.yaml", strings.NewReader(annotated(`alpha/status.custom-metrics.podautoscaler.kubernetes.io: '{"items":[{"name":"qps","value":"2"}]}'`)))
	fatal.If(t, err)
	checkJSON(t, read[0].Status.CurrentMetrics, `[{"type":"Pods","pods":{"metric":{"name":"qps"},"current":{"averageValue":"2"}}}]`)
	for _, bad := range []string{`{"items":[{"name":"qps","value":"many"}]}`, `{"items":[{"name":"qps","target":"1"}]}`, `[]`} {
		_, err := readAutoscalers("hpa.yaml", strings.NewReader(annotated("alpha/target.custom-metrics.podautoscaler.kubernetes.io: '"+bad+"'")))
		checkSays(t, err, "metadata.annotations[alpha/target.custom-metrics.podautoscaler.kubernetes.io]")
	}
}

// checkJSON compares a value with its JSON.
func checkJSON(t *testing.T, got any, want string) {
	t.Helper()
	written, err := json.Marshal(got)
	fatal.If(t, err)
	var found, wanted any
	fatal.If(t, errors.Join(json.Unmarshal(written, &found), json.Unmarshal([]byte(want), &wanted)))
	if !reflect.DeepEqual(found, wanted) {
		t.Errorf("got  %s\nwant %s", written, want)
	}
}

// checkSays checks that an error contains a text.
func checkSays(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got the error %v, want one that says %q", err, want)
	}
}
