package explaincmd

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// DefaultTolerance is the controller's.
const DefaultTolerance = "0.1"

// Options are the controller's settings for commands that decide here; the
// defaults are those of the service.
type Options struct {
	// Profile is the flag's.
	Profile     string
	tolerance   string
	cpuPeriod   time.Duration
	readiness   time.Duration
	downscale   time.Duration
	upDelay     time.Duration
	downDelay   time.Duration
	scaleToZero bool
	flags       *pflag.FlagSet
}

// Bind adds the flags.
func (o *Options) Bind(flags *pflag.FlagSet) {
	s := server.DefaultOptions().Recommend
	o.flags = flags
	o.Profile, o.tolerance = recommender.DefaultProfile, DefaultTolerance
	flags.Var(&judged{&o.Profile, config.OneOf(recommender.ProfileNames()...)}, "profile", "controller `version` to decide as: "+strings.Join(recommender.ProfileNames(), ", "))
	flags.Var(&judged{&o.tolerance, func(text string) error { _, err := conversion.Tolerance(text); return err }}, "tolerance", "the controller's tolerance")
	for _, one := range []struct {
		to          *time.Duration
		name        string
		value       time.Duration
		description string
	}{
		{&o.cpuPeriod, "cpu-initialization-period", s.CPUInitializationPeriod, "the controller's cpu initialization period"},
		{&o.readiness, "initial-readiness-delay", s.InitialReadinessDelay, "the controller's initial readiness delay"},
		{&o.downscale, "downscale-stabilization", s.DownscaleStabilization, "the controller's downscale stabilization window"},
		{&o.upDelay, "upscale-delay", s.UpscaleDelay, "minimum time between any change and a scale-up (profiles cooldown and design-2015)"},
		{&o.downDelay, "downscale-delay", s.DownscaleDelay, "minimum time between any change and a scale-down (profiles cooldown and design-2015)"},
	} {
		*one.to = one.value
		flags.Var((*duration)(one.to), one.name, one.description)
	}
	flags.BoolVar(&o.scaleToZero, "scale-to-zero", s.ScaleToZero, "the controller's HPAScaleToZero feature is on (v1.37: on unless this says otherwise)")
}

// judged is the value of a flag that is judged when it is set: later an error would name the file that the options are for.
type judged struct {
	to    *string
	judge func(string) error
}

// String implements pflag.Value.
func (j *judged) String() string { return *j.to }

// Type implements pflag.Value.
func (*judged) Type() string { return "string" }

// Set implements pflag.Value.
func (j *judged) Set(text string) error {
	if err := j.judge(text); err != nil {
		return err
	}
	*j.to = text
	return nil
}

// duration is one of at least 0, judged as judged is.
type duration time.Duration

// String implements pflag.Value.
func (d *duration) String() string { return time.Duration(*d).String() }

// Type implements pflag.Value.
func (*duration) Type() string { return "duration" }

// Set implements pflag.Value.
func (d *duration) Set(text string) error {
	read, err := document.ParseDuration(text)
	if err != nil {
		return errors.New("must be a duration such as 30s or 1h" + document.WithUnit(text))
	}
	*d = duration(read)
	return config.NotNegative(read)
}

// Message returns the options for a profile. It omits those that the profile ignores unless the
// user set them: then the answer warns about them.
func (o *Options) Message(profile string) *setpointv1.RecommendOptions {
	var ignored recommender.OptionSet
	if p, ok := recommender.ProfileByName(profile); ok {
		ignored = p.Ignores()
	}
	duration := func(flag string, option recommender.OptionSet, value time.Duration) *durationpb.Duration {
		if ignored&option != 0 && !o.flags.Changed(flag) {
			return nil
		}
		return durationpb.New(value)
	}
	options := &setpointv1.RecommendOptions{
		Profile: profile, Tolerance: proto.String(o.tolerance),
		CpuInitializationPeriod: duration("cpu-initialization-period", recommender.CPUInitializationPeriodOption, o.cpuPeriod),
		InitialReadinessDelay:   duration("initial-readiness-delay", recommender.InitialReadinessDelayOption, o.readiness),
		DownscaleStabilization:  duration("downscale-stabilization", recommender.DownscaleStabilizationOption, o.downscale),
		UpscaleDelay:            duration("upscale-delay", recommender.UpscaleDelayOption, o.upDelay),
		DownscaleDelay:          duration("downscale-delay", recommender.DownscaleDelayOption, o.downDelay),
	}
	if o.flags.Changed("scale-to-zero") {
		options.ScaleToZero = proto.Bool(o.scaleToZero)
	}
	return options
}

// Over returns the object's options, overridden by those of the command line.
func (o *Options) Over(object *setpointv1.RecommendOptions) *setpointv1.RecommendOptions {
	profile := o.Profile
	if named := object.GetProfile(); named != "" && !o.flags.Changed("profile") {
		profile = named
	}
	options := o.Message(profile)
	if object == nil {
		return options
	}
	// The flags are called as the fields are.
	object.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if !o.flags.Changed(strings.ReplaceAll(string(field.Name()), "_", "-")) {
			options.ProtoReflect().Set(field, value)
		}
		return true
	})
	return options
}
