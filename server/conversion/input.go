package conversion

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// Input reads a request: defaults of the API applied, quantities parsed, readings
// joined to the metrics of the spec. options are those that hold where the
// request sets none. The violations name all that could not be read; with any the
// input is not to be used. The input shares strings with the request, nothing else.
func Input(req *setpointv1.RecommendRequest, options recommender.Options) (*recommender.Input, []validation.Violation) {
	in, violations, _ := InputWithin(context.Background(), req, options, nil)
	return in, violations
}

// TooMuch is what a request has too much of to be read, 0: nothing.
type TooMuch uint8

const (
	// SelectorTerms says that selectors have too many requirements and values, in all, or there
	// are too many series to be compared with them.
	SelectorTerms TooMuch = iota + 1
	// Copies says that too many readings belong to several metrics each.
	Copies
)

// InputWithin is Input for a request that is read for as long as the context lasts and
// within a budget. If tooMuch is set, or the context is at its end, the input is not to
// be used.
func InputWithin(ctx context.Context, req *setpointv1.RecommendRequest, options recommender.Options, budget *cost.Budget) (*recommender.Input, []validation.Violation, TooMuch) {
	r := &reader{noting: req.GetExplain(), budget: budget, ctx: ctx}
	name, _ := target.Parse(req.GetTarget())
	in := &recommender.Input{
		Namespace: name.Namespace,
		Options:   r.options(req.GetOptions(), options),
		Explain:   req.GetExplain(),

		Incarnation:   recommender.Incarnation(req.GetTargetUid()),
		Cluster:       recommender.Cluster(req.GetClusterUid()),
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
		r.notes = append(r.notes, fmt.Sprintf("there are %d more remarks like these, left out", r.unnoted))
	}
	in.Notes = r.notes
	return in, r.violations, r.tooMuch
}

// unnamedKind stands for the kind of a workload that a request does not name, in
// texts. It is shown nowhere else.
const unnamedKind = "Target"

// reader reads messages and gathers what is wrong with them.
type reader struct {
	violations []validation.Violation
	// notes are sentences for the explanation, gathered only where noting, and unnoted
	// is how many more there would be.
	notes   []string
	unnoted int
	noting  bool
	// budget is what reading may still cost, nil: anything; tooMuch is what there was too
	// much of for it.
	budget  *cost.Budget
	tooMuch TooMuch
	// ctx is that of the caller who waits for this reader.
	ctx context.Context
}

// ended reports whether the request's caller has left.
func (r *reader) ended() bool { return r.ctx.Err() != nil }

// maxNotes bounds the sentences for the explanation: a request may be odd in every
// element.
const maxNotes = 100

// note keeps a sentence for the explanation.
func (r *reader) note(sentence func() string) {
	switch {
	case !r.noting:
	case len(r.notes) == maxNotes:
		r.unnoted++
	default:
		r.notes = append(r.notes, sentence())
	}
}

// maxQuoted bounds what a sentence quotes of a name, bytes.
const maxQuoted = 253

// clip shortens a name to what a sentence quotes of it.
func clip(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
}

func (r *reader) refuse(field, description string) {
	switch n := len(r.violations); {
	case n > validation.MostViolations:
	case n == validation.MostViolations:
		r.violations = append(r.violations, validation.More)
	default:
		r.violations = append(r.violations, validation.Violation{Field: field, Description: description})
	}
}

// milli reads a quantity as milli-units. Here and below place names the field; it
// is called only where something is to be said of it.
func (r *reader) milli(s string, place func() string) int64 {
	milli, inRange, err := quantity.ParseMilli(s)
	switch {
	case err != nil:
		r.refuseQuantity(place(), s, err)
	case !inRange:
		r.noteRange(place(), s, milli)
	}
	return milli
}

func (r *reader) quantity(s string, place func() string) quantity.Quantity {
	q, err := quantity.Parse(s)
	switch {
	case err != nil:
		r.refuseQuantity(place(), s, err)
	case !q.InRange():
		r.noteRange(place(), s, q.Milli())
	}
	return q
}

func (r *reader) refuseQuantity(field, s string, err error) {
	r.refuse(field, fmt.Sprintf("Invalid value: %q: %v", s, err))
}

// noteRange tells of a quantity that upstream reads as something else.
func (r *reader) noteRange(field, s string, milli int64) {
	r.note(func() string {
		return fmt.Sprintf("%s: %s is beyond the range of the controller's arithmetic, which reads it as %s",
			field, s, quantity.FormatDecimal(milli))
	})
}

func (r *reader) time(t *timestamppb.Timestamp, place func() string) time.Time {
	if t == nil {
		return time.Time{}
	}
	if !t.IsValid() {
		r.refuse(place(), fmt.Sprintf("Invalid value: %d s %d ns: must be between the years 1 and 9999", t.GetSeconds(), t.GetNanos()))
		return time.Time{}
	}
	return t.AsTime()
}

func (r *reader) duration(d *durationpb.Duration, fallback time.Duration, path string) time.Duration {
	switch {
	case d == nil:
		return fallback
	case d.CheckValid() != nil:
		r.refuse(path, "Invalid value: not a valid duration")
	case d.AsDuration() < 0:
		r.refuse(path, "Invalid value: must be greater than or equal to 0")
	case d.AsDuration() > maxDuration:
		r.refuse(path, "Invalid value: must be at most "+maxDuration.String())
	}
	return d.AsDuration()
}

// maxDuration keeps sums of instants and durations in range.
const maxDuration = 10 * 365 * 24 * time.Hour

// options reads how to decide.
func (r *reader) options(o *setpointv1.RecommendOptions, defaults recommender.Options) recommender.Options {
	options := defaults
	if name := o.GetProfile(); name != "" {
		profile, ok := recommender.ProfileByName(name)
		if !ok {
			r.refuse("options.profile", fmt.Sprintf("Unsupported value: %q: supported values: %q", name, recommender.ProfileNames()))
		}
		options.Profile = profile
	}
	if p := options.Profile; p != nil && p.ScaleToZero() {
		options.ScaleToZero = true
	}
	if o != nil && o.Tolerance != nil {
		options.Tolerance = r.toleranceOption(o.GetTolerance())
	}
	options.CPUInitializationPeriod = r.duration(o.GetCpuInitializationPeriod(), options.CPUInitializationPeriod, "options.cpuInitializationPeriod")
	options.InitialReadinessDelay = r.duration(o.GetInitialReadinessDelay(), options.InitialReadinessDelay, "options.initialReadinessDelay")
	options.DownscaleStabilization = r.duration(o.GetDownscaleStabilization(), options.DownscaleStabilization, "options.downscaleStabilization")
	options.UpscaleDelay = r.duration(o.GetUpscaleDelay(), options.UpscaleDelay, "options.upscaleDelay")
	options.DownscaleDelay = r.duration(o.GetDownscaleDelay(), options.DownscaleDelay, "options.downscaleDelay")
	if o != nil && o.ScaleToZero != nil {
		options.ScaleToZero = o.GetScaleToZero()
	}
	options.Named = named(o)
	return options
}

// named are the options that a request sets, among those that profiles may ignore.
func named(o *setpointv1.RecommendOptions) recommender.OptionSet {
	var set recommender.OptionSet
	add := func(option recommender.OptionSet, value *durationpb.Duration) {
		if value != nil {
			set |= option
		}
	}
	add(recommender.CPUInitializationPeriodOption, o.GetCpuInitializationPeriod())
	add(recommender.InitialReadinessDelayOption, o.GetInitialReadinessDelay())
	add(recommender.DownscaleStabilizationOption, o.GetDownscaleStabilization())
	add(recommender.UpscaleDelayOption, o.GetUpscaleDelay())
	add(recommender.DownscaleDelayOption, o.GetDownscaleDelay())
	return set
}

// toleranceOption reads the option as the controller reads its flag, a
// floating-point number, and otherwise as a quantity.
func (r *reader) toleranceOption(s string) float64 {
	tolerance, err := Tolerance(s)
	if err != nil {
		r.refuseQuantity("options.tolerance", s, err)
	}
	return tolerance
}

// Tolerance reads a tolerance as the controller's flag is read: a decimal
// number, or else a quantity; at least 0 and finite.
func Tolerance(s string) (float64, error) {
	tolerance, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.ContainsAny(s, "xXpP_iI") {
		if tolerance, err = quantity.ApproximateFloat(s); err != nil {
			return 0, errors.New("must be a decimal number or a quantity, such as 0.1 or 100m")
		}
	}
	if math.IsNaN(tolerance) || math.IsInf(tolerance, 0) || tolerance < 0 {
		return 0, errors.New("must be greater than or equal to 0, and finite")
	}
	return tolerance, nil
}

// scale reads replica counts and what kept them, or the pods, from being known.
func (r *reader) scale(in *recommender.Input, req *setpointv1.RecommendRequest) {
	if e := req.GetScaleError(); e != nil {
		in.ScaleError = &recommender.ScaleError{Reason: scaleErrorReasons[e.GetReason()], Message: e.GetMessage()}
	} else if req.GetScale() == nil {
		r.refuse("scale", "Required value: must hold the workload's replicas, unless scaleError says why they are not known")
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

// selectorProblem returns what the caller reports, or finds in the selector it sent.
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
