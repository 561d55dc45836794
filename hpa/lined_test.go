package hpa_test

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hpa"
)

// What is wrong with a spec is told with its file and its line, all at once.
func TestErrorsHaveTheirLines(t *testing.T) {
	t.Parallel()
	const metrics = `metrics:
- type: Resource
  resource:
    name: cpu
    target: {type: Utilization,
      averageUtilization: -5}
`
	wrapped := "  " + strings.ReplaceAll(strings.TrimSuffix(metrics, "\n"), "\n", "\n  ") + "\n"
	const manifest = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec:\n" +
		"  scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}\n  minReplicas: 5\n  maxReplicas: 3\n"
	for name, tt := range map[string]struct {
		file string
		want []string
	}{
		"the spec itself":           {"# mine\nminReplicas: 5\nmaxReplicas: 3\n" + metrics, []string{"h.yaml:3: looks like the spec itself: maxReplicas: ", "h.yaml:9: looks like the spec itself: metrics[0].resource.target.averageUtilization: "}},
		"a field that is missing":   {"minReplicas: 5\n" + metrics, []string{"h.yaml:1: looks like the spec itself: maxReplicas: "}},
		"a field that is not there": {"maxReplicas: 5\nbehaviour: {}\n" + metrics, []string{"h.yaml:2: looks like the spec itself: behaviour: "}},
		"a stored spec":             {"spec:\n  maxReplicas: 0\n" + wrapped, []string{"h.yaml:2: looks like a stored spec: spec.maxReplicas: ", "h.yaml:8: looks like a stored spec: spec.metrics[0].resource.target.averageUtilization: "}},
		"a manifest":                {manifest + wrapped, []string{"h.yaml:7: spec.maxReplicas: ", "h.yaml:13: spec.metrics[0].resource.target.averageUtilization: "}},
		"a manifest's misspelled fields": {strings.Replace(manifest, "minReplicas", "minReplica", 1) + strings.Replace(wrapped, "averageUtilization", "averageUtilisation", 1), []string{
			`h.yaml:6: unknown field "spec.minReplica"`, `h.yaml:13: unknown field "spec.metrics[0].resource.target.averageUtilisation"`,
		}},
		"of two documents, the second's": {"kind: HorizontalPodAutoscaler\napiVersion: autoscaling/v2\nspec: {maxReplicas: 1}\n---\n" + strings.Replace(manifest, "minReplicas: 5", "minReplica: 5", 1), []string{
			`h.yaml:10: document 2: unknown field "spec.minReplica"`,
		}},
		"a page of stored specs": {"targetSpecs:\n- spec: {maxReplicas: 3}\n- spec:\n    maxReplicas: 0\n", []string{"h.yaml:4: targetSpecs[1]: looks like a stored spec: spec.maxReplicas: "}},
		"a second value of JSON": {`{"maxReplicas": 3}` + "\n" + `{"minReplicas": 5,` + "\n" + `"maxReplicas": 3}`, []string{"h.yaml:3: document 2: looks like the spec itself: maxReplicas: "}},
		"what is no YAML":        {strings.Replace(manifest, "  maxReplicas", " maxReplicas", 1) + wrapped, []string{"h.yaml: line 7: did not find expected key"}},
		"of two documents, none": {manifest + wrapped + "---\nmaxReplicas: 0\n" + metrics, []string{"looks like the spec itself: maxReplicas: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, err := hpa.Read("h.yaml", strings.NewReader(tt.file))
			if err == nil {
				_, err = read[0].Engine(nil)
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains("\n"+err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}
