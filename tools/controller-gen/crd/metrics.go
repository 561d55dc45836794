package main

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const metric = "spec.metrics.[]"

// source is a field of a metric, which a type requires.
type source struct{ metricType, field string }

var sources = []source{
	{"ContainerResource", "containerResource"},
	{"External", "external"},
	{"Object", "object"},
	{"Pods", "pods"},
	{"Resource", "resource"},
}

func addMetricRules(root *schema) error {
	var types []string
	for _, s := range sources {
		types = append(types, s.metricType)
	}
	if err := at(root, metric+".type", oneOf(types...)); err != nil {
		return err
	}
	if err := at(root, metric, addTo(sourceRules()...)); err != nil {
		return err
	}
	for _, rules := range []struct {
		path  string
		rules []rule
	}{
		{".object.describedObject", referenceRules()},
		{".object.describedObject.kind", segmentRules("")},
		{".object.describedObject.name", segmentRules("")},
		{".object.metric.name", segmentRules("must specify a metric name")},
		{".object.target", []rule{eitherValue("must set either a target value or averageValue")}},
		{".external.metric.name", segmentRules("must specify a metric name")},
		{".external.target", []rule{
			eitherValue("must set either a target value for metric or a per-pod target"),
			{
				cel:     "!(has(self.value) && has(self.averageValue))",
				message: "may not set both a target value for metric and a per-pod target",
				field:   ".value", reason: forbidden,
			},
		}},
		{".pods.metric.name", segmentRules("must specify a metric name")},
		{".pods.target", []rule{{
			cel: "has(self.averageValue)", message: "must specify a positive target averageValue",
			field: ".averageValue", reason: required,
		}}},
		{".resource.name", []rule{nonEmpty("must specify a resource name")}},
		{".resource.target", resourceTargetRules()},
		{".containerResource.name", resourceNameRules()},
		{".containerResource.container", []rule{
			nonEmpty("must specify a container"),
			{
				cel: "self == '' || self.matches('^" + dnsLabel + "$')",
				message: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', " +
					"and must start and end with an alphanumeric character",
			},
		}},
		{".containerResource.target", resourceTargetRules()},
	} {
		if err := at(root, metric+rules.path, addTo(rules.rules...)); err != nil {
			return err
		}
	}
	return addTargetRules(root)
}

// addTargetRules adds the rules for each field of a target.
func addTargetRules(root *schema) error {
	for _, s := range sources {
		target := metric + "." + s.field + ".target"
		for field, rules := range map[string][]rule{
			".type": {
				nonEmpty("must specify a metric target type"),
				{
					cel:     "self in ['Utilization', 'Value', 'AverageValue']",
					message: "must be either Utilization, Value, or AverageValue",
				},
			},
			".value":              quantityRules("self.isGreaterThan(quantity('0'))", "must be positive"),
			".averageValue":       quantityRules("self.isGreaterThan(quantity('0'))", "must be positive"),
			".averageUtilization": {{cel: "self >= 1", message: "must be greater than 0"}},
		} {
			if err := at(root, target+field, addTo(rules...)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sourceRules require that a metric has the source that its type names, and no other.
// For a single wrong source they report only the missing one.
func sourceRules() []rule {
	var rules []rule
	for _, s := range sources {
		rules = append(rules, rule{
			cel:     fmt.Sprintf("self.type != '%s' || has(self.%s)", s.metricType, s.field),
			message: "must populate information for the given metric source",
			field:   "." + s.field, reason: required,
		})
	}
	for _, s := range sources {
		var others []string
		for _, other := range sources {
			if other != s {
				others = append(others, "has(self."+other.field+")")
			}
		}
		rules = append(rules, rule{
			cel: fmt.Sprintf("self.type == '%s' || !has(self.%s) || !(%s)",
				s.metricType, s.field, strings.Join(others, " || ")),
			message: "must populate the given metric source only",
			field:   "." + s.field, reason: forbidden,
		})
	}
	return rules
}

func eitherValue(message string) rule {
	return rule{
		cel:     "has(self.value) || has(self.averageValue)",
		message: message, field: ".averageValue", reason: required,
	}
}

func resourceTargetRules() []rule {
	return []rule{
		{
			cel:     "has(self.averageUtilization) || has(self.averageValue)",
			message: "must set either a target raw value or a target utilization",
			field:   ".averageUtilization", reason: required,
		},
		{
			cel:     "!(has(self.averageUtilization) && has(self.averageValue))",
			message: "may not set both a target raw value and a target utilization",
			field:   ".averageValue", reason: forbidden,
		},
	}
}

// oneOf allows only these values. The API server words errors of an enum like its own
// lists of supported values.
func oneOf(values ...string) func(*schema) {
	slices.Sort(values)
	return func(s *schema) {
		for _, value := range values {
			s.Enum = append(s.Enum, apiextensionsv1.JSON{Raw: []byte(`"` + value + `"`)})
		}
	}
}
