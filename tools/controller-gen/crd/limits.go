package main

import "math"

// Limits that autoscaling/v2 does not have. The API server estimates the cost of rules,
// and refuses a definition with unlimited lists and texts. Kubernetes refuses longer
// names of resources and containers anyway; the others are the only values that are
// valid in a HorizontalPodAutoscaler and refused here.
const (
	maxMetrics      = 1000 // as in the service
	maxPolicies     = 100
	maxName         = 1024
	maxAPIVersion   = 512
	maxQuantity     = 1000 // as in the service
	maxResourceName = 253 + 1 + 63
	maxContainer    = 63
	maxTargetType   = 64
)

func addLimits(root *schema) error {
	if err := addListLimits(root); err != nil {
		return err
	}
	for path, length := range map[string]int64{
		"spec.scaleTargetRef.kind":                    maxName,
		"spec.scaleTargetRef.name":                    maxName,
		"spec.scaleTargetRef.apiVersion":              maxAPIVersion,
		metric + ".object.describedObject.kind":       maxName,
		metric + ".object.describedObject.name":       maxName,
		metric + ".object.describedObject.apiVersion": maxAPIVersion,
		metric + ".object.metric.name":                maxName,
		metric + ".external.metric.name":              maxName,
		metric + ".pods.metric.name":                  maxName,
		metric + ".resource.name":                     maxName,
		metric + ".containerResource.name":            maxResourceName,
		metric + ".containerResource.container":       maxContainer,
	} {
		if err := at(root, path, func(s *schema) { s.MaxLength = &length }); err != nil {
			return err
		}
	}
	for _, s := range sources {
		length := int64(maxTargetType)
		if err := at(root, metric+"."+s.field+".target.type", func(s *schema) { s.MaxLength = &length }); err != nil {
			return err
		}
	}
	walk(root, limitNumbers)
	return nil
}

func addListLimits(root *schema) error {
	metrics, policies := int64(maxMetrics), int64(maxPolicies)
	if err := at(root, "spec.metrics", func(s *schema) { s.MaxItems = &metrics }); err != nil {
		return err
	}
	for _, direction := range directions {
		if err := at(root, direction+".policies", func(s *schema) { s.MaxItems = &policies }); err != nil {
			return err
		}
	}
	return nil
}

// limitNumbers keeps numbers readable by the Go types; otherwise one invalid object would
// keep a client from listing the others.
func limitNumbers(s *schema) {
	switch {
	case s.XIntOrString:
		length := int64(maxQuantity)
		s.MaxLength = &length
		// x-kubernetes-int-or-string has the same meaning. With anyOf the API server adds
		// three more sentences to its refusal of a fraction without quotes.
		s.AnyOf = nil
		// In spec a rule refuses it, in the words of a quantity; controller-gen's pattern
		// allows texts that do not parse, such as 1e0.5.
		if len(s.XValidations) > 0 {
			s.Pattern = ""
		}
	case s.Format == "int32":
		least, most := float64(math.MinInt32), float64(math.MaxInt32)
		if s.Minimum == nil {
			s.Minimum = &least
		}
		if s.Maximum == nil {
			s.Maximum = &most
		}
	}
}

// addStatusRules adds the rules for status.
func addStatusRules(root *schema) error {
	return atEach(root, []string{"status.currentReplicas", "status.desiredReplicas"},
		addTo(rule{cel: "self >= 0", message: "must be greater than or equal to 0"}))
}
