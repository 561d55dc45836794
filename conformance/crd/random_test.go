package crd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// random makes specs: good ones, and such with something changed anywhere.
type random struct{ *rand.Rand }

func one[T any](r random, values ...T) T { return values[r.IntN(len(values))] }

func (r random) chance(share float64) bool { return r.Float64() < share }

// spec returns a spec that is often good.
func (r random) spec() object {
	least := 1 + r.IntN(5)
	spec := object{"scaleTargetRef": r.reference(), "maxReplicas": least + r.IntN(5)}
	if r.chance(0.8) {
		spec["minReplicas"] = least
	}
	if r.chance(0.05) {
		spec["minReplicas"] = 0
	}
	if r.chance(0.9) {
		metrics := []any{}
		for range 1 + r.IntN(4) {
			metrics = append(metrics, r.metric())
		}
		spec["metrics"] = metrics
	}
	if r.chance(0.6) {
		spec["behavior"] = r.behavior()
	}
	return spec
}

func (r random) reference() object {
	return one(r,
		object{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		object{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web.0"},
		object{"apiVersion": "v1", "kind": "ReplicationController", "name": "web"},
		object{"kind": "ReplicationController", "name": "web"})
}

func (r random) metric() object {
	switch identifier := (object{"name": one(r, "requests", "a b", "queue:length", "…")}); r.IntN(5) {
	case 0:
		return object{"type": "Resource", "resource": object{"name": one(r, "cpu", "memory", "x"), "target": r.resourceTarget()}}
	case 1:
		return object{"type": "ContainerResource", "containerResource": object{
			"name": one(r, "cpu", "hugepages-2Mi", "example.com/gpu"), "container": "app", "target": r.resourceTarget(),
		}}
	case 2:
		return object{"type": "Pods", "pods": object{"metric": identifier, "target": object{"type": "AverageValue", "averageValue": r.quantity()}}}
	case 3:
		if r.chance(0.5) {
			identifier["selector"] = object{
				"matchLabels":      object{"app": "web"},
				"matchExpressions": []any{object{"key": "tier", "operator": "In", "values": []any{"a", "b"}}},
			}
		}
		return object{"type": "Object", "object": object{
			"describedObject": object{"apiVersion": one(r, "v1", "networking.k8s.io/v1"), "kind": "Ingress", "name": "web"},
			"metric":          identifier, "target": r.total(),
		}}
	default:
		return object{"type": "External", "external": object{"metric": identifier, "target": r.total()}}
	}
}

func (r random) resourceTarget() object {
	if r.chance(0.7) {
		return object{"type": "Utilization", "averageUtilization": 1 + r.IntN(200)}
	}
	return object{"type": "AverageValue", "averageValue": r.quantity()}
}

func (r random) total() object {
	if r.chance(0.5) {
		return object{"type": "Value", "value": r.quantity()}
	}
	return object{"type": "AverageValue", "averageValue": r.quantity()}
}

func (r random) quantity() any {
	return one[any](r, "500m", "1", "1.5", "2Gi", "1e3", "1E", ".5", "5.", "+3", 7, "1n", "0.1u", "12E-1")
}

func (r random) behavior() object {
	behavior := object{}
	for _, direction := range []string{"scaleUp", "scaleDown"} {
		if r.chance(0.7) {
			behavior[direction] = r.rules()
		}
	}
	return behavior
}

func (r random) rules() object {
	rules := object{}
	if r.chance(0.5) {
		rules["stabilizationWindowSeconds"] = r.IntN(3601)
	}
	if r.chance(0.5) {
		rules["selectPolicy"] = one(r, "Max", "Min", "Disabled")
	}
	if r.chance(0.3) {
		rules["tolerance"] = one[any](r, "0.1", "50m", 0, "0")
	}
	if r.chance(0.5) {
		policies := []any{}
		for range 1 + r.IntN(3) {
			policies = append(policies, object{"type": one(r, "Pods", "Percent"), "value": 1 + r.IntN(100), "periodSeconds": 1 + r.IntN(1800)})
		}
		rules["policies"] = policies
	}
	return rules
}

// change changes one value anywhere: it is removed, replaced by one on an edge of a rule,
// or by a copy of another one's neighbour. It says what it did.
func (r random) change(spec object) string {
	places := placesOf(spec, "spec")
	if len(places) == 0 { // earlier changes have removed all
		return "nothing"
	}
	at := places[r.IntN(len(places))]
	switch {
	case at.in != nil && r.chance(0.15):
		delete(at.in, at.key)
		return "no " + at.path
	case at.in != nil && r.chance(0.1):
		other := one(r, "type", "name", "kind", "value", "averageValue", "averageUtilization", "resource", "object", "pods",
			"external", "containerResource", "metric", "target", "policies", "scaleUp", "minReplicas", "apiVersion", "behavior", "tolerance")
		value := r.edge()
		if r.chance(0.5) {
			value = at.value
		}
		at.in[other] = clone(value)
		return at.path + "/../" + other
	}
	value := r.edge()
	at.set(value)
	return fmt.Sprintf("%s = %#v", at.path, value)
}

// edge is a value that some rule is about. None is a fraction without quotes, nor longer
// than an Autoscaler may have it: see TestWhatAnAutoscalerRefuses.
func (r random) edge() any {
	long := strings.Repeat("a", 63)
	return clone(one[any](r,
		nil, true, object{}, []any{}, []any{nil}, []any{object{}}, object{"name": "x"},
		-1, 0, 1, 2, 5, 1800, 1801, 3600, 3601, 2147483647, 2147483648, -2147483648, -2147483649,
		"", " ", ".", "..", "...", "/", "//", "a/b", "a/b/c", "/v1", "apps/", "v1", "a%b", "%", "ä", "a\n", "\n",
		"Resource", "ContainerResource", "Pods", "Object", "External", "resource", "Percent", "Max", "Min", "Disabled",
		"Utilization", "Value", "AverageValue", "ReplicationController", "Deployment",
		"0", "-1", "-0", "+0", "5", " 5", "5 ", "5\n", "1e3", "1e3.5", "1e0.5", "1E", "1Ei", "1ki", "1Ki", "0.0000000001", "-0.0000000001",
		"1e100", "1e-100", "9223372036854775808", "-9223372036854775808", "0x1", "1_000", "Inf", "NaN", "1,5", "5m5",
		"cpu", "pods", "gpu", "hugepages-", "hugepages-2Mi", "hugepages-a_b", "requests.cpu", "example.com/gpu", "requests.example.com/gpu",
		"kubernetes.io/a", "kubernetes.io/a/b", "x.kubernetes.io/requests.a", "-a", "a-", "A", "a.b", "a_b", long, long+"a",
		"a/"+long, "a/"+long+"a", strings.Repeat(long+".", 3)+long[:52]+"/a", strings.Repeat(long+".", 3)+long[:53]+"/a",
		strings.Repeat(long+".", 3)+long+"/a", strings.Repeat(long+".", 4)+"b/a", "a./b", ".a/b", "a..b/c", "A/b", "a/", "/a"))
}

// place is a value in a spec, in an object or a list.
type place struct {
	path  string
	value any
	in    object
	key   string
	set   func(any)
}

func placesOf(value any, path string) []place {
	var out []place
	switch value := value.(type) {
	case object:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			out = append(out, place{path + "." + key, value[key], value, key, func(v any) { value[key] = v }})
			out = append(out, placesOf(value[key], path+"."+key)...)
		}
	case []any:
		for i := range value {
			at := fmt.Sprintf("%s[%d]", path, i)
			out = append(out, place{at, value[i], nil, "", func(v any) { value[i] = v }})
			out = append(out, placesOf(value[i], at)...)
		}
	}
	return out
}

func clone(value any) any {
	switch value := value.(type) {
	case object:
		out := object{}
		for key, v := range value {
			out[key] = clone(v)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, v := range value {
			out[i] = clone(v)
		}
		return out
	}
	return value
}

func text(value any) string {
	data, _ := json.Marshal(value)
	return string(data)
}
