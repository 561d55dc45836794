package requests

import (
	"context"
	"fmt"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/stages"
)

// Evaluation times that fit the history's nanoseconds, with a margin for windows.
var (
	earliestEvaluation = time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)
	latestEvaluation   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// readRequest converts a request to the recommender's input and the stages around it, or returns
// INVALID_ARGUMENT with all violations.
func readRequest(ctx context.Context, req *setpointv1.RecommendRequest, defaults recommender.Options, now time.Time, anyTime bool, budget *cost.Budget) (*recommender.Input, stages.Around, error) {
	var around stages.Around
	violations := validation.Structure(req)
	if err := apierror.OfContext(ctx); err != nil {
		return nil, around, err
	}
	input, unreadable, tooMuch := conversion.InputWithin(ctx, req, defaults, budget)
	if err := apierror.OfContext(ctx); err != nil {
		return nil, around, err
	}
	if err := apierror.OverBudget(tooMuch); err != nil {
		return nil, around, err
	}
	violations = append(violations, validation.Spec(req.GetSpec(), validation.SpecOptions{ScaleToZero: input.Options.ScaleToZero})...)
	violations = append(violations, unreadable...)
	violations = append(violations, evaluationTime(req, anyTime)...)
	violations = append(violations, asMember(req)...)
	var staged []validation.Violation
	if conversion.Staged(req) {
		if req.GetEvaluationTime().IsValid() {
			now = req.GetEvaluationTime().AsTime()
		}
		around, staged = conversion.Around(req, input, now)
		violations = append(violations, staged...)
	}
	if err := apierror.Invalid(violations); err != nil {
		return nil, around, err
	}
	if !budget.Memory(conversion.Weight(input)) {
		return nil, around, apierror.OverMemory("spec")
	}
	return input, around, nil
}

// asMember returns what is wrong with a request of a member of a fleet.
func asMember(req *setpointv1.RecommendRequest) (violations []validation.Violation) {
	if req.GetFleet() == "" {
		return nil
	}
	switch _, named := target.Parse(req.GetFleet()); {
	case !named:
		violations = append(violations, validation.Violation{Field: "fleet", Description: "Invalid value: must be clusters/{cluster}/namespaces/{namespace}/targets/{target}"})
	case req.GetFleet() == req.GetTarget():
		violations = append(violations, validation.Violation{Field: "fleet", Description: "Invalid value: a fleet is no member of itself"})
	}
	if len(req.GetProposals()) > 0 {
		violations = append(violations, validation.Violation{Field: "proposals", Description: "Forbidden: a fleet decides by its own metrics, and its members propose nothing; bound a member by its spec or an override"})
	}
	return violations
}

func evaluationTime(req *setpointv1.RecommendRequest, allowed bool) []validation.Violation {
	t := req.GetEvaluationTime()
	var problem string
	switch {
	case t == nil:
		return nil
	case !allowed:
		problem = "Forbidden: this server decides by its own clock (it was not started with --allow-evaluation-time)"
	case !t.IsValid(), !fits(t.AsTime()):
		problem = fmt.Sprintf("Invalid value: must be between %s and %s", earliestEvaluation.Format(time.RFC3339), latestEvaluation.Format(time.RFC3339))
	default:
		return nil
	}
	return []validation.Violation{{Field: "evaluationTime", Description: problem}}
}

// fits reports whether a history can store that evaluation time.
func fits(t time.Time) bool { return !t.Before(earliestEvaluation) && !t.After(latestEvaluation) }
