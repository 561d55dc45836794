package simulation

import (
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

// Scenario is the world in which autoscalers run. All autoscalers of one scenario have the
// same load, random draws and events.
type Scenario struct {
	Start    time.Time
	Duration time.Duration
	Seed     uint64
	Load     *Trace
	Workload Workload
	Loop     Loop
	Events   []Event
	// Fleet makes it a scenario of several clusters, see RunFleet; nil: of one.
	Fleet *Fleet
	// Price of a running replica per hour, in any currency.
	Price float64
}

// Autoscaler is the simulated autoscaler.
type Autoscaler struct {
	Namespace string
	Spec      recommender.Spec
	Options   recommender.Options
	// Stages are around its decisions; nil: none.
	Stages *stages.Plan
}

// Workload describes how pods start and stop, what they serve and what that uses. The zero
// value has pods that start and are ready at once and serve any load.
type Workload struct {
	// Replicas at the start; nil: the autoscaler's minimum, at least 1.
	Replicas *int32
	// Containers of a pod, with requests. Only the first one serves. None: one container
	// named "app" without requests.
	Containers []Container
	// SchedulingDelay is the time from a pod's creation to its start. With Slots, pods
	// beyond them wait NodeDelay longer, for a node. Slots 0: unlimited.
	SchedulingDelay, NodeDelay time.Duration
	Slots                      int32
	Startup                    Startup
	// A deleted pod serves for Drain, and is gone after Grace.
	Drain, Grace time.Duration
	// Capacity is what a ready pod serves, units per second. 0: what the CPU limit of
	// the first container allows with its usage; without a limit, any load.
	Capacity float64
	// Imbalance is the coefficient of variation of the pods' shares of the load. 0: even.
	Imbalance float64
	Queue     Queue
	Retries   Retries
	// Usage by the names of resources and metrics. Each metric of an autoscaler needs one.
	Usage []Usage
	// Warmup is how long after its start a pod has the additional usage Usage.Warmup.
	Warmup time.Duration
}

// Container is a container of the simulated pods.
type Container struct {
	Name string
	// Requests and Limits are milli-units.
	Requests, Limits []recommender.ResourceUsage
	// Usage is the constant usage of a container other than the first one.
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

// Queue stores load that can't be served yet. The zero value stores nothing: such load
// is lost.
type Queue struct {
	// Size is its capacity.
	Size float64
	// Timeout is how long load waits before it is lost. 0: for ever.
	Timeout time.Duration
}

// Retries repeat lost load. The zero value does not.
type Retries struct {
	// Count is how often the same load is retried, at most MaxRetries.
	Count int
	// Delay is the time until the first retry, at least 1 s; each later one takes
	// Factor times longer.
	Delay  time.Duration
	Factor float64
}

// MaxRetries limits Retries.Count, and MaxRetryDelay the longest delay.
const (
	MaxRetries    = 10
	MaxRetryDelay = time.Hour
)

// Usage is how load affects one resource or metric.
type Usage struct {
	// Metric is the name of the resource or the metric.
	Metric string
	// PerLoad is the usage per unit per second, Idle the constant usage of a running
	// pod, and Warmup its additional usage during warm-up: milli-units.
	PerLoad, Idle, Warmup float64
	// Follows is the factor of PerLoad, for Object and External metrics only; others
	// follow what the pod serves.
	Follows Signal
	// Window is the interval over which a Pods, Object or External metric is averaged,
	// and Delay how long before the reading it ends. 0 for Window: DefaultWindow.
	Window, Delay time.Duration
	// Recorded says that the load is what was read of this metric: Pods, Object and External ones are read as PerLoad
	// times the load at that instant, Delay ago, all pods together. Follows and Window don't count.
	Recorded bool
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

// Loop configures the autoscaler's loop and the metrics pipeline. Zero values are defaults.
type Loop struct {
	// SyncPeriod is the time between evaluations (0: 15 s), Offset that of the first one.
	SyncPeriod, Offset time.Duration
	// ApplyDelay is the time from a decision to the write of the count; below
	// SyncPeriod.
	ApplyDelay time.Duration
	// Resolution is the interval of scrapes of resource usage (0: 15 s), ScrapeOffset the
	// time of the first.
	Resolution, ScrapeOffset time.Duration
}

// DefaultPeriod is a cluster's default of both the sync period and the resolution.
const DefaultPeriod = 15 * time.Second

// Event is something that happens at an instant.
type Event struct {
	At   time.Duration
	Kind EventKind
	// Pods is the number of killed pods.
	Pods int
	// Share is the fraction of the pods that crash, 0 to 1.
	Share float64
	// For is its duration: of what has one.
	For time.Duration
	// Metric is the affected metric; empty: all.
	Metric string
	// By is the delay of what is late.
	By time.Duration
	// Replicas is the count that another writer sets.
	Replicas int32
	// Surge and Unavailable pods of a rollout.
	Surge, Unavailable int32
	// Member is the member of a fleet to which it happens; empty: all.
	Member string
	// Override is what an override does and why; its instants are those of the event.
	Override *stages.Override
}

// EventKind is the kind of an event.
type EventKind uint8

// The kinds: pods vanish; pods crash and return after a while; metrics fail, freeze, are
// zero, or are late; writing the count fails; another writer sets the count; all pods are
// replaced; an override is in force. Of members of fleets: all pods and calls are gone for a while; calls
// don't come; calls, or writes of the count, come late.
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
	Override
	ClusterDown
	CallsGone
	CallsLate
	WritesLate
	// clusterUp follows ClusterDown.
	clusterUp
)

// Limits of a scenario. The cost grows with evaluations, pods and points, all of which are
// limited.
const (
	MaxDuration = 366 * 24 * time.Hour
	MaxSteps    = 2_200_000
	MaxPods     = 20_000
	MaxEvents   = 10_000
	// MaxOverrides limits the overrides among the events: each decision looks at all.
	MaxOverrides = 100
	// MaxWork limits the evaluations of pods in a run, one for each instant, metric and
	// container involved: minutes at most. A metric that is not of pods counts as six. Steps and
	// the history that they walk through count, too.
	MaxWork = 1_000_000_000
	// MaxKept limits the numbers stored per pod, for averages of metrics and for late or
	// frozen metrics: half a gigabyte.
	MaxKept = 64_000_000
)
