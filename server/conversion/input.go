package conversion

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// Spec reads a spec and options as Input does those of a request, for callers without
// readings. options apply where o sets none.
func Spec(spec *setpointv1.HorizontalPodAutoscalerSpec, o *setpointv1.RecommendOptions, options recommender.Options) (recommender.Spec, recommender.Options, []validation.Violation) {
	var r reader
	var out recommender.Spec
	options = r.options(o, options)
	r.spec(&out, spec)
	return out, options, r.violations
}

// unnamedKind replaces, in texts, the kind of a workload that a request does not name.
// It is shown nowhere else.
const unnamedKind = "Target"

// reader reads messages and collects what is wrong with them.
type reader struct {
	violations []validation.Violation
	// notes are sentences for the explanation, collected only if noting is set; unnoted
	// is how many more there would be.
	notes   []string
	unnoted int
	noting  bool
	// strict refuses quantities that upstream reads as other ones.
	strict bool
}

// maxQuoted limits what a sentence quotes of a name, bytes.
const maxQuoted = 253

// clip shortens a name for a sentence.
func clip(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + "…"
}

// maxNotes limits the sentences for the explanation: a request may be odd in every
// element.
const maxNotes = 100

// note adds a sentence for the explanation.
func (r *reader) note(sentence func() string) {
	switch {
	case !r.noting:
	case len(r.notes) == maxNotes:
		r.unnoted++
	default:
		r.notes = append(r.notes, sentence())
	}
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

// milli reads a quantity as milli-units. Here and below place returns the name of the
// field; it is called only if there is something to report.
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

func (r *reader) refuseQuantity(field, s string, err error) {
	r.refuse(field, fmt.Sprintf("Invalid value: %q: %v", s, err))
}

// noteRange notes a quantity that upstream reads as another one.
func (r *reader) noteRange(field, s string, milli int64) {
	if r.strict {
		r.refuse(field, fmt.Sprintf("Invalid value: %q: beyond the range of the controller's arithmetic, ±9223372036854775.807, which would read it as %s: choose a larger unit",
			clip(s), quantity.FormatDecimal(milli)))
		return
	}
	r.note(func() string {
		return fmt.Sprintf("%s: %s is beyond the range of the controller's arithmetic, which reads it as %s",
			field, s, quantity.FormatDecimal(milli))
	})
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

// options reads the options of a decision.
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

// named returns the options that a request sets, among those that profiles may ignore.
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

// toleranceOption reads the option as the controller reads its flag, as a
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
