package restjson

import "google.golang.org/protobuf/reflect/protoreflect"

// quantityFields are the fields of requests with Kubernetes quantities: strings, lists
// of strings, and maps with string values. Kubernetes reads a JSON number there as the
// quantity with these digits, and so do we.
var quantityFields = map[protoreflect.FullName]bool{
	// The spec, and a previous status.
	"setpoint.v1.MetricTarget.value":              true,
	"setpoint.v1.MetricTarget.average_value":      true,
	"setpoint.v1.HPAScalingRules.tolerance":       true,
	"setpoint.v1.MetricValueStatus.value":         true,
	"setpoint.v1.MetricValueStatus.average_value": true,
	// Observations.
	"setpoint.v1.Container.requests":            true,
	"setpoint.v1.InitContainer.requests":        true,
	"setpoint.v1.ResourceRequirements.requests": true,
	"setpoint.v1.Pod.overhead":                  true,
	"setpoint.v1.ContainerMetrics.usage":        true,
	"setpoint.v1.CustomMetric.value":            true,
	"setpoint.v1.ExternalMetric.value":          true,
	// Options and simulations.
	"setpoint.v1.RecommendOptions.tolerance":       true,
	"setpoint.v1.SimulatedWorkload.usage_per_load": true,
	"setpoint.v1.SimulatedWorkload.idle_usage":     true,
}

// isQuantity reports whether a field, or the elements of a list or map field, are
// quantities.
func isQuantity(fd protoreflect.FieldDescriptor) bool {
	return quantityFields[fd.FullName()]
}

// quoted returns data with each of numbers, which are in the order of data, turned into
// a string. It keeps the digits: "0.10" and 1e3 are not rewritten.
func quoted(data []byte, numbers []span) []byte {
	result := make([]byte, 0, len(data)+2*len(numbers))
	copied := 0
	for _, number := range numbers {
		result = append(result, data[copied:number.start]...)
		result = append(result, '"')
		result = append(result, number.of(data)...)
		result = append(result, '"')
		copied = number.end
	}
	return append(result, data[copied:]...)
}
