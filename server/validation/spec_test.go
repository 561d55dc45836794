package validation_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// specCase is a spec and what must be said of it.
type specCase struct {
	name string
	// spec is the spec as JSON.
	spec string
	opts validation.SpecOptions
	// want is every violation as «field: description», in order.
	want []string
}

// Parts of specs, each without a fault.
const (
	okTarget      = `{"type": "Utilization", "averageUtilization": 60}`
	okResource    = `{"name": "cpu", "target": ` + okTarget + `}`
	okContainer   = `{"name": "cpu", "container": "app", "target": ` + okTarget + `}`
	okPods        = `{"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}}`
	okExternal    = `{"metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"}}`
	okObject      = `{"describedObject": {"kind": "Service", "name": "web"}, "metric": {"name": "hits"}, "target": {"type": "Value", "value": "10"}}`
	okPolicy      = `{"type": "Pods", "value": 4, "periodSeconds": 15}`
	sourceTypes   = `supported values: "ContainerResource", "External", "Object", "Pods", "Resource"`
	labelRule     = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	nameRule      = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
	quantityRule  = `quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`
	scaleToZero   = `must specify at least one Object or External metric to support scaling to zero replicas`
	targetTypes   = `must be either Utilization, Value, or AverageValue`
	onlySource    = `Forbidden: must populate the given metric source only`
	missingSource = `Required value: must populate information for the given metric source`
)

// metrics returns a spec of these metrics.
func metrics(metrics ...string) string {
	return `{"maxReplicas": 5, "metrics": [` + strings.Join(metrics, ", ") + `]}`
}

// metric returns a spec of one metric.
func metric(metricType, source, content string) string {
	return metrics(`{"type": "` + metricType + `", "` + source + `": ` + content + `}`)
}

// resourceTarget returns a spec of one Resource metric with this target.
func resourceTarget(target string) string {
	return metric("Resource", "resource", `{"name": "cpu", "target": `+target+`}`)
}

// containerResource returns a spec of one ContainerResource metric.
func containerResource(resource, container string) string {
	return metric("ContainerResource", "containerResource",
		`{"name": "`+resource+`", "container": "`+container+`", "target": `+okTarget+`}`)
}

// reference returns a spec of this scale target.
func reference(ref string) string {
	return `{"maxReplicas": 5, "scaleTargetRef": ` + ref + `}`
}

// scaleUp returns a spec with these rules upwards.
func scaleUp(rules string) string {
	return `{"maxReplicas": 5, "behavior": {"scaleUp": ` + rules + `}}`
}

// policy returns a spec with one policy downwards.
func policy(policy string) string {
	return `{"maxReplicas": 5, "behavior": {"scaleDown": {"policies": [` + policy + `]}}}`
}

// rules are the API server's, one by one. Those of metadata and of the status
// have no place in a spec; an empty list of policies has none in the message.
var rules = []specCase{
	{
		name: "minReplicas is at least 1",
		spec: `{"minReplicas": 0, "maxReplicas": 5, "metrics": [{"type": "External", "external": ` + okExternal + `}]}`,
		want: []string{"spec.minReplicas: Invalid value: 0: must be greater than or equal to 1; 0 needs the feature HPAScaleToZero: options.scaleToZero, --scale-to-zero or profile v1.37"},
	},
	{
		name: "minReplicas is at least 0 with scale to zero",
		spec: `{"minReplicas": -1, "maxReplicas": 5}`,
		opts: validation.SpecOptions{ScaleToZero: true},
		want: []string{"spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"},
	},
	{
		name: "maxReplicas is set",
		spec: `{}`,
		want: []string{
			"spec.maxReplicas: Required value: must be set and greater than 0",
			"spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
		},
	},
	{
		name: "maxReplicas is at least 1",
		spec: `{"maxReplicas": -1}`,
		want: []string{
			"spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
			"spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
		},
	},
	{
		name: "maxReplicas is at least minReplicas",
		spec: `{"minReplicas": 6, "maxReplicas": 5}`,
		want: []string{"spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"},
	},
	{
		name: "a scale target has kind and name",
		spec: reference(`{"apiVersion": "apps/v1"}`),
		want: []string{
			"spec.scaleTargetRef.kind: Required value",
			"spec.scaleTargetRef.name: Required value",
		},
	},
	{
		name: "kind and name are path segments",
		spec: reference(`{"kind": "..", "name": "a/b%c", "apiVersion": "apps/v1"}`),
		want: []string{
			`spec.scaleTargetRef.kind: Invalid value: "..": may not be '..'`,
			`spec.scaleTargetRef.name: Invalid value: "a/b%c": may not contain '/'`,
			`spec.scaleTargetRef.name: Invalid value: "a/b%c": may not contain '%'`,
		},
	},
	{
		name: "a name is not a dot",
		spec: reference(`{"kind": "Deployment", "name": ".", "apiVersion": "apps/v1"}`),
		want: []string{`spec.scaleTargetRef.name: Invalid value: ".": may not be '.'`},
	},
	{
		name: "an apiVersion has a group",
		spec: reference(`{"kind": "Deployment", "name": "web", "apiVersion": "v1"}`),
		want: []string{`spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group`},
	},
	{
		name: "an apiVersion is set",
		spec: reference(`{"kind": "Deployment", "name": "web"}`),
		want: []string{`spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group`},
	},
	{
		name: "an apiVersion parses",
		spec: reference(`{"kind": "ReplicationController", "name": "web", "apiVersion": "a/b/c"}`),
		want: []string{`spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`},
	},
	{
		name: "minReplicas 0 needs an Object or External metric",
		spec: `{"minReplicas": 0, "maxReplicas": 5, "metrics": [{"type": "Pods", "pods": ` + okPods + `}]}`,
		opts: validation.SpecOptions{ScaleToZero: true},
		want: []string{"spec.metrics: Forbidden: " + scaleToZero},
	},
	{
		name: "minReplicas 0 does not do with the default metric",
		spec: `{"minReplicas": 0, "maxReplicas": 5}`,
		opts: validation.SpecOptions{ScaleToZero: true},
		want: []string{"spec.metrics: Forbidden: " + scaleToZero},
	},
	{
		name: "a metric has a type",
		spec: metrics(`{"resource": ` + okResource + `}`),
		want: []string{
			"spec.metrics[0].type: Required value: must specify a metric source type",
			`spec.metrics[0].type: Unsupported value: "": ` + sourceTypes,
			`spec.metrics[0].type: Unsupported value: "": ` + sourceTypes,
		},
	},
	{
		name: "a metric's type is one of five",
		spec: metrics(`{"type": "Resource", "resource": `+okResource+`}`, `{"type": "Foo", "resource": `+okResource+`}`),
		want: []string{
			`spec.metrics[1].type: Unsupported value: "Foo": ` + sourceTypes,
			`spec.metrics[1].type: Unsupported value: "Foo": ` + sourceTypes,
		},
	},
	{
		name: "an object source is there for type Object",
		spec: metrics(`{"type": "Object"}`),
		want: []string{"spec.metrics[0].object: " + missingSource},
	},
	{
		name: "an external source is there for type External",
		spec: metrics(`{"type": "External"}`),
		want: []string{"spec.metrics[0].external: " + missingSource},
	},
	{
		name: "a pods source is there for type Pods",
		spec: metrics(`{"type": "Pods"}`),
		want: []string{"spec.metrics[0].pods: " + missingSource},
	},
	{
		name: "a resource source is there for type Resource, another will not do",
		spec: metric("Resource", "pods", okPods),
		want: []string{"spec.metrics[0].resource: " + missingSource},
	},
	{
		name: "a container resource source is there for type ContainerResource",
		spec: metrics(`{"type": "ContainerResource"}`),
		want: []string{"spec.metrics[0].containerResource: " + missingSource},
	},
	{
		name: "no other source is there, the first is checked",
		spec: metrics(`{"type": "Resource", "resource": {}, "pods": {}, "external": ` + okExternal + `}`),
		want: []string{
			"spec.metrics[0].external: " + onlySource,
			"spec.metrics[0].pods: " + onlySource,
		},
	},
	{
		name: "no two sources are there for an unknown type",
		spec: metrics(`{"type": "Foo", "object": ` + okObject + `, "resource": {}, "containerResource": {}}`),
		want: []string{
			`spec.metrics[0].type: Unsupported value: "Foo": ` + sourceTypes,
			`spec.metrics[0].type: Unsupported value: "Foo": ` + sourceTypes,
			"spec.metrics[0].object: " + onlySource,
			"spec.metrics[0].resource: " + onlySource,
			"spec.metrics[0].containerResource: " + onlySource,
		},
	},
	{
		name: "a metric has a name",
		spec: metric("Pods", "pods", `{"metric": {}, "target": {"type": "AverageValue", "averageValue": "10"}}`),
		want: []string{"spec.metrics[0].pods.metric.name: Required value: must specify a metric name"},
	},
	{
		name: "a metric's name is a path segment",
		spec: metric("External", "external", `{"metric": {"name": "a/b"}, "target": {"type": "Value", "value": "10"}}`),
		want: []string{`spec.metrics[0].external.metric.name: Invalid value: "a/b": may not contain '/'`},
	},
	{
		name: "a target has a type",
		spec: resourceTarget(`{"averageUtilization": 60}`),
		want: []string{
			"spec.metrics[0].resource.target.type: Required value: must specify a metric target type",
			`spec.metrics[0].resource.target.type: Invalid value: "": ` + targetTypes,
		},
	},
	{
		name: "a target's type is one of three",
		spec: resourceTarget(`{"type": "X", "averageUtilization": 60}`),
		want: []string{`spec.metrics[0].resource.target.type: Invalid value: "X": ` + targetTypes},
	},
	{
		name: "a target's value is positive",
		spec: metric("External", "external", `{"metric": {"name": "queue"}, "target": {"type": "Value", "value": "0"}}`),
		want: []string{`spec.metrics[0].external.target.value: Invalid value: "0": must be positive`},
	},
	{
		name: "a target's averageValue is positive, shown in canonical form",
		spec: resourceTarget(`{"type": "AverageValue", "averageValue": "-1.5"}`),
		want: []string{`spec.metrics[0].resource.target.averageValue: Invalid value: "-1500m": must be positive`},
	},
	{
		name: "a target's averageUtilization is at least 1",
		spec: resourceTarget(`{"type": "Utilization", "averageUtilization": 0}`),
		want: []string{"spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0"},
	},
	{
		name: "an object's target has value or averageValue",
		spec: metric("Object", "object", `{"describedObject": {"kind": "Service", "name": "web"}, "metric": {"name": "hits"}, "target": {"type": "Value"}}`),
		want: []string{"spec.metrics[0].object.target.averageValue: Required value: must set either a target value or averageValue"},
	},
	{
		name: "a described object has kind, name and an apiVersion that parses",
		spec: metric("Object", "object", `{"describedObject": {"name": "a%", "apiVersion": "a/b/c"}, "metric": {"name": "hits"}, "target": {"type": "Value", "value": "10"}}`),
		want: []string{
			"spec.metrics[0].object.describedObject.kind: Required value",
			`spec.metrics[0].object.describedObject.name: Invalid value: "a%": may not contain '%'`,
			`spec.metrics[0].object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`,
		},
	},
	{
		name: "an external's target has value or averageValue",
		spec: metric("External", "external", `{"metric": {"name": "queue"}, "target": {"type": "Value"}}`),
		want: []string{"spec.metrics[0].external.target.averageValue: Required value: must set either a target value for metric or a per-pod target"},
	},
	{
		name: "an external's target has not both",
		spec: metric("External", "external", `{"metric": {"name": "queue"}, "target": {"type": "Value", "value": "1", "averageValue": "1"}}`),
		want: []string{"spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod target"},
	},
	{
		name: "a pods target has averageValue",
		spec: metric("Pods", "pods", `{"metric": {"name": "rps"}, "target": {"type": "Value", "value": "1"}}`),
		want: []string{"spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue"},
	},
	{
		name: "a resource has a name",
		spec: metric("Resource", "resource", `{"target": `+okTarget+`}`),
		want: []string{"spec.metrics[0].resource.name: Required value: must specify a resource name"},
	},
	{
		name: "a resource's target has averageUtilization or averageValue",
		spec: resourceTarget(`{"type": "Value", "value": "1"}`),
		want: []string{"spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization"},
	},
	{
		name: "a resource's target has not both",
		spec: resourceTarget(`{"type": "Utilization", "averageUtilization": 60, "averageValue": "1"}`),
		want: []string{"spec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization"},
	},
	{
		name: "a container resource's target has averageUtilization or averageValue",
		spec: metric("ContainerResource", "containerResource", `{"name": "cpu", "container": "app", "target": {"type": "Utilization"}}`),
		want: []string{"spec.metrics[0].containerResource.target.averageUtilization: Required value: must set either a target raw value or a target utilization"},
	},
	{
		name: "a container resource's target has not both",
		spec: metric("ContainerResource", "containerResource", `{"name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 60, "averageValue": "1"}}`),
		want: []string{"spec.metrics[0].containerResource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization"},
	},
	{
		name: "a container resource has a name",
		spec: containerResource("", "app"),
		want: []string{"spec.metrics[0].containerResource.name: Required value: must specify a resource name"},
	},
	{
		name: "a container resource without a domain is a known one",
		spec: containerResource("bad", "app"),
		want: []string{
			`spec.metrics[0].containerResource.name: Invalid value: "bad": must be a standard resource type or fully qualified`,
			`spec.metrics[0].containerResource.name: Invalid value: "bad": must be a standard resource for containers`,
		},
	},
	{
		name: "a container resource is not one of quotas",
		spec: containerResource("pods", "app"),
		want: []string{`spec.metrics[0].containerResource.name: Invalid value: "pods": must be a standard resource for containers`},
	},
	{
		name: "a container resource is a qualified name",
		spec: containerResource("hugepages-", "app"),
		want: []string{`spec.metrics[0].containerResource.name: Invalid value: "hugepages-": ` + nameRule},
	},
	{
		name: "a container resource with a domain is an extended one",
		spec: containerResource("requests.example.com/gpu", "app"),
		want: []string{`spec.metrics[0].containerResource.name: Invalid value: "requests.example.com/gpu": doesn't follow extended resource name standard`},
	},
	{
		name: "a container is named",
		spec: containerResource("cpu", ""),
		want: []string{"spec.metrics[0].containerResource.container: Required value: must specify a container"},
	},
	{
		name: "a container's name is a DNS label",
		spec: containerResource("cpu", "A_b"),
		want: []string{`spec.metrics[0].containerResource.container: Invalid value: "A_b": ` + labelRule},
	},
	{
		name: "a stabilization window is not negative",
		spec: scaleUp(`{"stabilizationWindowSeconds": -1}`),
		want: []string{"spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero"},
	},
	{
		name: "a stabilization window is at most an hour",
		spec: scaleUp(`{"stabilizationWindowSeconds": 3601}`),
		want: []string{"spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600"},
	},
	{
		name: "a select policy is one of three",
		spec: scaleUp(`{"selectPolicy": "x"}`),
		want: []string{`spec.behavior.scaleUp.selectPolicy: Unsupported value: "x": supported values: "Disabled", "Max", "Min"`},
	},
	{
		name: "a policy's type is one of two",
		spec: policy(`{"type": "x", "value": 1, "periodSeconds": 15}`),
		want: []string{`spec.behavior.scaleDown.policies[0].type: Unsupported value: "x": supported values: "Percent", "Pods"`},
	},
	{
		name: "a policy's value is positive",
		spec: policy(`{"type": "Pods", "value": 0, "periodSeconds": 15}`),
		want: []string{"spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero"},
	},
	{
		name: "a policy's period is positive",
		spec: policy(`{"type": "Pods", "value": 1, "periodSeconds": 0}`),
		want: []string{"spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 0: must be greater than zero"},
	},
	{
		name: "a policy's period is at most half an hour",
		spec: policy(okPolicy + `, {"type": "Pods", "value": 1, "periodSeconds": 1801}`),
		want: []string{"spec.behavior.scaleDown.policies[1].periodSeconds: Invalid value: 1801: must be less than or equal to 1800"},
	},
	{
		name: "a tolerance is not negative",
		spec: scaleUp(`{"tolerance": "-0.1"}`),
		want: []string{`spec.behavior.scaleUp.tolerance: Invalid value: "-100m": must be greater than or equal to 0`},
	},
	{
		name: "a quantity parses",
		spec: `{"maxReplicas": 5,
			"metrics": [{"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "web"}, "metric": {"name": "hits"},
				"target": {"type": "Value", "value": "abc", "averageValue": ""}}}],
			"behavior": {"scaleDown": {"tolerance": "1ee"}}}`,
		want: []string{
			`spec.metrics[0].object.target.value: Invalid value: "abc": ` + quantityRule,
			`spec.metrics[0].object.target.averageValue: Invalid value: "": ` + quantityRule,
			`spec.behavior.scaleDown.tolerance: Invalid value: "1ee": unable to parse quantity's suffix`,
		},
	},
	{
		name: "a quantity is not larger than can be computed with",
		spec: `{"maxReplicas": 5,
			"metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "1e2000000000"}}}],
			"behavior": {"scaleUp": {"tolerance": "` + strings.Repeat("1", 1001) + `"}}}`,
		want: []string{
			`spec.metrics[0].external.target.value: Invalid value: "1e2000000000": exponent must be between -1000 and 1000`,
			`spec.behavior.scaleUp.tolerance: Too long: may not be more than 1000 bytes`,
		},
	},
}

// combinations have several errors, all of which are found.
var combinations = []specCase{
	{
		name: "every part at once, in the order of the API server",
		spec: `{
			"minReplicas": 0,
			"maxReplicas": -1,
			"scaleTargetRef": {"kind": "a/b", "name": "web"},
			"metrics": [
				{"type": "Resource", "resource": {"target": {"type": "X", "averageUtilization": 0, "averageValue": "0"}}},
				{"type": "Pods", "pods": {}},
				{"type": "ContainerResource", "containerResource": ` + okContainer + `, "resource": ` + okResource + `},
				{}
			],
			"behavior": {
				"scaleDown": {"stabilizationWindowSeconds": -5, "selectPolicy": "", "policies": [{}, ` + okPolicy + `], "tolerance": "-1"},
				"scaleUp": {"selectPolicy": "Maximum", "tolerance": "x"}
			}
		}`,
		want: []string{
			"spec.minReplicas: Invalid value: 0: must be greater than or equal to 1; 0 needs the feature HPAScaleToZero: options.scaleToZero, --scale-to-zero or profile v1.37",
			"spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
			"spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
			`spec.scaleTargetRef.kind: Invalid value: "a/b": may not contain '/'`,
			`spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group`,
			"spec.metrics[0].resource.name: Required value: must specify a resource name",
			`spec.metrics[0].resource.target.type: Invalid value: "X": ` + targetTypes,
			`spec.metrics[0].resource.target.averageValue: Invalid value: "0": must be positive`,
			"spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
			"spec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization",
			"spec.metrics[1].pods.metric.name: Required value: must specify a metric name",
			"spec.metrics[1].pods.target.type: Required value: must specify a metric target type",
			`spec.metrics[1].pods.target.type: Invalid value: "": ` + targetTypes,
			"spec.metrics[1].pods.target.averageValue: Required value: must specify a positive target averageValue",
			"spec.metrics[2].resource: " + onlySource,
			"spec.metrics[3].type: Required value: must specify a metric source type",
			`spec.metrics[3].type: Unsupported value: "": ` + sourceTypes,
			`spec.metrics[3].type: Unsupported value: "": ` + sourceTypes,
			"spec.metrics: Forbidden: " + scaleToZero,
			`spec.behavior.scaleUp.selectPolicy: Unsupported value: "Maximum": supported values: "Disabled", "Max", "Min"`,
			`spec.behavior.scaleUp.tolerance: Invalid value: "x": ` + quantityRule,
			"spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: -5: must be greater than or equal to zero",
			`spec.behavior.scaleDown.selectPolicy: Unsupported value: "": supported values: "Disabled", "Max", "Min"`,
			`spec.behavior.scaleDown.policies[0].type: Unsupported value: "": supported values: "Percent", "Pods"`,
			"spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero",
			"spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 0: must be greater than zero",
			`spec.behavior.scaleDown.tolerance: Invalid value: "-1": must be greater than or equal to 0`,
		},
	},
	{
		name: "a source that is refused still allows scaling to zero by its type",
		spec: `{"minReplicas": 0, "maxReplicas": 5, "metrics": [{"type": "External"}]}`,
		opts: validation.SpecOptions{ScaleToZero: true},
		want: []string{"spec.metrics[0].external: " + missingSource},
	},
	{
		name: "the first source is checked even where the type names another",
		spec: metrics(`{"type": "Resource", "object": {"describedObject": {"kind": "Service", "name": "web"}, "metric": {"name": "hits"}, "target": {"type": "Value"}}, "resource": {}}`),
		want: []string{
			"spec.metrics[0].object.target.averageValue: Required value: must set either a target value or averageValue",
			"spec.metrics[0].object: " + onlySource,
		},
	},
	{
		name: "a domain may break several rules of names",
		spec: containerResource("Bad_/", "app"),
		want: []string{
			`spec.metrics[0].containerResource.name: Invalid value: "Bad_/": prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			`spec.metrics[0].containerResource.name: Invalid value: "Bad_/": name part must be non-empty`,
			`spec.metrics[0].containerResource.name: Invalid value: "Bad_/": ` + nameRule,
			`spec.metrics[0].containerResource.name: Invalid value: "Bad_/": doesn't follow extended resource name standard`,
		},
	},
	{
		name: "a container's name may be too long and have dots",
		spec: containerResource("cpu", strings.Repeat("a.", 32)+"a"),
		want: []string{
			`spec.metrics[0].containerResource.container: Invalid value: "` + strings.Repeat("a.", 32) + `a": must be no more than 63 characters`,
			`spec.metrics[0].containerResource.container: Invalid value: "` + strings.Repeat("a.", 32) + `a": must not contain dots`,
		},
	},
	{
		name: "values of enumerated types are shown as JSON",
		spec: scaleUp(`{"selectPolicy": "<Max>"}`),
		want: []string{`spec.behavior.scaleUp.selectPolicy: Unsupported value: "\u003cMax\u003e": supported values: "Disabled", "Max", "Min"`},
	},
}

// sound specs are valid: by their defaults, or because nothing checks them.
var sound = []specCase{
	{name: "all is default", spec: `{"maxReplicas": 1}`},
	{name: "an empty list of metrics is default", spec: metrics()},
	{name: "an empty behavior is default", spec: `{"maxReplicas": 5, "behavior": {}}`},
	{name: "empty rules are default", spec: `{"maxReplicas": 5, "behavior": {"scaleUp": {}, "scaleDown": {"policies": []}}}`},
	{name: "the bounds are equal", spec: `{"minReplicas": 5, "maxReplicas": 5}`},
	{
		name: "scale to zero with an External metric",
		spec: `{"minReplicas": 0, "maxReplicas": 5, "metrics": [{"type": "Resource", "resource": ` + okResource + `}, {"type": "External", "external": ` + okExternal + `}]}`,
		opts: validation.SpecOptions{ScaleToZero: true},
	},
	{
		name: "scale to zero with an Object metric",
		spec: `{"minReplicas": 0, "maxReplicas": 5, "metrics": [{"type": "Object", "object": ` + okObject + `}]}`,
		opts: validation.SpecOptions{ScaleToZero: true},
	},
	{name: "a Deployment", spec: reference(`{"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}`)},
	{name: "a ReplicationController has no group", spec: reference(`{"kind": "ReplicationController", "name": "web", "apiVersion": "v1"}`)},
	{name: "a ReplicationController has no apiVersion", spec: reference(`{"kind": "ReplicationController", "name": "web"}`)},
	{
		name: "one metric of each source",
		spec: metrics(
			`{"type": "Resource", "resource": `+okResource+`}`,
			`{"type": "ContainerResource", "containerResource": `+okContainer+`}`,
			`{"type": "Pods", "pods": `+okPods+`}`,
			`{"type": "Object", "object": `+okObject+`}`,
			`{"type": "External", "external": `+okExternal+`}`,
		),
	},
	{name: "huge pages of a container", spec: containerResource("hugepages-2Mi", "app")},
	{name: "an extended resource of a container", spec: containerResource("nvidia.com/gpu", "app")},
	{name: "a resource of Kubernetes' own domain", spec: containerResource("requests.kubernetes.io/x", "app")},
	{name: "any resource of a pod", spec: metric("Resource", "resource", `{"name": "no such/thing", "target": `+okTarget+`}`)},
	{
		name: "both fields of an Object target",
		spec: metric("Object", "object", `{"describedObject": {"kind": "Service", "name": "web"}, "metric": {"name": "hits"}, "target": {"type": "Value", "value": "1", "averageValue": "1"}}`),
	},
	{name: "a type that does not fit the target's field", spec: resourceTarget(`{"type": "Value", "averageUtilization": 60}`)},
	{
		name: "an Object whose type does not match its only field",
		spec: metric("Object", "object", `{"describedObject": {"kind": "Service", "name": "web"}, "metric": {"name": "hits"}, "target": {"type": "Utilization", "value": "1"}}`),
	},
	{name: "one metric twice", spec: metrics(`{"type": "Resource", "resource": `+okResource+`}`, `{"type": "Resource", "resource": `+okResource+`}`)},
	{
		name: "a metric selector that does not parse",
		spec: metric("Pods", "pods", `{"metric": {"name": "rps", "selector": {"matchExpressions": [{"key": "/", "operator": "Near"}]}}, "target": {"type": "AverageValue", "averageValue": "10"}}`),
	},
	{name: "a quantity that overflows", spec: resourceTarget(`{"type": "AverageValue", "averageValue": "10E"}`)},
	{name: "a quantity beyond 128 bits", spec: resourceTarget(`{"type": "AverageValue", "averageValue": "1e1000"}`)},
	{name: "a quantity with space around it", spec: resourceTarget(`{"type": "AverageValue", "averageValue": " 1 "}`)},
	{name: "a utilization without a limit", spec: resourceTarget(`{"type": "Utilization", "averageUtilization": 2147483647}`)},
	{name: "the longest windows", spec: scaleUp(`{"stabilizationWindowSeconds": 3600, "policies": [{"type": "Percent", "value": 2147483647, "periodSeconds": 1800}]}`)},
	{name: "no tolerance", spec: scaleUp(`{"tolerance": "0"}`)},
	{name: "a tolerance without a limit", spec: scaleUp(`{"tolerance": "1E"}`)},
}

// TestSpec finds in each spec what it must find, and leaves the spec as it was.
func TestSpec(t *testing.T) {
	for _, tt := range slices.Concat(rules, combinations, sound) {
		t.Run(tt.name, func(t *testing.T) {
			spec := parse(t, tt.spec)
			before := proto.Clone(spec)
			got := lines(validation.Spec(spec, tt.opts))
			if !slices.Equal(got, tt.want) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if !proto.Equal(spec, before) {
				t.Errorf("spec was changed to %v", spec)
			}
		})
	}
}

func TestSpecLeavesAnAbsentSpecToStructure(t *testing.T) {
	if got := validation.Spec(nil, validation.SpecOptions{}); got != nil {
		t.Errorf("got %v, want nil", got)
	}
}

// TestSpecTakesNilPartsForEmptyOnes looks at what no decoder makes, but a caller
// in the same process might.
func TestSpecTakesNilPartsForEmptyOnes(t *testing.T) {
	sparse := &setpointv1.HorizontalPodAutoscalerSpec{
		Metrics:  []*setpointv1.MetricSpec{nil},
		Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: &setpointv1.HPAScalingRules{Policies: []*setpointv1.HPAScalingPolicy{nil}}},
	}
	full := &setpointv1.HorizontalPodAutoscalerSpec{
		Metrics:  []*setpointv1.MetricSpec{{}},
		Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: &setpointv1.HPAScalingRules{Policies: []*setpointv1.HPAScalingPolicy{{}}}},
	}
	for _, metricType := range []string{"object", "external", "pods", "resource", "containerResource"} {
		sparse.Metrics = append(sparse.Metrics, parse(t, metrics(`{"`+metricType+`": {}}`)).Metrics...)
		full.Metrics = append(full.Metrics, parse(t, metrics(`{"`+metricType+`": {"target": {}`+identity(metricType)+`}}`)).Metrics...)
	}
	got, want := lines(validation.Spec(sparse, validation.SpecOptions{})), lines(validation.Spec(full, validation.SpecOptions{}))
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// identity returns empty messages for what names a source's metric.
func identity(source string) string {
	switch source {
	case "object":
		return `, "metric": {}, "describedObject": {}`
	case "external", "pods":
		return `, "metric": {}`
	default:
		return ""
	}
}

// parse reads a spec as JSON.
func parse(t testing.TB, text string) *setpointv1.HorizontalPodAutoscalerSpec {
	t.Helper()
	spec := &setpointv1.HorizontalPodAutoscalerSpec{}
	if err := protojson.Unmarshal([]byte(text), spec); err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return spec
}

// lines renders the violations one by one.
func lines(violations []validation.Violation) []string {
	var lines []string
	for _, v := range violations {
		lines = append(lines, v.String())
	}
	return lines
}
