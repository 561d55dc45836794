package manifest_test

import (
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
