package manifest_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

func TestEveryVersionBecomesV2(t *testing.T) {
	for _, file := range []string{
		"v2.yaml", "v2beta2.yaml", "v2beta1.yaml", "v1.yaml", "v1-annotations.json", "extensions.yaml",
	} {
		t.Run(file, func(t *testing.T) {
			content := testdata(t, filepath.Join("manifests", file))
			got, err := readAutoscalers(file, bytes.NewReader(content))
			fatal.If(t, err)
			golden := strings.TrimSuffix(file, filepath.Ext(file)) + ".want.yaml"
			wanted := strings.Split(string(testdata(t, filepath.Join("manifests", golden))), "\n---\n")
			if len(got) != len(wanted) {
				t.Fatalf("got %d autoscalers, want %d", len(got), len(wanted))
			}
			for i, text := range wanted {
				want := kubernetestest.FromYAML[autoscalingv2.HorizontalPodAutoscaler](t, text)
				if !equality.Semantic.DeepEqual(got[i], &want) {
					found, _ := yaml.Marshal(got[i])
					t.Errorf("document %d: got\n%s\nwant\n%s", i+1, found, text)
				}
			}
		})
	}
}

// The API server makes a name of generateName, which is a name here without the end that it adds.
func TestAGeneratedName(t *testing.T) {
	got, err := readAutoscalers("web.yaml", strings.NewReader(strings.Replace(autoscalerYAML("autoscaling/v2", ""), "name: web,", "generateName: web-,", 1)))
	if err != nil || len(got) != 1 || got[0].Name != "web" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err = readAutoscalers("web.yaml", strings.NewReader(strings.Replace(autoscalerYAML("autoscaling/v2", ""), "name: web,", "generateName: Web-,", 1))); err == nil {
		t.Error("a malformed one is taken")
	}
}

func testdata(t testing.TB, file string) []byte {
	t.Helper()
	return []byte(testpages.Read(t, filepath.Join("testdata", file)))
}

// autoscalerYAML is a valid autoscaler of the given version with further lines of spec.
func autoscalerYAML(version, spec string) string {
	target := "scaleTargetRef"
	if version == "extensions/v1beta1" {
		target = "scaleRef"
	}
	return "apiVersion: " + version + "\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: shop}\nspec:\n" +
		"  maxReplicas: 3\n  " + target + ": {apiVersion: apps/v1, kind: Deployment, name: web}\n" + spec
}

// annotated is a manifest of the version with one annotation.
func annotated(version, annotation, text string) string {
	return strings.Replace(autoscalerYAML(version, ""), "namespace: shop",
		"namespace: shop, annotations: {autoscaling.alpha.kubernetes.io/"+annotation+": '"+text+"'}", 1)
}

func TestWhatIsWrongWithAutoscalersIsNamed(t *testing.T) {
	const expected = "expected HorizontalPodAutoscaler (autoscaling/v2), found "
	for _, test := range []struct {
		name, content string
		// want are the lines of the error, without the file's name; none for success.
		want []string
	}{
		{"nothing", "", []string{": is empty, expected a Kubernetes object"}},
		{"only comments", "# nothing\n---\n---\n", []string{": is empty"}},
		{"an empty document between others", "---\n" + autoscalerYAML("autoscaling/v2", "") + "\n---\n# none\n---\n" + autoscalerYAML("autoscaling/v1", ""), nil},
		{"another kind", "apiVersion: v1\nkind: Service", []string{": " + expected + "Service (v1)"}},
		{"a workload", "apiVersion: apps/v1\nkind: Deployment", []string{": " + expected + "Deployment (apps/v1)"}},
		{"another kind in the second document", autoscalerYAML("autoscaling/v2", "") + "\n---\napiVersion: v1\nkind: Service",
			[]string{": document 2: " + expected + "Service (v1)"}},
		{"another kind in a list", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod"}]}`,
			[]string{": items[0]: " + expected + "Pod (v1)"}},
		{"a version of the future", autoscalerYAML("autoscaling/v3", ""), []string{": " + expected + "HorizontalPodAutoscaler (autoscaling/v3)"}},
		{"no kind", "apiVersion: autoscaling/v2", []string{": " + expected + "an object of autoscaling/v2 without kind"}},
		{"no apiVersion", "kind: HorizontalPodAutoscaler", []string{": " + expected + "HorizontalPodAutoscaler without apiVersion"}},
		{"neither", "metadata: {name: web}", []string{": " + expected + "an object without apiVersion and kind"}},
		{"text", `Error from server (NotFound): horizontalpodautoscalers.autoscaling "web" not found`,
			[]string{": " + expected + `an object without apiVersion and kind: {"Error from server (NotFound)":"horizontalpodautoscalers.autoscaling \"web\" no…`}},
		{"a number", "42", []string{": expected a Kubernetes object, found 42"}},
		{"the answer to a failed call", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"horizontalpodautoscalers.autoscaling \"web\" not found","reason":"NotFound","code":404}`,
			[]string{`: is the API server's answer to a call that failed: horizontalpodautoscalers.autoscaling "web" not found (NotFound)`}},
		{"JSON that ends too early", "{\n\"kind\": \"Horiz", []string{": the JSON ends too early, at line 2"}},
		{"malformed JSON", "{\n\"kind\": ,", []string{": line 2: invalid character ','"}},
		{"malformed YAML", "kind: [", []string{": line 1: did not find expected node content"}},
		{"malformed YAML in the second document", autoscalerYAML("autoscaling/v2", "") + "\n---\nkind: [", []string{": document 2: line 9: did not find"}},
		{"a template", "{{- if .Values.scale }}\nkind: a\n", []string{": line 1: invalid character '{' looking for beginning of object key string; is it a template? It must be rendered first"}},
		{"a key twice", "kind: a\nkind: b", []string{`: line 2: key "kind" already set in map`}},
		{"a key twice in the second document", "# a\n---\nkind: a\nkind: b", []string{`: document 2: line 4: key "kind" already set in map`}},
		{"a key twice in JSON", `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","spec":{"maxReplicas":3,"maxReplicas":4}}`,
			[]string{`: duplicate field "spec.maxReplicas"`}},
		{"UTF-16", "\xff\xfek\x00i\x00n\x00d\x00", []string{": is encoded as UTF-16, expected UTF-8"}},
		{"Latin-1 in YAML", "kind: a\n# gr\xfcn\n", []string{": line 2: is not UTF-8: save the file"}},
		{"Latin-1 in JSON, which decoders would replace", "{\"kind\":\"a\",\n\"metadata\":{\"name\":\"gr\xfcn\"}}", []string{": line 2: is not UTF-8: save the file"}},
		{"Latin-1 in the second document", autoscalerYAML("autoscaling/v2", "") + "\n---\n\xfc", []string{": line 9: is not UTF-8: save the file"}},
		{"a byte order mark", "\xef\xbb\xbf" + autoscalerYAML("autoscaling/v2", ""), nil},

		{"unknown fields, all of them", autoscalerYAML("autoscaling/v2", "  minReplica: 1\n  metrics: [{type: Resource, resource: {name: cpu, targets: {}}}]"),
			[]string{`: unknown field "spec.metrics[0].resource.targets"`, `: unknown field "spec.minReplica"`}},
		{"unknown fields of metadata and status", autoscalerYAML("autoscaling/v2", "status: {syncedBy: me}\n"), nil},
		{"a field of a newer version in an older", autoscalerYAML("autoscaling/v1", "  metrics: []"), []string{`: unknown field "spec.metrics"`}},
		{"tolerance in v2beta2", autoscalerYAML("autoscaling/v2beta2", "  behavior: {scaleUp: {tolerance: 50m}}"),
			[]string{`: unknown field "spec.behavior.scaleUp.tolerance"`}},
		{"v2's shape in v2beta1", autoscalerYAML("autoscaling/v2beta1", "  metrics: [{type: Resource, resource: {name: cpu, target: {}}}]"),
			[]string{`: unknown field "spec.metrics[0].resource.target"`}},
		{"behavior in v2beta1", autoscalerYAML("autoscaling/v2beta1", "  behavior: {}"), []string{`: unknown field "spec.behavior"`}},
		{"scaleTargetRef in extensions", autoscalerYAML("extensions/v1beta1", "  scaleTargetRef: {}"), []string{`: unknown field "spec.scaleTargetRef"`}},
		{"text where a number belongs", autoscalerYAML("autoscaling/v2", `  minReplicas: "1"`), []string{": spec.minReplicas: expected int32, found string"}},
		{"a malformed quantity", autoscalerYAML("autoscaling/v2", "  metrics: [{type: External, external: {metric: {name: d}, target: {type: Value, value: 3 MB}}}]"),
			[]string{`: spec.metrics[0].external.target.value: "3 MB" is not a quantity`}},

		{"a malformed annotation", annotated("autoscaling/v1", "metrics", "[{"),
			[]string{": metadata.annotations[autoscaling.alpha.kubernetes.io/metrics]: unexpected end of JSON input"}},
		{"v2's shape in the annotation", annotated("autoscaling/v1", "metrics", `[{"type":"Resource","resource":{"name":"cpu","target":{}}}]`),
			[]string{`: metadata.annotations[autoscaling.alpha.kubernetes.io/metrics]: unknown field "[0].resource.target"`}},
		{"camelCase in the behavior annotation", annotated("autoscaling/v1", "behavior", `{"scaleUp":{}}`),
			[]string{`: metadata.annotations[autoscaling.alpha.kubernetes.io/behavior]: unknown field "scaleUp"`}},
		{"a malformed behavior in v2beta1", annotated("autoscaling/v2beta1", "behavior", `[]`),
			[]string{`: metadata.annotations[autoscaling.alpha.kubernetes.io/behavior]:`}},
		{"malformed conditions", annotated("autoscaling/v1", "conditions", `{}`),
			[]string{`: metadata.annotations[autoscaling.alpha.kubernetes.io/conditions]:`}},
		{"malformed current metrics", annotated("autoscaling/v1", "current-metrics", `{}`),
			[]string{`: metadata.annotations[autoscaling.alpha.kubernetes.io/current-metrics]:`}},
		{"annotations of v1 in v2 say nothing", annotated("autoscaling/v2", "metrics", "[{"), nil},
		{"behavior without directions is none", annotated("autoscaling/v1", "behavior", "{}"), nil},

		{"the rules that a request can't show, all at once", `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: A_b, namespace: shop}
spec: {maxReplicas: 3, behavior: {scaleUp: {policies: []}}}`,
			[]string{
				`: HorizontalPodAutoscaler "A_b": metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of`,
				`: HorizontalPodAutoscaler "A_b": spec.scaleTargetRef.kind: Required value`,
				`: HorizontalPodAutoscaler "A_b": spec.scaleTargetRef.name: Required value`,
				`: HorizontalPodAutoscaler "A_b": spec.behavior.scaleUp.policies: Required value: must specify at least one Policy`,
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := readAutoscalers("hpa.yaml", strings.NewReader(test.content))
			var want []string
			for _, line := range test.want {
				want = append(want, "hpa.yaml"+line)
			}
			kubernetestest.CheckError(t, err, want...)
		})
	}
}

func TestBehaviorWithoutDirectionsInTheAnnotationIsIgnored(t *testing.T) {
	got, err := readAutoscalers("hpa.yaml", strings.NewReader(annotated("autoscaling/v1", "behavior", "{}")))
	fatal.If(t, err)
	if got[0].Spec.Behavior != nil {
		t.Errorf("got %v, want none", got[0].Spec.Behavior)
	}
}

func TestTheListOfProblemsIsBounded(t *testing.T) {
	list := `{"apiVersion":"v1","kind":"List","items":[` + strings.Repeat(`{"apiVersion":"v1","kind":"Service"},`, 99) +
		`{"apiVersion":"v1","kind":"Service"}]}`
	_, err := readAutoscalers("services.json", strings.NewReader(list))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 21 || lines[20] != "and 80 more" {
		t.Errorf("got %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}
