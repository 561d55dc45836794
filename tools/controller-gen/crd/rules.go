package main

import "slices"

// The order follows validation.go of k8s.io/kubernetes/pkg/apis/autoscaling/validation,
// v1.36.3, with its default feature gates.

// addRules adds the rules for spec.
func addRules(root *schema) error {
	for _, rules := range []struct {
		path  string
		rules []rule
	}{
		{"spec", specRules()},
		{"spec.maxReplicas", []rule{
			{cel: "self != 0", message: "must be set and greater than 0", reason: required},
			{cel: "self >= 0", message: "must be greater than or equal to 1"},
		}},
		{"spec.scaleTargetRef", slices.Concat(referenceRules(), []rule{{
			// ReplicationController is the only scalable kind of the core group. The other
			// rule handles more than one slash.
			cel: "self.kind == 'ReplicationController' || " +
				"(has(self.apiVersion) && (self.apiVersion.indexOf('/') > 0 || self.apiVersion.split('/').size() > 2))",
			message: "apiVersion must specify API group", field: ".apiVersion",
		}})},
		{"spec.scaleTargetRef.kind", segmentRules("")},
		{"spec.scaleTargetRef.name", segmentRules("")},
		{"spec.options.tolerance", toleranceRules()},
	} {
		if err := at(root, rules.path, addTo(rules.rules...)); err != nil {
			return err
		}
	}
	if err := addMetricRules(root); err != nil {
		return err
	}
	return addBehaviorRules(root)
}

// toleranceRules are the rules for the tolerance of options, which no
// HorizontalPodAutoscaler has.
func toleranceRules() []rule {
	rules := quantityRules("!self.isLessThan(quantity('0'))", `must be greater than or equal to 0, such as "0.1" for 10 %`)
	rules[0].message = `must be a number or a quantity, in quotes: "0.1" or "100m" for 10 %`
	return rules
}

// specRules are the rules between fields.
func specRules() []rule {
	return []rule{
		{
			cel: "!has(self.minReplicas) || self.minReplicas >= 1 || (self.minReplicas == 0 && " +
				"has(self.options) && has(self.options.scaleToZero) && self.options.scaleToZero)",
			message: "must be greater than or equal to 1; 0 needs options.scaleToZero", field: ".minReplicas",
		},
		{
			cel:     "!has(self.minReplicas) || self.maxReplicas >= self.minReplicas",
			message: "must be greater than or equal to `minReplicas`", field: ".maxReplicas",
		},
		{
			cel: "!has(self.minReplicas) || self.minReplicas != 0 || " +
				"(has(self.metrics) && self.metrics.exists(m, m.type == 'Object' || m.type == 'External'))",
			message: "must specify at least one Object or External metric to support scaling to zero replicas",
			field:   ".metrics", reason: forbidden,
		},
	}
}

// referenceRules are the rules for the apiVersion of a reference.
func referenceRules() []rule {
	return []rule{{
		cel:     "!has(self.apiVersion) || self.apiVersion.split('/').size() <= 2",
		dynamic: "'unexpected GroupVersion string: ' + self.apiVersion", message: "unexpected GroupVersion string",
		field: ".apiVersion",
	}}
}

// segmentRules are the rules for a name that becomes a segment of a URL. missing is the
// message for an empty one.
func segmentRules(missing string) []rule {
	return []rule{
		nonEmpty(missing),
		{cel: "self != '.' && self != '..'", dynamic: `"may not be '" + self + "'"`, message: "may not be '.' or '..'"},
		{cel: "!self.contains('/')", message: "may not contain '/'"},
		{cel: "!self.contains('%')", message: "may not contain '%'"},
	}
}

func nonEmpty(missing string) rule {
	if missing == "" {
		// A rule needs a message; the API server only has "Required value".
		missing = "must be set"
	}
	return rule{cel: "self != ''", message: missing, reason: required}
}
