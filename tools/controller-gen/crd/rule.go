package main

import apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

// rule is a CEL rule of a node, with the API server's words for the same rule of a
// HorizontalPodAutoscaler.
type rule struct {
	cel     string
	message string
	// dynamic is an expression that replaces the message.
	dynamic string
	// field is the field of the message, relative to the node: ".averageValue".
	field  string
	reason apiextensionsv1.FieldValueErrorReason
}

const (
	required  = apiextensionsv1.FieldValueRequired
	forbidden = apiextensionsv1.FieldValueForbidden
)

func (r rule) validation() apiextensionsv1.ValidationRule {
	out := apiextensionsv1.ValidationRule{
		Rule: r.cel, Message: r.message, MessageExpression: r.dynamic, FieldPath: r.field,
	}
	if r.reason != "" {
		out.Reason = &r.reason
	}
	return out
}

// addTo adds rules to a node.
func addTo(rules ...rule) func(*schema) {
	return func(s *schema) {
		for _, r := range rules {
			s.XValidations = append(s.XValidations, r.validation())
		}
	}
}
