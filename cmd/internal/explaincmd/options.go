package explaincmd

import (
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server"
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
	flags.StringVar(&o.Profile, "profile", recommender.DefaultProfile, "controller `version` to decide as: "+strings.Join(recommender.ProfileNames(), ", "))
	flags.StringVar(&o.tolerance, "tolerance", DefaultTolerance, "the controller's tolerance")
	flags.DurationVar(&o.cpuPeriod, "cpu-initialization-period", s.CPUInitializationPeriod, "the controller's cpu initialization period")
	flags.DurationVar(&o.readiness, "initial-readiness-delay", s.InitialReadinessDelay, "the controller's initial readiness delay")
	flags.DurationVar(&o.downscale, "downscale-stabilization", s.DownscaleStabilization, "the controller's downscale stabilization window")
	flags.DurationVar(&o.upDelay, "upscale-delay", s.UpscaleDelay, "minimum time between any change and a scale-up (profiles cooldown and design-2015)")
	flags.DurationVar(&o.downDelay, "downscale-delay", s.DownscaleDelay, "minimum time between any change and a scale-down (profiles cooldown and design-2015)")
	flags.BoolVar(&o.scaleToZero, "scale-to-zero", s.ScaleToZero, "the controller's HPAScaleToZero feature is on (v1.37: on unless this says otherwise)")
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
