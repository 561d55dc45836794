//go:build linux

package kubernetes

import (
	"fmt"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// defined is a kind of a CustomResourceDefinition, and an object of it.
type defined struct {
	group, version, kind string
	// subresources are the definition's, spec and status the object's.
	subresources, spec, status string
	// replicas are those that the load wants: the selector may not select all pods.
	replicas string
	// able is the condition that the object comes to.
	able string
}

const usualScale = `{status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}`

// definedKinds have the paths of Argo Rollouts and LeaderWorkerSets, of whose pods only the leaders are selected, and
// what may be missing.
var definedKinds = []defined{
	{"argoproj.io", "v1alpha1", "Rollout", `{status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.HPAReplicas, labelSelectorPath: .status.selector}}`,
		`{"replicas":2}`, `{"HPAReplicas":2,"selector":"app=rollout"}`, "6", "ScalingActive=True/ValidMetricFound"},
	{"leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", `{status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.hpaPodSelector}}`,
		`{"replicas":2}`, `{"replicas":2,"hpaPodSelector":"app=leaderworkerset,worker-index=0"}`, "3", "ScalingActive=True/ValidMetricFound"},
	{"noscale.example.com", "v1", "NoScale", `{status: {}}`, `{"replicas":2}`, `{}`, "2", "AbleToScale=False/FailedGetScale"},
	{"noselector.example.com", "v1", "NoSelector", `{status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}`,
		`{"replicas":2}`, `{"replicas":2}`, "2", "ScalingActive=False/InvalidSelector"},
	{"nostatus.example.com", "v1", "NoStatus", usualScale, `{"replicas":2}`, ``, "2", "ScalingActive=False/InvalidSelector"},
	{"noreplicas.example.com", "v1", "NoReplicas", usualScale, `{"other":2}`, `{"replicas":2,"selector":"app=noreplicas"}`, "", "AbleToScale=False/FailedGetScale"},
	{"badselector.example.com", "v1", "BadSelector", usualScale, `{"replicas":2}`, `{"replicas":2,"selector":"app in ("}`, "2", "AbleToScale=False/FailedGetScale"},
}

func (d *defined) name() string     { return strings.ToLower(d.kind) }
func (d *defined) resource() string { return d.name() + "s." + d.group }

// define makes the definition.
func (d *defined) define(t *testing.T, c *kubetest.Cluster) {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s}
spec:
  group: %s
  scope: Namespaced
  names: {plural: %ss, singular: %[3]s, kind: %s}
  versions:
  - name: %s
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: %s
`, d.resource(), d.group, d.name(), d.kind, d.version, d.subresources))
	c.AwaitKind(t, d.resource())
}

// create makes the object.
func (d *defined) create(t *testing.T, p *place) {
	t.Helper()
	p.c.Apply(t, fmt.Sprintf(`{"apiVersion":"%s/%s","kind":%q,"metadata":{"name":%q},"spec":%s}`, d.group, d.version, d.kind, d.name(), d.spec), "-n", p.namespace)
	if d.status != "" {
		p.c.Kubectl(t, "patch", d.resource(), d.name(), "-n", p.namespace, "--subresource=status", "--type=merge", "-p", `{"status":`+d.status+`}`)
	}
}

// Objects of other operators' kinds come to what they come to with the native controller, also where their scale lacks
// something, and when their definition is deleted and comes back.
func TestDefinitionsOfOtherOperators(t *testing.T) {
	t.Parallel()
	c := withAutoscalers(t, kubetest.Shared(t))
	for i := range definedKinds {
		definedKinds[i].define(t, c)
	}
	native, ours := newPlace(t, c, hpas, "definitions-native"), newPlace(t, c, autoscalers, "definitions-ours")
	both := []*place{native, ours}
	for _, p := range both {
		for i := range definedKinds {
			d := &definedKinds[i]
			d.create(t, p)
			c.Deployment(t, p.namespace, d.name(), 2)
			cpu(300, 6).do(p, d.name())
			spec := basic(d.name())
			spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: d.group + "/" + d.version, Kind: d.kind, Name: d.name()}
			p.add(d.name(), spec)
		}
		for _, leader := range []string{"leader-0", "leader-1"} {
			c.Apply(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"app":"leaderworkerset","worker-index":"0"}},
				"spec":{"containers":[{"name":"main","image":"none","resources":{"requests":{"cpu":"100m"}}}]}}`, leader), "-n", p.namespace)
		}
	}
	startAgent(t, c, ours.namespace, service.Start(t), "--source=autoscaler")
	comesTo := func(p *place, d *defined, replicas, condition string) {
		t.Helper()
		p.awaitCondition(d.name(), condition)
		await(t, replicas+" replicas of "+d.kind, func() string {
			got, err := c.TryKubectl("", "get", d.resource(), d.name(), "-n", p.namespace, "-o=jsonpath={.spec.replicas}")
			if err != nil || got != replicas {
				return fmt.Sprint(got, err)
			}
			return ""
		})
	}
	for i := range definedKinds {
		d := &definedKinds[i]
		for _, p := range both {
			comesTo(p, d, d.replicas, d.able)
		}
		of := autoscalingv2.HorizontalPodAutoscalerConditionType(d.able[:strings.IndexByte(d.able, '=')])
		if a, b := native.condition(d.name(), of), ours.condition(d.name(), of); a != b {
			t.Errorf("%s: the native controller says\n%s\nthe agent\n%s", d.kind, a, b)
		}
	}
	rollout := &definedKinds[0]
	c.Kubectl(t, "delete", "crd", rollout.resource(), "--wait=true")
	for _, p := range both {
		p.awaitCondition(rollout.name(), "AbleToScale=False/FailedGetScale")
	}
	rollout.define(t, c)
	for _, p := range both {
		rollout.create(t, p)
		comesTo(p, rollout, "6", "AbleToScale=True")
	}
}
