package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// A workload's pod template belongs to the autoscaler that scales it, by kind, name and
// namespace.
func TestTemplatesOfWorkloads(t *testing.T) {
	t.Parallel()
	const autoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 5}
---
`
	const workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {spec: {resources: {requests: {cpu: "1"}}, containers: [{name: app, resources: {requests: {cpu: 500m}, limits: {cpu: 2}}}]}}
`
	read := func(workload string) *manifest.Template {
		t.Helper()
		var dump manifest.Dump
		fatal.If(t, dump.Read("f.yaml", strings.NewReader(autoscaler+workload)))
		return dump.Template(dump.Autoscalers[0])
	}
	got := read(workload)
	if got == nil || *got.Replicas != 3 || got.Applied || got.Requests.Cpu().MilliValue() != 1000 || len(got.Containers) != 1 ||
		got.Containers[0].Resources.Requests.Cpu().MilliValue() != 500 || got.Containers[0].Resources.Limits.Cpu().MilliValue() != 2000 {
		t.Errorf("got %+v", got)
	}
	if got := read(strings.Replace(workload, "{name: web, namespace: shop}", "{name: web, namespace: shop, uid: a-b-c}", 1)); got == nil || !got.Applied {
		t.Errorf("a cluster's: %+v", got)
	}
	for _, other := range []string{
		strings.Replace(workload, "namespace: shop", "namespace: other", 1),
		strings.Replace(workload, "kind: Deployment", "kind: StatefulSet", 1),
		strings.Replace(workload, "name: web,", "name: api,", 1),
	} {
		if got := read(other); got != nil {
			t.Errorf("%s\nis not what is scaled: %+v", other, got)
		}
	}
}

// In a cluster's dump each of many autoscalers looks for its workload among as many: a look at all of them would take minutes.
func TestATemplateIsFoundWithoutALookAtAll(t *testing.T) { //nolint:paralleltest // It counts allocations.
	var text strings.Builder
	text.WriteString(`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
		"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w1"}, "maxReplicas": 5}}`)
	for _, version := range []string{"extensions/v1beta1", "apps/v1", "apps/v1"} { // the first of a name counts
		for i := range 50 {
			fmt.Fprintf(&text, `,
		{"apiVersion": %q, "kind": "Deployment", "metadata": {"name": "w%d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"of": %q}}, "template": {}}}`, version, i, strings.ReplaceAll(version, "/", "."))
		}
	}
	text.WriteString("]}")
	var dump manifest.Dump
	fatal.If(t, dump.Read("f.json", strings.NewReader(text.String())))
	var found *manifest.Template
	allocations := testing.AllocsPerRun(10, func() { found = dump.Template(dump.Autoscalers[0]) })
	if found == nil || found.Name != "w1" || found.Selector != "of=extensions.v1beta1" || allocations > 0 {
		t.Errorf("%+v, with %v allocations", found, allocations)
	}
	siblings := 0
	for range dump.Siblings(dump.Autoscalers[0]) {
		siblings++
	}
	if siblings != 150 {
		t.Errorf("%d siblings, want 150", siblings)
	}
}
