package crd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/setpoint-dev/setpoint/conformance/crd"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// A valid spec, and its parts.
const (
	ref      = `"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}`
	bounds   = `"minReplicas":2,"maxReplicas":5`
	cpu      = `{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}`
	external = `{"type":"External","external":{"metric":{"name":"queue"},"target":{"type":"Value","value":"5"}}}`
)

func withMetrics(metrics ...string) string {
	return "{" + ref + "," + bounds + `,"metrics":[` + strings.Join(metrics, ",") + "]}"
}

func withRef(reference string) string {
	return `{"scaleTargetRef":` + reference + "," + bounds + "}"
}

func withBehavior(behavior string) string {
	return "{" + ref + "," + bounds + `,"behavior":` + behavior + "}"
}

func withPolicy(policy string) string {
	return withBehavior(`{"scaleUp":{"policies":[` + policy + `]}}`)
}

func withObject(object string) string {
	return withMetrics(`{"type":"Object","object":` + object + `}`)
}

func withContainer(resource, container string) string {
	return withMetrics(fmt.Sprintf(`{"type":"ContainerResource","containerResource":{"name":%q,"container":%q,`+
		`"target":{"type":"Utilization","averageUtilization":80}}}`, resource, container))
}

func withTarget(target string) string {
	return withMetrics(`{"type":"External","external":{"metric":{"name":"queue"},"target":` + target + `}}`)
}

// specCase is a spec that the API server refuses for one rule, or accepts.
type specCase struct {
	rule string
	spec string
	// want are the violations of a HorizontalPodAutoscaler, "path: text", or "path" for
	// what the API server words otherwise for custom resources. None: accepted.
	want []string
}

var long = strings.Repeat("a", 63)

func specCases() []specCase {
	const must = "must be greater than or equal to "
	return []specCase{
		{"a spec without metrics is good", "{" + ref + "," + bounds + "}", nil},
		{"minReplicas may be absent", "{" + ref + `,"maxReplicas":1}`, nil},
		{"minReplicas may be null", "{" + ref + `,"minReplicas":null,"maxReplicas":1}`, nil},
		{"minReplicas is at least 1", "{" + ref + `,"minReplicas":-1,"maxReplicas":5}`, []string{"spec.minReplicas: " + must + "1; 0 needs options.scaleToZero"}},
		{"minReplicas 0 is a feature", "{" + ref + `,"minReplicas":0,"maxReplicas":5,"metrics":[` + external + `]}`, []string{"spec.minReplicas: " + must + "1; 0 needs options.scaleToZero"}},
		{"minReplicas 0 needs a metric that can be read without replicas", "{" + ref + `,"minReplicas":0,"maxReplicas":5}`, []string{
			"spec.metrics: must specify at least one Object or External metric to support scaling to zero replicas",
			"spec.minReplicas: " + must + "1; 0 needs options.scaleToZero",
		}},
		{"maxReplicas is required", "{" + ref + "}", []string{"spec.maxReplicas"}},
		{"maxReplicas 0 is none", "{" + ref + `,"maxReplicas":0}`, []string{"spec.maxReplicas: must be set and greater than 0", "spec.maxReplicas: " + must + "`minReplicas`"}},
		{"maxReplicas is positive", "{" + ref + `,"maxReplicas":-1}`, []string{"spec.maxReplicas: " + must + "1", "spec.maxReplicas: " + must + "`minReplicas`"}},
		{"maxReplicas is at least minReplicas", "{" + ref + `,"minReplicas":6,"maxReplicas":5}`, []string{"spec.maxReplicas: " + must + "`minReplicas`"}},

		{"a reference is required", "{" + bounds + "}", []string{"spec.scaleTargetRef"}},
		{"a reference has a kind", withRef(`{"apiVersion":"apps/v1","kind":"","name":"web"}`), []string{"spec.scaleTargetRef.kind"}},
		{"a reference has a name", withRef(`{"apiVersion":"apps/v1","kind":"Deployment","name":""}`), []string{"spec.scaleTargetRef.name"}},
		{"a name is not a dot", withRef(`{"apiVersion":"apps/v1","kind":"Deployment","name":"."}`), []string{"spec.scaleTargetRef.name: may not be '.'"}},
		{"a name is not two dots", withRef(`{"apiVersion":"apps/v1","kind":"Deployment","name":".."}`), []string{"spec.scaleTargetRef.name: may not be '..'"}},
		{"a name has no slash", withRef(`{"apiVersion":"apps/v1","kind":"Deployment","name":"a/b"}`), []string{"spec.scaleTargetRef.name: may not contain '/'"}},
		{"a kind has no percent sign", withRef(`{"apiVersion":"apps/v1","kind":"a%b","name":"web"}`), []string{"spec.scaleTargetRef.kind: may not contain '%'"}},
		{"any other name will do", withRef(`{"apiVersion":"apps/v1","kind":"Ä b","name":"Web ..."}`), nil},
		{"the core group has one kind that scales", withRef(`{"apiVersion":"v1","kind":"ReplicationController","name":"web"}`), nil},
		{"which may do without a version", withRef(`{"kind":"ReplicationController","name":"web"}`), nil},
		{"others have a group", withRef(`{"apiVersion":"v1","kind":"Deployment","name":"web"}`), []string{"spec.scaleTargetRef.apiVersion: apiVersion must specify API group"}},
		{"and an apiVersion", withRef(`{"kind":"Deployment","name":"web"}`), []string{"spec.scaleTargetRef.apiVersion: apiVersion must specify API group"}},
		{"a slash is no group", withRef(`{"apiVersion":"/","kind":"Deployment","name":"web"}`), []string{"spec.scaleTargetRef.apiVersion: apiVersion must specify API group"}},
		{"an empty group is none", withRef(`{"apiVersion":"/v1","kind":"Deployment","name":"web"}`), []string{"spec.scaleTargetRef.apiVersion: apiVersion must specify API group"}},
		{"a group needs no version", withRef(`{"apiVersion":"apps/","kind":"Deployment","name":"web"}`), nil},
		{"an apiVersion has one slash at most", withRef(`{"apiVersion":"a/b/c","kind":"Deployment","name":"web"}`), []string{"spec.scaleTargetRef.apiVersion: unexpected GroupVersion string: a/b/c"}},
		{"also of a ReplicationController", withRef(`{"apiVersion":"//","kind":"ReplicationController","name":"web"}`), []string{"spec.scaleTargetRef.apiVersion: unexpected GroupVersion string: //"}},

		{"a metric has a type", withMetrics(`{"resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}`), []string{"spec.metrics[0].type"}},
		{"a metric has a known type", withMetrics(cpu, `{"type":"Cpu"}`), []string{`spec.metrics[1].type: supported values: "ContainerResource", "External", "Object", "Pods", "Resource"`}},
		{"types are spelled exactly", withMetrics(`{"type":"resource"}`), []string{`spec.metrics[0].type: supported values: "ContainerResource", "External", "Object", "Pods", "Resource"`}},
		{"a metric has the source of its type", withMetrics(`{"type":"Pods"}`), []string{"spec.metrics[0].pods: must populate information for the given metric source"}},
		{"null is no source", withMetrics(`{"type":"Pods","pods":null}`), []string{"spec.metrics[0].pods: must populate information for the given metric source"}},
		{"another's source does not do", withMetrics(strings.Replace(cpu, `"type":"Resource"`, `"type":"Object"`, 1)), []string{"spec.metrics[0].object: must populate information for the given metric source"}},
		{"a metric has one source", withMetrics(strings.TrimSuffix(cpu, "}") + `,"pods":{"metric":{"name":"a"},"target":{"type":"AverageValue","averageValue":"1"}}}`), []string{"spec.metrics[0].pods: must populate the given metric source only"}},
		{"a metric's name is required", withMetrics(`{"type":"Pods","pods":{"metric":{"name":""},"target":{"type":"AverageValue","averageValue":"1"}}}`), []string{"spec.metrics[0].pods.metric.name: must specify a metric name"}},
		{"a metric's name is a segment", withMetrics(`{"type":"Pods","pods":{"metric":{"name":"a/b%"},"target":{"type":"AverageValue","averageValue":"1"}}}`), []string{"spec.metrics[0].pods.metric.name: may not contain '%'", "spec.metrics[0].pods.metric.name: may not contain '/'"}},
		{"a selector is not looked at", withMetrics(`{"type":"Pods","pods":{"metric":{"name":"a","selector":{"matchExpressions":[{"values":["="]}]}},"target":{"type":"AverageValue","averageValue":"1"}}}`), nil},
		{"pods have an average", withMetrics(`{"type":"Pods","pods":{"metric":{"name":"a"},"target":{"type":"Value","value":"1"}}}`), []string{"spec.metrics[0].pods.target.averageValue: must specify a positive target averageValue"}},
		{"an object may be of the core group", withObject(`{"describedObject":{"apiVersion":"v1","kind":"Service","name":"web"},"metric":{"name":"a"},"target":{"type":"Value","value":"1"}}`), nil},
		{"an object may have both values", withObject(`{"describedObject":{"kind":"Service","name":"web"},"metric":{"name":"a"},"target":{"type":"Value","value":"1","averageValue":"1"}}`), nil},
		{"an object has one of them", withObject(`{"describedObject":{"kind":"Service","name":"web"},"metric":{"name":"a"},"target":{"type":"Value"}}`), []string{"spec.metrics[0].object.target.averageValue: must set either a target value or averageValue"}},
		{"an object's apiVersion has one slash", withObject(`{"describedObject":{"apiVersion":"a/b/c","kind":"Service","name":"web"},"metric":{"name":"a"},"target":{"type":"Value","value":"1"}}`), []string{"spec.metrics[0].object.describedObject.apiVersion: unexpected GroupVersion string: a/b/c"}},
		{"an object has a kind and a name", withObject(`{"describedObject":{"kind":"","name":""},"metric":{"name":"a"},"target":{"type":"Value","value":"1"}}`), []string{"spec.metrics[0].object.describedObject.kind", "spec.metrics[0].object.describedObject.name"}},
		{"a series has a value", withTarget(`{"type":"Value"}`), []string{"spec.metrics[0].external.target.averageValue: must set either a target value for metric or a per-pod target"}},
		{"a series has one value", withTarget(`{"type":"Value","value":"1","averageValue":"1"}`), []string{"spec.metrics[0].external.target.value: may not set both a target value for metric and a per-pod target"}},
		{"a target's type is required", withTarget(`{"type":"","value":"1"}`), []string{"spec.metrics[0].external.target.type: must be either Utilization, Value, or AverageValue", "spec.metrics[0].external.target.type: must specify a metric target type"}},
		{"a target's type is known", withTarget(`{"type":"Average","value":"1"}`), []string{"spec.metrics[0].external.target.type: must be either Utilization, Value, or AverageValue"}},
		{"a target's type need not fit", withTarget(`{"type":"Utilization","value":"1"}`), nil},
		{"a value is positive", withTarget(`{"type":"Value","value":"0"}`), []string{"spec.metrics[0].external.target.value: must be positive"}},
		{"a value may be a number", withTarget(`{"type":"Value","value":5}`), nil},
		{"of which 0 is not positive", withTarget(`{"type":"Value","value":0}`), []string{"spec.metrics[0].external.target.value: must be positive"}},
		{"values round up", withTarget(`{"type":"Value","value":"0.0000000000001"}`), nil},
		{"space around a value is skipped", withTarget(`{"type":"Value","value":" 5 "}`), nil},
		{"an average is positive", withTarget(`{"type":"Value","averageValue":"-1"}`), []string{"spec.metrics[0].external.target.averageValue: must be positive"}},
		{"a utilization is positive", withMetrics(strings.Replace(cpu, "80", "0", 1)), []string{"spec.metrics[0].resource.target.averageUtilization: must be greater than 0"}},
		{"a resource has a name", withMetrics(strings.Replace(cpu, `"cpu"`, `""`, 1)), []string{"spec.metrics[0].resource.name: must specify a resource name"}},
		{"of which any will do", withMetrics(strings.Replace(cpu, `"cpu"`, `"/%../"`, 1)), nil},
		{"a resource has a target", withMetrics(strings.Replace(cpu, `,"averageUtilization":80`, "", 1)), []string{"spec.metrics[0].resource.target.averageUtilization: must set either a target raw value or a target utilization"}},
		{"a resource has one", withMetrics(strings.Replace(cpu, `:80`, `:80,"averageValue":"1"`, 1)), []string{"spec.metrics[0].resource.target.averageValue: may not set both a target raw value and a target utilization"}},

		{"a container's resource is cpu", withContainer("cpu", "app"), nil},
		{"or huge pages", withContainer("hugepages-", "app"), []string{"spec.metrics[0].containerResource.name"}},
		{"of a size", withContainer("hugepages-2Mi", "app"), nil},
		{"or another's", withContainer("example.com/gpu", "app"), nil},
		{"or native with a domain", withContainer("kubernetes.io/anything", "app"), nil},
		{"a container has no pods", withContainer("pods", "app"), []string{"spec.metrics[0].containerResource.name: must be a standard resource for containers"}},
		{"a resource has a domain or is standard", withContainer("gpu", "app"), []string{
			"spec.metrics[0].containerResource.name: must be a standard resource for containers",
		}},
		{"a domain is not a quota's", withContainer("requests.example.com/gpu", "app"), []string{"spec.metrics[0].containerResource.name: doesn't follow extended resource name standard"}},
		{"a domain may be long", withContainer(strings.Repeat(long+".", 3)+long[:52]+"/gpu", "app"), nil},
		{"but not with requests before it", withContainer(strings.Repeat(long+".", 3)+long[:53]+"/gpu", "app"), []string{"spec.metrics[0].containerResource.name: doesn't follow extended resource name standard"}},
		{"a name has 63 characters", withContainer("example.com/"+long, "app"), nil},
		{"and no more", withContainer("example.com/"+long+"a", "app"), []string{"spec.metrics[0].containerResource.name"}},
		{"a domain is a subdomain", withContainer("Example.com/gpu", "app"), []string{"spec.metrics[0].containerResource.name"}},
		{"a name has one slash", withContainer("a/b/c", "app"), []string{"spec.metrics[0].containerResource.name"}},
		{"a container's resource is named", withContainer("", "app"), []string{"spec.metrics[0].containerResource.name: must specify a resource name"}},
		{"a container is named", withContainer("cpu", ""), []string{"spec.metrics[0].containerResource.container: must specify a container"}},
		{"by a label", withContainer("cpu", "App"), []string{"spec.metrics[0].containerResource.container"}},
		{"of 63 characters", withContainer("cpu", long), nil},
		{"and no more", withContainer("cpu", long+"a"), []string{"spec.metrics[0].containerResource.container"}},

		{"behavior may be empty", withBehavior(`{}`), nil},
		{"behavior may be null", withBehavior(`null`), nil},
		{"directions may be empty", withBehavior(`{"scaleUp":{},"scaleDown":{}}`), nil},
		{"directions may be null", withBehavior(`{"scaleUp":null,"scaleDown":{"policies":null,"selectPolicy":null}}`), nil},
		{"a window is not negative", withBehavior(`{"scaleDown":{"stabilizationWindowSeconds":-1}}`), []string{"spec.behavior.scaleDown.stabilizationWindowSeconds: must be greater than or equal to zero"}},
		{"a window is an hour at most", withBehavior(`{"scaleUp":{"stabilizationWindowSeconds":3601}}`), []string{"spec.behavior.scaleUp.stabilizationWindowSeconds: must be less than or equal to 3600"}},
		{"an hour is", withBehavior(`{"scaleUp":{"stabilizationWindowSeconds":3600}}`), nil},
		{"a choice of policies is known", withBehavior(`{"scaleUp":{"selectPolicy":"max"}}`), []string{`spec.behavior.scaleUp.selectPolicy: supported values: "Disabled", "Max", "Min"`}},
		{"empty is not absent", withBehavior(`{"scaleUp":{"selectPolicy":""}}`), []string{`spec.behavior.scaleUp.selectPolicy: supported values: "Disabled", "Max", "Min"`}},
		{"scaling may be disabled", withBehavior(`{"scaleDown":{"selectPolicy":"Disabled"}}`), nil},
		{"policies are not none", withBehavior(`{"scaleDown":{"policies":[]}}`), []string{"spec.behavior.scaleDown.policies: must specify at least one Policy"}},
		{"a policy has a known type", withPolicy(`{"type":"Pod","value":1,"periodSeconds":1}`), []string{`spec.behavior.scaleUp.policies[0].type: supported values: "Percent", "Pods"`}},
		{"a policy has a value", withPolicy(`{"type":"Pods","value":0,"periodSeconds":1}`), []string{"spec.behavior.scaleUp.policies[0].value: must be greater than zero"}},
		{"a policy has a period", withPolicy(`{"type":"Pods","value":1,"periodSeconds":0}`), []string{"spec.behavior.scaleUp.policies[0].periodSeconds: must be greater than zero"}},
		{"a period is half an hour at most", withPolicy(`{"type":"Pods","value":1,"periodSeconds":1801}`), []string{"spec.behavior.scaleUp.policies[0].periodSeconds: must be less than or equal to 1800"}},
		{"half an hour is", withPolicy(`{"type":"Percent","value":1,"periodSeconds":1800}`), nil},
		{"a tolerance is not negative", withBehavior(`{"scaleUp":{"tolerance":"-0.1"}}`), []string{"spec.behavior.scaleUp.tolerance: must be greater than or equal to 0"}},
		{"a tolerance may be 0", withBehavior(`{"scaleUp":{"tolerance":0},"scaleDown":{"tolerance":"50m"}}`), nil},
	}
}

func TestARuleOfAHorizontalPodAutoscalerIsOneOfAnAutoscaler(t *testing.T) {
	t.Parallel()
	d := definition(t)
	for _, c := range specCases() {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			hpa, autoscaler := both(t, parse(t, c.spec))
			upstream, err := crd.Create(hpa)
			fatal.If(t, err)
			if refused := len(upstream.Violations) > 0; refused != (len(c.want) > 0) {
				t.Fatalf("the case is wrong: as a HorizontalPodAutoscaler %v", upstream.Violations)
			}
			_, violations, err := d.Create(autoscaler)
			fatal.If(t, err)
			checkViolations(t, violations, c.want)
			checkFields(t, violations, upstream.Violations)
			checkTexts(t, upstream.Violations, c.want)
		})
	}
}

// checkViolations compares paths, and texts where there are some.
func checkViolations(t *testing.T, violations field.ErrorList, want []string) {
	t.Helper()
	var got []string
	for _, v := range violations {
		if strings.Contains(v.Detail, "some validation rules were not checked") {
			continue
		}
		got = append(got, v.Field+": "+v.Detail)
	}
	slices.Sort(got)
	slices.Sort(want)
	matches := func(got, want string) bool {
		return got == want || !strings.Contains(want, ": ") && strings.HasPrefix(got, want+": ")
	}
	if !slices.EqualFunc(got, want, matches) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// checkFields checks that the violations are of the same fields as for a
// HorizontalPodAutoscaler. Of an object that is absent upstream reports the fields.
func checkFields(t *testing.T, got, want field.ErrorList) {
	t.Helper()
	absent := func(got, want string) bool { return got == want || strings.HasPrefix(want, got+".") }
	g, w := fields(got), fields(want)
	for _, path := range w {
		if !slices.ContainsFunc(g, func(at string) bool { return absent(at, path) }) {
			t.Errorf("nothing of %s; a HorizontalPodAutoscaler: %v", path, want)
		}
	}
	for _, at := range g {
		if !slices.ContainsFunc(w, func(path string) bool { return absent(at, path) }) {
			t.Errorf("%s is good in a HorizontalPodAutoscaler: %v", at, want)
		}
	}
}

// checkTexts checks that upstream uses the words of want.
func checkTexts(t *testing.T, upstream field.ErrorList, want []string) {
	t.Helper()
	for _, wanted := range want {
		path, text, worded := strings.Cut(wanted, ": ")
		text, _, _ = strings.Cut(text, "; ") // after that we add how
		if worded && !slices.ContainsFunc(upstream, func(v *field.Error) bool { return v.Field == path && v.Detail == text }) {
			t.Errorf("not upstream's words: %s; those are %v", wanted, upstream)
		}
	}
}

func fields(violations field.ErrorList) []string {
	var out []string
	for _, v := range violations {
		if !strings.Contains(v.Detail, "some validation rules were not checked") {
			out = append(out, v.Field)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
