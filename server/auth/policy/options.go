package policy

import (
	"cmp"
	"math"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Options are options that operators set for requests. Nil fields are not set by the
// policy. The pointers' targets must not be changed.
type Options struct {
	// Defaults of the request's options.
	Profile                 *recommender.Profile
	Tolerance               *float64
	CPUInitializationPeriod *time.Duration
	InitialReadinessDelay   *time.Duration
	DownscaleStabilization  *time.Duration
	UpscaleDelay            *time.Duration
	DownscaleDelay          *time.Duration
	ScaleToZero             *bool

	// MaxReplicas caps spec.maxReplicas: a higher value counts as this one. MinReplicas is
	// the floor of spec.minReplicas in the same way; it is at most MaxReplicas.
	MaxReplicas, MinReplicas *int32
	// DryRunOnly records nothing, as if each request were a dry run.
	DryRunOnly *bool
	// AllowEvaluationTime is whether requests may set the instant of the decision,
	// whatever the server's setting.
	AllowEvaluationTime *bool
}

// or returns the options, with unset ones taken from next.
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

// bounded gives the cap precedence over a higher floor of another rule.
func (o Options) bounded() Options {
	if o.MinReplicas != nil && o.MaxReplicas != nil && *o.MinReplicas > *o.MaxReplicas {
		o.MinReplicas = o.MaxReplicas
	}
	return o
}

// Over returns the server's options, replaced by the policy's defaults.
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

// Unlimited means "unlimited" in Limits.InFlight and similar fields, as does +Inf in
// RequestsPerSecond.
const Unlimited = math.MaxInt

// Limits are limits of each caller. 0: not set by the policy; the server's own limit
// counts.
type Limits struct {
	// RequestsPerSecond, with Burst at once; a batch counts as its requests.
	RequestsPerSecond float64
	Burst             int
	// InFlight limits the calls in flight, and Streams the open streams.
	InFlight, Streams int
	// ClusterTargets and ClusterBytes limit the targets of a cluster and their stored
	// bytes, for callers that add another target.
	ClusterTargets, ClusterBytes int
}

// or returns the limits, with unset ones taken from next.
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
