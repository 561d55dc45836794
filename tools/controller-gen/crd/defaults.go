package main

import apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// The defaults of autoscaling/v2. A schema can't express two things: an empty list of
// metrics means the default, too, which the agent handles; and scaleDown has no default
// window, which is a setting of the service.
const (
	defaultMetrics = `[{"type":"Resource","resource":{"name":"cpu",` +
		`"target":{"type":"Utilization","averageUtilization":80}}}]`
	defaultUpPolicies = `[{"type":"Pods","value":4,"periodSeconds":15},` +
		`{"type":"Percent","value":100,"periodSeconds":15}]`
	defaultDownPolicies = `[{"type":"Percent","value":100,"periodSeconds":15}]`
)

// addDefaults adds the defaults. A direction's apply if behavior is set, and its
// fields' if the direction is set.
func addDefaults(root *schema) error {
	for _, field := range []struct{ path, value string }{
		{"spec.minReplicas", `1`},
		{"spec.metrics", defaultMetrics},
		{"spec.behavior.scaleUp", `{}`},
		{"spec.behavior.scaleUp.stabilizationWindowSeconds", `0`},
		{"spec.behavior.scaleUp.selectPolicy", `"Max"`},
		{"spec.behavior.scaleUp.policies", defaultUpPolicies},
		{"spec.behavior.scaleDown", `{}`},
		{"spec.behavior.scaleDown.selectPolicy", `"Max"`},
		{"spec.behavior.scaleDown.policies", defaultDownPolicies},
	} {
		value := &apiextensionsv1.JSON{Raw: []byte(field.value)}
		if err := at(root, field.path, func(s *schema) { s.Default = value }); err != nil {
			return err
		}
	}
	return nil
}
