package main

import apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// loosenSelectors removes all requirements from label selectors: in autoscaling/v2
// nothing checks them before the controller does, and null among their values means an
// empty one.
func loosenSelectors(root *schema) error {
	empty, nothing := &apiextensionsv1.JSON{Raw: []byte(`""`)}, &apiextensionsv1.JSON{Raw: []byte(`{}`)}
	walk(root, func(s *schema) {
		if labels, ok := s.Properties["matchLabels"]; ok {
			labels.AdditionalProperties.Schema.Default = empty
			s.Properties["matchExpressions"].Items.Schema.Default = nothing
		}
		if values, ok := s.Properties["values"]; ok {
			s.Required = nil
			values.Items.Schema.Default = empty
		}
	})
	return nil
}
