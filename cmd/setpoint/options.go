package main

import (
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

// optionFlags are the controller's settings for commands that decide here; the
// defaults are those of the service.
type optionFlags struct {
	profile     string
	tolerance   string
	cpuPeriod   time.Duration
	readiness   time.Duration
	downscale   time.Duration
	scaleToZero bool
	flags       *pflag.FlagSet
}

func (o *optionFlags) bind(flags *pflag.FlagSet) {
	s := defaultSettings()
	o.flags = flags
	flags.StringVar(&o.profile, "profile", s.Profile, "controller `version` to decide as: "+strings.Join(recommender.ProfileNames(), ", "))
	flags.StringVar(&o.tolerance, "tolerance", s.Tolerance, "the controller's tolerance")
	flags.DurationVar(&o.cpuPeriod, "cpu-initialization-period", s.CPUInitializationPeriod, "the controller's cpu initialization period")
	flags.DurationVar(&o.readiness, "initial-readiness-delay", s.InitialReadinessDelay, "the controller's initial readiness delay")
	flags.DurationVar(&o.downscale, "downscale-stabilization", s.DownscaleStabilization, "the controller's downscale stabilization window")
	flags.BoolVar(&o.scaleToZero, "scale-to-zero", s.ScaleToZero, "the controller's HPAScaleToZero feature is on (v1.37: on unless this says otherwise)")
}

func (o *optionFlags) message() *setpointv1.RecommendOptions {
	options := &setpointv1.RecommendOptions{
		Profile: o.profile, Tolerance: proto.String(o.tolerance),
		CpuInitializationPeriod: durationpb.New(o.cpuPeriod), InitialReadinessDelay: durationpb.New(o.readiness),
		DownscaleStabilization: durationpb.New(o.downscale),
	}
	if o.flags.Changed("scale-to-zero") {
		options.ScaleToZero = proto.Bool(o.scaleToZero)
	}
	return options
}
