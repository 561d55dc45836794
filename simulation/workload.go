package simulation

import (
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Scenario is the world that autoscalers are run in. Several of them in one scenario see the
// same load, the same draws of the seed and the same events.
type Scenario struct {
	Start    time.Time
	Duration time.Duration
	Seed     uint64
	Load     *Trace
	Workload Workload
	Loop     Loop
	Events   []Event
	// Price of a running replica for an hour, in any currency.
	Price float64
}

// Autoscaler is the simulated autoscaler.
type Autoscaler struct {
	Namespace string
	Spec      recommender.Spec
	Options   recommender.Options
}

// Workload is how pods come and go, what they serve and what that uses. The zero value has
// pods that are there at once, are ready at once and serve any load.
type Workload struct {
	// Replicas at the start; nil: the autoscaler's minimum, at least 1.
	Replicas *int32
	// Containers of a pod, with requests. The first one serves; the others are beside it.
	// None: one container named "app" without requests.
	Containers []Container
	// SchedulingDelay is from a pod's creation to its start. With Slots, pods beyond them
	// wait NodeDelay longer, for a node. Slots 0: there is room for all.
	SchedulingDelay, NodeDelay time.Duration
	Slots                      int32
	Startup                    Startup
	// A deleted pod serves for Drain, and is gone after Grace.
	Drain, Grace time.Duration
	// Capacity is what a ready pod serves, units a second. 0: what the CPU limit of the
	// first container allows at its usage; without a limit, any load.
	Capacity float64
	// Imbalance is the coefficient of variation of the pods' shares of the load. 0: even.
	Imbalance float64
	Queue     Queue
	Retries   Retries
	// Usage by the names of resources and metrics. Each metric of an autoscaler needs one.
	Usage []Usage
	// Warmup is how long after its start a pod uses Usage.Warmup more.
	Warmup time.Duration
}

// Container is a container of the simulated pods.
type Container struct {
	Name string
	// Requests and Limits are milli-units.
	Requests, Limits []recommender.ResourceUsage
	// Usage is what a container beside the first one uses, all the time.
	Usage []recommender.ResourceUsage
}

// Startup is the time from a pod's start to its readiness.
type Startup struct {
	Kind StartupKind
	// Fixed: From. Uniform: between From and To. LogNormal: the median is From, and 95 %
	// take at most To.
	From, To time.Duration
}

// StartupKind is a distribution of start-up times.
type StartupKind uint8

// The distributions.
const (
	FixedStartup StartupKind = iota
	UniformStartup
	LogNormalStartup
)

// Queue holds what can't be served yet. The zero value holds nothing: such load is lost.
type Queue struct {
	// Size is the volume that it holds.
	Size float64
	// Timeout is how long load waits before it is lost. 0: for ever.
	Timeout time.Duration
}

// Retries bring lost load back. The zero value does not.
type Retries struct {
	// Count is how often the same load comes back, at most MaxRetries.
	Count int
	// Delay is how long after its loss, at least 1 s; each time Factor times longer.
	Delay  time.Duration
	Factor float64
}

// MaxRetries bounds Retries.Count, and MaxRetryDelay the longest delay.
const (
	MaxRetries    = 10
	MaxRetryDelay = time.Hour
)

// Usage is what load makes of one resource or metric.
type Usage struct {
	// Metric is the name of the resource or the metric.
	Metric string
	// PerLoad is for each unit a second, Idle what a running pod uses anyway, and Warmup
	// what it uses on top while it is warm-up time: milli-units.
	PerLoad, Idle, Warmup float64
	// Follows is what PerLoad is multiplied with. Object and External metrics only; others
	// follow what the pod serves.
	Follows Signal
	// Window is the time that a Pods, Object or External metric is the mean of, and Delay
	// how long before it is read that ends. 0 for Window: DefaultWindow.
	Window, Delay time.Duration
}

// DefaultWindow is the usual range of a rate in Prometheus' queries.
const DefaultWindow = time.Minute

// Signal is what a metric measures.
type Signal uint8

// The signals: load served, load offered, volume waiting, and seconds that the oldest of it
// has waited.
const (
	Served Signal = iota
	Offered
	QueueLength
	QueueAge
)

// Loop is the autoscaler's loop and the metrics pipeline. The zero value takes the defaults.
type Loop struct {
	// SyncPeriod is from one evaluation to the next (0: 15 s), Offset when the first one is.
	SyncPeriod, Offset time.Duration
	// ApplyDelay is from a decision to the count being written; below SyncPeriod.
	ApplyDelay time.Duration
	// Resolution is how often resource usage is scraped (0: 15 s), ScrapeOffset when first.
	Resolution, ScrapeOffset time.Duration
}

// DefaultPeriod is a cluster's default of both the sync period and the resolution.
const DefaultPeriod = 15 * time.Second

// Event is something that happens at an instant.
type Event struct {
	At   time.Duration
	Kind EventKind
	// Pods that are killed.
	Pods int
	// Share of the pods that crash, 0 to 1.
	Share float64
	// For is how long it lasts: crashes, metrics and writes.
	For time.Duration
	// Metric that is meant; empty: all.
	Metric string
	// By is how late metrics are.
	By time.Duration
	// Replicas that another writer sets.
	Replicas int32
	// Surge and Unavailable pods of a rollout.
	Surge, Unavailable int32
}

// EventKind says what happens.
type EventKind uint8

// The kinds: pods vanish; pods crash and are back after a while; metrics fail, stay as they
// are, are zero, or are late; writing the count fails; another writer sets the count; all
// pods are replaced.
const (
	KillPods EventKind = iota
	CrashPods
	MetricsGone
	MetricsFrozen
	MetricsZero
	MetricsLate
	WritesFail
	SetReplicas
	Rollout
)

// Limits of a scenario. Cost grows with evaluations, pods and points, all of which are bounded.
const (
	MaxDuration = 366 * 24 * time.Hour
	MaxSteps    = 2_200_000
	MaxPods     = 20_000
	MaxEvents   = 10_000
	// MaxWork bounds the looks at a pod in a run, all instants together, one for each
	// metric and container that a look is about: about a minute.
	MaxWork = 1_000_000_000
	// MaxKept bounds the numbers that are kept of pods, for the means of metrics and for
	// metrics that come late or freeze: half a gigabyte.
	MaxKept = 64_000_000
)
