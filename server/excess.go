package server

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/cost"
)

// recommendTables are those by which requests are looked over before they are decoded.
var recommendTables = cost.Of((&setpointv1.RecommendRequest{}).ProtoReflect().Descriptor())

// costLimits are the settings that bound lists.
func (o *Options) costLimits() cost.Limits {
	return cost.Limits{Pods: o.MaxPods, Metrics: o.MaxMetrics, Batch: o.MaxBatch}
}

// excessive refuses a message of which there is too much.
func excessive(e *cost.Excess) error {
	switch {
	case e.Kind == cost.Memory:
		return overMemory(e.Path())
	case e.Limit != "":
		return overLimit(e.Limit, e.Most, fmt.Sprintf("%s has more elements than this server takes in one request: at most %d", e.Path(), e.Most))
	}
	return invalidField(e.Path(), fmt.Sprintf("must contain no more than %d item(s)", e.Most))
}

// overMemory refuses what would take much more memory than it has bytes.
func overMemory(path string) error {
	return overCost("memory", fmt.Sprintf("the request would take much more memory than it has bytes, seen at %q: leave out elements that are empty, "+
		"shorten names that are very long, or send fewer requests at once", clip(path)))
}

// overBudget refuses what would take too long to read; nil for nothing.
func overBudget(much conversion.TooMuch) error {
	switch much {
	case conversion.SelectorTerms:
		return overCost("selectorTerms", "the selectors have too many requirements and values for a message of this size, "+
			"or too many series without metric.selector are to be compared with them: set metric.selector in each series, or send fewer")
	case conversion.Copies:
		return overCost("readings", "too many readings belong to more than one metric of the spec each: send fewer readings or metrics")
	}
	return nil
}

// tooManyEvaluations refuses what would take too long to decide.
func tooManyEvaluations() error {
	return overCost("evaluations", "too many metrics look at each of the pods and samples for a message of this size: send fewer metrics, or fewer requests at once")
}

// overCost refuses what costs more than its size allows. No setting raises that.
func overCost(limit, message string) error {
	return newError(codes.ResourceExhausted, setpointv1.ErrorReason_ERROR_REASON_LIMIT_EXCEEDED, message, "limit", limit)
}

// waitedFor is the error of a call that nobody waits for any more, or whose time is up.
func waitedFor(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

// checkJSON refuses a body of which the message would take too much memory.
func checkJSON(body []byte, message protoreflect.MessageDescriptor) error {
	if excess := cost.Of(message).JSON(body, cost.BudgetOf(len(body))); excess != nil {
		return excessive(excess)
	}
	return nil
}

// isRefusal reports whether an error of reading a body is an answer already.
func isRefusal(err error) bool {
	_, is := status.FromError(err)
	return err != nil && is
}
