package v1

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/api/resource"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Options are what a controller manager has flags for, per object. Each that is absent
// is the service's setting.
type Options struct {
	// profile is the controller version to decide as: "v1.36", "v1.37", "v1.28",
	// "v1.19", "v1.15", "cooldown" or "design-2015".
	// +optional
	// +kubebuilder:validation:Enum="";"v1.36";"v1.37";"v1.28";"v1.19";"v1.15";"cooldown";"design-2015"
	Profile string `json:"profile,omitempty"`
	// tolerance is how far the usage may be from its target without a change, in both
	// directions where behavior sets none. It is written in quotes: tolerance: "0.1" is
	// 10 %.
	// +optional
	Tolerance *resource.Quantity `json:"tolerance,omitempty"`
	// cpuInitializationPeriodSeconds is how long after its start a pod's cpu sample
	// counts only while it is ready and the sample is newer than its readiness.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CPUInitializationPeriodSeconds *int32 `json:"cpuInitializationPeriodSeconds,omitempty"`
	// initialReadinessDelaySeconds is how soon after its start a pod must have become
	// unready to count as never ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	InitialReadinessDelaySeconds *int32 `json:"initialReadinessDelaySeconds,omitempty"`
	// downscaleStabilizationSeconds is how long the highest recommendation holds
	// scale-downs where behavior sets no window.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DownscaleStabilizationSeconds *int32 `json:"downscaleStabilizationSeconds,omitempty"`
	// upscaleDelaySeconds is how long after a change, of either direction, there is none
	// upwards: with the profiles "cooldown" and "design-2015", ignored by the others.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UpscaleDelaySeconds *int32 `json:"upscaleDelaySeconds,omitempty"`
	// downscaleDelaySeconds is the same downwards.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DownscaleDelaySeconds *int32 `json:"downscaleDelaySeconds,omitempty"`
	// scaleToZero allows minReplicas 0, as the feature HPAScaleToZero does. Here it has
	// to be said, also where the service or the profile allows it by default.
	// +optional
	ScaleToZero *bool `json:"scaleToZero,omitempty"`
}

// ToProto returns the options of a request; nil for nil, and for options without any field.
func (o *Options) ToProto() *setpointv1.RecommendOptions {
	if o == nil || *o == (Options{}) {
		return nil
	}
	out := &setpointv1.RecommendOptions{
		Profile:                 o.Profile,
		CpuInitializationPeriod: seconds(o.CPUInitializationPeriodSeconds),
		InitialReadinessDelay:   seconds(o.InitialReadinessDelaySeconds),
		DownscaleStabilization:  seconds(o.DownscaleStabilizationSeconds),
		UpscaleDelay:            seconds(o.UpscaleDelaySeconds),
		DownscaleDelay:          seconds(o.DownscaleDelaySeconds),
	}
	if o.Tolerance != nil {
		copied := *o.Tolerance // String stores its result, and others may read the object
		tolerance := copied.String()
		out.Tolerance = &tolerance
	}
	if o.ScaleToZero != nil {
		allowed := *o.ScaleToZero
		out.ScaleToZero = &allowed
	}
	return out
}

// seconds is nil for nil.
func seconds(count *int32) *durationpb.Duration {
	if count == nil {
		return nil
	}
	return durationpb.New(time.Duration(*count) * time.Second)
}
