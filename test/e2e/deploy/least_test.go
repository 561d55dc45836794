//go:build linux

package deploy

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// template is a pod template of the manifests.
type template struct {
	name     string
	replicas int32
	corev1.PodTemplateSpec
}

// templates returns those of Deployments and StatefulSets.
func templates(t *testing.T, manifests string) []template {
	t.Helper()
	var found []template
	for _, d := range objects[appsv1.Deployment](t, manifests, "Deployment") {
		found = append(found, template{d.Name, *d.Spec.Replicas, d.Spec.Template})
	}
	for _, s := range objects[appsv1.StatefulSet](t, manifests, "StatefulSet") {
		found = append(found, template{s.Name, *s.Spec.Replicas, s.Spec.Template})
	}
	return found
}

// podsMayDoLeast checks what the API server does not enforce, even for restricted pods.
func podsMayDoLeast(t *testing.T, manifests string) {
	policies := objects[networkingv1.NetworkPolicy](t, manifests, "NetworkPolicy")
	budgets := objects[policyv1.PodDisruptionBudget](t, manifests, "PodDisruptionBudget")
	all := templates(t, manifests)
	if len(all) != 3 {
		t.Fatalf("%d templates of pods", len(all))
	}
	for i := range all {
		pod := &all[i]
		check := func(what string, good bool) {
			t.Helper()
			if !good {
				t.Errorf("%s: %s", pod.name, what)
			}
		}
		account := pod.Spec.AutomountServiceAccountToken
		check("only the agent has a token of the API server", account != nil && *account == (pod.name == "setpoint-agent"))
		check("it is an account of its own", pod.Spec.ServiceAccountName == pod.name)
		check("no user is named", pod.Spec.SecurityContext != nil && *pod.Spec.SecurityContext.RunAsNonRoot && *pod.Spec.SecurityContext.RunAsUser > 0)
		check("it has no seccomp profile", pod.Spec.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault)
		for _, container := range pod.Spec.Containers {
			containerMayDoLeast(check, &container)
		}
		covered := false
		for _, policy := range policies {
			covered = covered || selects(t, &policy.Spec.PodSelector, pod) && len(policy.Spec.PolicyTypes) == 2
		}
		check("no NetworkPolicy for both directions", covered)
		covered = pod.replicas < 2
		for _, budget := range budgets {
			covered = covered || selects(t, budget.Spec.Selector, pod)
		}
		check("no PodDisruptionBudget", covered)
	}
}

func containerMayDoLeast(check func(string, bool), c *corev1.Container) {
	security := c.SecurityContext
	check("its files may be written", *security.ReadOnlyRootFilesystem)
	check("it may gain rights", !*security.AllowPrivilegeEscalation)
	check("it keeps capabilities", len(security.Capabilities.Drop) == 1 && security.Capabilities.Drop[0] == "ALL" && security.Capabilities.Add == nil)
	requests := c.Resources.Requests
	check("it requests nothing", !requests.Cpu().IsZero() && !requests.Memory().IsZero())
	check("its memory has no limit", c.Resources.Limits.Memory().Cmp(*requests.Memory()) >= 0)
	check("a probe is missing", c.StartupProbe != nil && c.LivenessProbe != nil && c.ReadinessProbe != nil)
}

func selects(t *testing.T, selector *metav1.LabelSelector, pod *template) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	fatal.If(t, err)
	return s.Matches(labels.Set(pod.Labels))
}
