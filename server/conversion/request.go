//go:build !js

package conversion

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// Input reads a request: it applies the API's defaults, parses quantities, and assigns
// readings to the metrics of the spec. options apply where the request sets none. The
// violations list everything that could not be read; with any of them the input must
// not be used. The input shares strings with the request, nothing else.
func Input(req *setpointv1.RecommendRequest, options recommender.Options) (*recommender.Input, []validation.Violation) {
	in, violations, _ := InputWithin(context.Background(), req, options, nil)
	return in, violations
}

// TooMuch is the resource of which a request needs too much; 0: none.
type TooMuch uint8

const (
	// SelectorTerms means that all selectors together have too many requirements and values, or too many
	// series must be compared with them.
	SelectorTerms TooMuch = iota + 1
	// Copies means that too many readings belong to several metrics each.
	Copies
)

// InputWithin is Input with a context and a budget. If tooMuch is set, or the context
// is over, the input must not be used.
func InputWithin(ctx context.Context, req *setpointv1.RecommendRequest, options recommender.Options, budget *cost.Budget) (*recommender.Input, []validation.Violation, TooMuch) {
	r := &requestReader{reader: reader{noting: req.GetExplain()}, budget: budget, ctx: ctx}
	name, _ := target.Parse(req.GetTarget())
	in := &recommender.Input{
		Namespace: name.Namespace,
		Options:   r.options(req.GetOptions(), options),
		Explain:   req.GetExplain(),

		Generation:    req.GetGeneration(),
		HasGeneration: req != nil && req.Generation != nil,
	}
	r.spec(&in.Spec, req.GetSpec())
	if in.Spec.ScaleTargetRef == (recommender.ObjectReference{}) {
		in.Spec.ScaleTargetRef = recommender.ObjectReference{Kind: unnamedKind, Name: name.Target}
	}
	r.scale(in, req)
	in.Pods = r.pods(req.GetPods())
	in.PodMetrics = r.podMetrics(req.GetPodMetrics())
	if r.ended() {
		return in, r.violations, 0
	}
	in.Readings = r.readings(in, req)
	if req.GetPreviousStatus() != nil {
		in.PreviousStatus = r.status(req.GetPreviousStatus())
	}
	if r.unnoted > 0 {
		r.notes = append(r.notes, fmt.Sprintf("%d more remarks like these are left out", r.unnoted))
	}
	in.Notes = r.notes
	return in, r.violations, r.tooMuch
}

// requestReader reads the parts of requests other than spec and options.
type requestReader struct {
	reader
	// budget limits the cost of reading, nil: unlimited; tooMuch is what exceeded it.
	budget  *cost.Budget
	tooMuch TooMuch
	// ctx is the context of the waiting caller.
	ctx context.Context
}

// ended reports whether the caller has gone.
func (r *requestReader) ended() bool { return r.ctx.Err() != nil }

func (r *requestReader) quantity(s string, place func() string) quantity.Quantity {
	q, err := quantity.Parse(s)
	switch {
	case err != nil:
		r.refuseQuantity(place(), s, err)
	case !q.InRange():
		r.noteRange(place(), s, q.Milli())
	}
	return q
}

func (r *requestReader) time(t *timestamppb.Timestamp, place func() string) time.Time {
	if t == nil {
		return time.Time{}
	}
	if !t.IsValid() {
		r.refuse(place(), fmt.Sprintf("Invalid value: %d s %d ns: must be between the years 1 and 9999", t.GetSeconds(), t.GetNanos()))
		return time.Time{}
	}
	return t.AsTime()
}

// scale reads replica counts, and the problems that made them or the pods unknown.
func (r *requestReader) scale(in *recommender.Input, req *setpointv1.RecommendRequest) {
	if e := req.GetScaleError(); e != nil {
		in.ScaleError = &recommender.ScaleError{Reason: scaleErrorReasons[e.GetReason()], Message: e.GetMessage()}
	} else if req.GetScale() == nil {
		r.refuse("scale", "Required value: must have the workload's replicas, unless scaleError says why they are unknown")
		return
	}
	s := req.GetScale()
	in.Scale = recommender.Scale{SpecReplicas: s.GetSpecReplicas(), StatusReplicas: s.GetSpecReplicas()}
	if s != nil && s.StatusReplicas != nil {
		in.Scale.StatusReplicas = s.GetStatusReplicas()
	}
	in.SelectorProblem = selectorProblem(req)
}

var scaleErrorReasons = map[string]recommender.ScaleErrorReason{
	"InvalidAPIVersion": recommender.ScaleInvalidAPIVersion,
	"UnknownKind":       recommender.ScaleUnknownKind,
}

// selectorProblem returns the problem that the caller reports, or that its selector
// has.
func selectorProblem(req *setpointv1.RecommendRequest) *recommender.SelectorProblem {
	selector := req.GetScale().GetSelector()
	p := req.GetSelectorProblem()
	if p == nil {
		if err := parseSelector(selector); err != nil {
			return &recommender.SelectorProblem{Reason: recommender.InvalidSelector, Message: err.Error()}
		}
		return nil
	}
	return &recommender.SelectorProblem{
		Reason: recommender.SelectorReason(p.GetReason()), Message: p.GetMessage(),
		Selector: selector, Autoscalers: p.GetAutoscalers(),
	}
}
