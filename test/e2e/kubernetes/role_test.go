//go:build linux

package kubernetes

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// leastRules are the permissions that deploy/ gives the agent, whatever its source.
func leastRules(t testing.TB) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, path := range [][]string{{"agent", "roles.yaml"}, {"agent", "election.yaml"}, {"components", "hpa", "roles.yaml"}} {
		manifests := file(t, append([]string{"deploy", "kustomize"}, path...)...)
		for _, manifest := range strings.Split(manifests, "\n---\n") {
			var role rbacv1.ClusterRole
			must(t, utilyaml.Unmarshal([]byte(manifest), &role))
			if role.Kind == "ClusterRole" || role.Kind == "Role" {
				rules = append(rules, role.Rules...)
			}
		}
	}
	return rules
}
