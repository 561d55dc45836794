package validation

import "google.golang.org/protobuf/types/known/timestamppb"

// Violation is one broken rule.
type Violation struct {
	// Field is the path of the field from the request on, in JSON names, for
	// example `spec.metrics[0].resource.target.averageUtilization` or
	// `pods[3].containers[0].requests["cpu"]`. Empty: the message as a whole.
	Field string
	// Description says what is wrong, without the field, for example
	// "Invalid value: 0: must be greater than 0".
	Description string
}

// MostViolations limits the violations of one request. People do not read more, and a
// request may be wrong in every element.
const MostViolations = 100

// More follows MostViolations violations in place of the omitted ones.
var More = Violation{Description: "there is more that is wrong; only the first violations are listed"}

// String returns field and description as one line.
func (v Violation) String() string {
	if v.Field == "" {
		return v.Description
	}
	return v.Field + ": " + v.Description
}

// Distinct returns the violations without repetitions, in their order. The API server
// reports some rules twice, and so does Spec; people need to read them once.
func Distinct(violations []Violation) []Violation {
	seen := make(map[Violation]bool, len(violations))
	var distinct []Violation
	for _, v := range violations {
		if !seen[v] {
			seen[v] = true
			distinct = append(distinct, v)
		}
	}
	return distinct
}

// Instant returns what is wrong with a time that a message may have; nil is right.
func Instant(field string, t *timestamppb.Timestamp) []Violation {
	if t == nil || t.IsValid() {
		return nil
	}
	return []Violation{{field, "Invalid value: must be an instant of the years 1 to 9999"}}
}
