package apierror

import (
	"fmt"

	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/cost"
)

// Excessive refuses a message that has too much of something.
func Excessive(e *cost.Excess) error {
	switch {
	case e.Kind == cost.Memory:
		return OverMemory(e.Path())
	case e.Limit != "":
		return OverLimit(e.Limit, e.Most, fmt.Sprintf("%s has more elements than this server takes in one request: at most %d", e.Path(), e.Most))
	}
	return InvalidField(e.Path(), fmt.Sprintf("must contain no more than %d item(s)", e.Most))
}

// OverMemory refuses a message that would take much more memory than it has bytes.
func OverMemory(path string) error {
	return overCost("memory", fmt.Sprintf("the request would take much more memory than it has bytes, seen at %q: leave out elements that are empty, "+
		"shorten names that are very long, or send fewer requests at once", Clip(path)))
}

// OverBudget refuses a message that would take too long to read; nil if tooMuch is
// zero.
func OverBudget(much conversion.TooMuch) error {
	switch much {
	case conversion.SelectorTerms:
		return overCost("selectorTerms", "the selectors have too many requirements and values for a message of this size, "+
			"or too many series without metric.selector are to be compared with them: set metric.selector in each series, or send fewer")
	case conversion.Copies:
		return overCost("readings", "too many readings belong to more than one metric of the spec each: send fewer readings or metrics")
	}
	return nil
}

// TooManyEvaluations refuses a request that would take too long to decide.
func TooManyEvaluations() error {
	return overCost("evaluations", "too many metrics look at each of the pods and samples for a message of this size: send fewer metrics, or fewer requests at once")
}

// overCost refuses a message that costs more than its size allows. No setting raises
// this limit.
func overCost(limit, message string) error {
	return New(codes.ResourceExhausted, setpointv1.ErrorReason_ERROR_REASON_LIMIT_EXCEEDED, message, "limit", limit)
}
