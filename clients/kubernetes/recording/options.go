package recording

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// defaultProfile is the profile of recordings without one.
const defaultProfile = "v1.36"

// Options returns the settings as options of a request. It formats the tolerance so that it
// parses to the same float64. They are for requests made of steps with objects; the Request of a
// step that was a call has its own, and its scenario's Config has none.
func (c Config) Options() *setpointv1.RecommendOptions {
	tolerance := strconv.FormatFloat(c.Tolerance, 'f', -1, 64)
	scaleToZero := c.ScaleToZero
	options := &setpointv1.RecommendOptions{
		Profile:                 cmp.Or(c.Profile, defaultProfile),
		Tolerance:               &tolerance,
		CpuInitializationPeriod: seconds(c.CPUInitializationPeriodSeconds),
		InitialReadinessDelay:   seconds(c.InitialReadinessDelaySeconds),
		DownscaleStabilization:  seconds(c.DownscaleStabilizationSeconds),
		ScaleToZero:             &scaleToZero,
	}
	if c.UpscaleDelaySeconds != nil {
		options.UpscaleDelay = seconds(*c.UpscaleDelaySeconds)
	}
	if c.DownscaleDelaySeconds != nil {
		options.DownscaleDelay = seconds(*c.DownscaleDelaySeconds)
	}
	return options
}

// longest caps periods: 290 years, in seconds. Longer ones make no difference.
const longest = 290 * 365 * 24 * 3600

// seconds converts to a Duration, rounded to nanoseconds.
func seconds(s float64) *durationpb.Duration {
	s = max(-longest, min(s, longest))
	return durationpb.New(time.Duration(math.Round(s * float64(time.Second))))
}

// replaced is options with the fields that own sets in place of theirs. Both may be nil.
func replaced(options, own *setpointv1.RecommendOptions) *setpointv1.RecommendOptions {
	if own == nil {
		return options
	}
	out := &setpointv1.RecommendOptions{}
	for _, from := range []*setpointv1.RecommendOptions{options, own} { // proto.Merge would add durations up
		from.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
			out.ProtoReflect().Set(field, value)
			return true
		})
	}
	return out
}
