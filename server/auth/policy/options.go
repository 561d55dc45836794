package policy

import (
	"cmp"
	"math"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Options are what operators set for requests. Nil: the policy says nothing. What the
// pointers point to must not be changed.
type Options struct {
	// Defaults of the request's options, where it names none.
	Profile                 *recommender.Profile
	Tolerance               *float64
	CPUInitializationPeriod *time.Duration
	InitialReadinessDelay   *time.Duration
	DownscaleStabilization  *time.Duration
	UpscaleDelay            *time.Duration
	DownscaleDelay          *time.Duration
	ScaleToZero             *bool

	// MaxReplicas is the most that spec.maxReplicas may ask for: above it, it is taken for
	// this. MinReplicas is the least that spec.minReplicas may ask for, likewise; it is
	// at most MaxReplicas.
	MaxReplicas, MinReplicas *int32
	// DryRunOnly means that nothing is recorded, as if each request were a dry run.
	DryRunOnly *bool
	// AllowEvaluationTime says whether requests may choose the instant to decide for,
	// whatever the server's setting.
	AllowEvaluationTime *bool
}

// or returns the options with what they leave open taken from next.
func (o Options) or(next *Options) Options {
	return Options{
		Profile:                 cmp.Or(o.Profile, next.Profile),
		Tolerance:               cmp.Or(o.Tolerance, next.Tolerance),
		CPUInitializationPeriod: cmp.Or(o.CPUInitializationPeriod, next.CPUInitializationPeriod),
		InitialReadinessDelay:   cmp.Or(o.InitialReadinessDelay, next.InitialReadinessDelay),
		DownscaleStabilization:  cmp.Or(o.DownscaleStabilization, next.DownscaleStabilization),
		UpscaleDelay:            cmp.Or(o.UpscaleDelay, next.UpscaleDelay),
		DownscaleDelay:          cmp.Or(o.DownscaleDelay, next.DownscaleDelay),
		ScaleToZero:             cmp.Or(o.ScaleToZero, next.ScaleToZero),
		MaxReplicas:             cmp.Or(o.MaxReplicas, next.MaxReplicas),
		MinReplicas:             cmp.Or(o.MinReplicas, next.MinReplicas),
		DryRunOnly:              cmp.Or(o.DryRunOnly, next.DryRunOnly),
		AllowEvaluationTime:     cmp.Or(o.AllowEvaluationTime, next.AllowEvaluationTime),
	}
}

// bounded lets the cap win over a floor that another rule has set above it.
func (o Options) bounded() Options {
	if o.MinReplicas != nil && o.MaxReplicas != nil && *o.MinReplicas > *o.MaxReplicas {
		o.MinReplicas = o.MaxReplicas
	}
	return o
}

// Over returns the server's options with the policy's defaults in their place.
func (o Options) Over(server recommender.Options) recommender.Options {
	if o.Profile != nil {
		server.Profile = o.Profile
	}
	set(&server.Tolerance, o.Tolerance)
	set(&server.CPUInitializationPeriod, o.CPUInitializationPeriod)
	set(&server.InitialReadinessDelay, o.InitialReadinessDelay)
	set(&server.DownscaleStabilization, o.DownscaleStabilization)
	set(&server.UpscaleDelay, o.UpscaleDelay)
	set(&server.DownscaleDelay, o.DownscaleDelay)
	set(&server.ScaleToZero, o.ScaleToZero)
	return server
}

func set[T any](into, value *T) {
	if value != nil {
		*into = *value
	}
}

// Unlimited means "unlimited" in Limits.InFlight and the like, as does +Inf in
// RequestsPerSecond.
const Unlimited = math.MaxInt

// Limits bound what each caller may ask for. 0: the policy says nothing, and the
// server's own limit counts.
type Limits struct {
	// RequestsPerSecond, with Burst at once; a batch counts as its requests.
	RequestsPerSecond float64
	Burst             int
	// InFlight is how many calls may be unanswered, and Streams how many streams open.
	InFlight, Streams int
	// ClusterTargets and ClusterBytes are how many targets a cluster may have, and what is
	// kept of them may take, if the caller is to add another one.
	ClusterTargets, ClusterBytes int
}

// or returns the limits with what they leave open taken from next.
func (l Limits) or(next Limits) Limits {
	return Limits{
		RequestsPerSecond: cmp.Or(l.RequestsPerSecond, next.RequestsPerSecond),
		Burst:             cmp.Or(l.Burst, next.Burst),
		InFlight:          cmp.Or(l.InFlight, next.InFlight),
		Streams:           cmp.Or(l.Streams, next.Streams),
		ClusterTargets:    cmp.Or(l.ClusterTargets, next.ClusterTargets),
		ClusterBytes:      cmp.Or(l.ClusterBytes, next.ClusterBytes),
	}
}
