package main

import apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// addFallback adds what KEP-5679 adds to external metrics, with its limits: the types of no release of
// Kubernetes have it. The package's types read it as one of spec.stages.fallbacks.
func addFallback(root *schema) error {
	bound := func(n float64) *float64 { return &n }
	return at(root, metric+".external", func(s *schema) {
		s.Properties["fallback"] = schema{
			Type:        "object",
			Description: "fallback is what the metric proposes once it has failed for a while, as KEP-5679 has it. It counts as one of stages.fallbacks and can't be set beside one for the same metric.",
			Required:    []string{"replicas"},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"failureDurationSeconds": {
					Type: "integer", Format: "int32", Minimum: bound(180), Maximum: bound(3600), Default: &apiextensionsv1.JSON{Raw: []byte("180")},
					Description: "failureDurationSeconds is for how long it must have failed without a success.",
				},
				"replicas": {Type: "integer", Format: "int32", Minimum: bound(1), Description: "replicas is the proposal."},
			},
		}
	})
}
