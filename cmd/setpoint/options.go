package main

import (
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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
}

func (o *optionFlags) bind(flags *pflag.FlagSet) {
	s := defaultSettings()
	flags.StringVar(&o.profile, "profile", s.Profile, "controller `version` to decide as")
	flags.StringVar(&o.tolerance, "tolerance", s.Tolerance, "the controller's tolerance")
	flags.DurationVar(&o.cpuPeriod, "cpu-initialization-period", s.CPUInitializationPeriod, "the controller's cpu initialization period")
	flags.DurationVar(&o.readiness, "initial-readiness-delay", s.InitialReadinessDelay, "the controller's initial readiness delay")
	flags.DurationVar(&o.downscale, "downscale-stabilization", s.DownscaleStabilization, "the controller's downscale stabilization window")
	flags.BoolVar(&o.scaleToZero, "scale-to-zero", s.ScaleToZero, "the controller's HPAScaleToZero feature is on")
}

func (o *optionFlags) message() *setpointv1.RecommendOptions {
	return &setpointv1.RecommendOptions{
		Profile: o.profile, Tolerance: proto.String(o.tolerance),
		CpuInitializationPeriod: durationpb.New(o.cpuPeriod), InitialReadinessDelay: durationpb.New(o.readiness),
		DownscaleStabilization: durationpb.New(o.downscale), ScaleToZero: proto.Bool(o.scaleToZero),
	}
}
