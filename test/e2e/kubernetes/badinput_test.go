//go:build linux

package kubernetes

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// Problems of a cluster, or of its objects, become conditions with a plain reason; nothing is
// scaled, and the agent goes on.

func TestBadInputNoMetricsAPIs(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t, kubetest.Config{WithoutMetrics: true})
	p := newPlace(t, c, hpas, "bare")
	a := startAgent(t, c, p.namespace, service.Start(t), "--source=hpa")
	for name, spec := range map[string]struct {
		scene scene
		want  string
	}{
		"cpu":      {scene{spec: basic}, "ScalingActive=False/FailedGetResourceMetric: the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource"},
		"external": {scene{spec: metric(external(value("10")))}, "ScalingActive=False/FailedGetExternalMetric: the HPA was unable to compute the replica count: unable to get external metric"},
		"object":   {scene{spec: metric(object(value("10")))}, "ScalingActive=False/FailedGetObjectMetric: the HPA was unable to compute the replica count: unable to get metric requests"},
	} {
		c.Deployment(t, p.namespace, name, 2)
		p.awaitReplicas(name, 2)
		p.add(name, spec.scene.spec(name))
		p.awaitCondition(name, spec.want)
		p.awaitReplicas(name, 2)
	}
	a.stop()
}

func TestBadInputForbiddenVerbs(t *testing.T) {
	t.Parallel()
	c := kubetest.SharedWithoutNative(t)
	s := service.Start(t)
	for _, one := range []struct{ name, resource, verb, want string }{
		{"read the scale", "*/scale", "get", "AbleToScale=False/FailedGetScale: the HPA controller was unable to get the target's current scale: deployments.apps \"web\" is forbidden"},
		{"write the scale", "*/scale", "update", "AbleToScale=False/FailedUpdateScale: the HPA controller was unable to update the target scale: deployments.apps \"web\" is forbidden"},
		{"read metrics", "pods", "list metrics.k8s.io", "ScalingActive=False/FailedGetResourceMetric: the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: pods.metrics.k8s.io is forbidden"},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, c, hpas, "forbidden")
			c.Deployment(t, p.namespace, app, 2)
			cpu(300, 2).do(p, app)
			p.awaitReplicas(app, 2)
			p.add(app, basic(app))
			a := newAgent(t, c, p.namespace, s, "--source=hpa")
			verb, group, _ := strings.Cut(one.verb, " ")
			c.Grant(t, a.account, without(leastRules(t), func(rule rbacv1.PolicyRule) bool {
				return rule.Resources[0] == one.resource && (group == "" || rule.APIGroups[0] == group)
			}, verb)...)
			a.start()
			a.awaitReady()
			p.awaitCondition(app, one.want)
			time.Sleep(2 * syncPeriod)
			if got := p.replicas(app); got != 2 {
				t.Errorf("%d replicas, want 2", got)
			}
			// With the right it goes on.
			c.Grant(t, a.account, leastRules(t)...)
			p.awaitReplicas(app, 6)
		})
	}
}

// without returns the rules without a verb in those that match.
func without(rules []rbacv1.PolicyRule, match func(rbacv1.PolicyRule) bool, verb string) []rbacv1.PolicyRule {
	var kept []rbacv1.PolicyRule
	for _, rule := range rules {
		rule = *rule.DeepCopy()
		if match(rule) {
			rule.Verbs = slices.DeleteFunc(rule.Verbs, func(v string) bool { return v == verb })
		}
		if len(rule.Verbs) > 0 {
			kept = append(kept, rule)
		}
	}
	return kept
}

func TestBadInputASelectorThatMatchesAnothersPods(t *testing.T) {
	t.Parallel()
	native := newPlace(t, kubetest.Shared(t), hpas, "overlap")
	ours := newPlace(t, withAutoscalers(t, kubetest.Shared(t)), autoscalers, "overlap")
	startAgent(t, ours.c, ours.namespace, service.Start(t), "--source=autoscaler")
	for _, p := range []*place{native, ours} {
		two := int32(2)
		for _, name := range []string{"one", "other"} {
			_, err := p.c.Client().AppsV1().Deployments(p.namespace).Create(context.Background(), &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       appsv1.DeploymentSpec{Replicas: &two, Selector: kubetest.Selector(app), Template: kubetest.PodTemplate(app)},
			}, metav1.CreateOptions{})
			must(t, err)
			p.awaitReplicas(name, 2)
		}
		cpu(600, 2).do(p, app)
		for _, name := range []string{"one", "other"} {
			p.add(name, basic(name))
		}
	}
	for _, p := range []*place{native, ours} {
		for _, name := range []string{"one", "other"} {
			p.awaitCondition(name, "ScalingActive=False/AmbiguousSelector: pods by selector app=web are controlled by multiple HPAs: [")
		}
	}
}
