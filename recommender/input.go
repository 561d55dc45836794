package recommender

import (
	"time"

	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// Input is everything that a decision depends on besides the instant and the history.
// Recommend does not change it.
type Input struct {
	// ID names the recommendation if it changes the count; it must be unique per
	// target.
	ID ID
	// Namespace is the target's, for texts.
	Namespace string
	Spec      Spec
	Options   Options
	Scale     Scale
	// ScaleError is set when the scale could not be read; Scale is then ignored.
	ScaleError *ScaleError
	// SelectorProblem is set when the pods could not be selected.
	SelectorProblem *SelectorProblem
	// Pods are all pods of the workload, names unique.
	Pods []Pod
	// PodMetrics are resource samples. Of two for one pod the later one counts; samples
	// of pods that are not in Pods count too. Fastest when they are in the order of
	// Pods.
	PodMetrics []PodMetrics
	// Sums stand for Pods, PodMetrics and the values of Pods metrics, which are then ignored; nil: they
	// don't. They need a profile that adds up.
	Sums *Sums
	// Summed gets the sums of the metrics of pods that the decision computes from Pods, which saves a caller
	// SumsIn: those of the others are left empty, not Sampled. The decision is the same. Nil: nobody asks.
	Summed *Sums
	// Readings belong to Spec.Metrics by index; missing ones are empty.
	Readings []Readings
	// Generation is that of the spec, which the status shows as observed; at least 0.
	// No decision depends on it. It counts only if HasGeneration.
	Generation int64
	// PreviousStatus seeds a target without history; nil: none.
	PreviousStatus *Status
	// HasGeneration reports whether Generation counts.
	HasGeneration bool
	// HoldDown withholds scale-downs, because the history may be out of date.
	HoldDown bool
	// Again repeats a decision for the same instant, which may already be recorded: the
	// instant is used even if there is a newer record.
	Again bool
	// Explain requests Decision.Explanation.
	Explain bool
	// ExplainLimit limits the pods that the explanation lists, of all metrics together;
	// 0 means DefaultExplainLimit, ExplainNoPods none.
	ExplainLimit int
	// Notes are added to the explanation's warnings.
	Notes []string
	// OwnMin is the spec's own minimum where a stage raised Spec.MinReplicas; nil: none did. What was scaled to zero returns
	// to the raised one also where no count can be computed; what may be at zero is by its own.
	OwnMin *int32
	// Seam takes part in the decision; nil: it is exactly the controller's.
	Seam Seam
	// proposals replace what metrics read, for History.Outlook; nil: metrics are read.
	proposals proposals
}

// Limits of the pods in an explanation.
const (
	DefaultExplainLimit = 20_000
	ExplainNoPods       = -1
)

// Options are the controller's flags and feature gates.
type Options struct {
	// Profile is the version to decide as, see ProfileByName; nil means DefaultProfile.
	Profile *Profile
	// Tolerance of both directions where behavior sets none; upstream's is 0.1.
	Tolerance float64
	// CPUInitializationPeriod; upstream's is 5 minutes.
	CPUInitializationPeriod time.Duration
	// InitialReadinessDelay; upstream's is 30 seconds.
	InitialReadinessDelay time.Duration
	// DownscaleStabilization; upstream's is 5 minutes.
	DownscaleStabilization time.Duration
	// UpscaleDelay and DownscaleDelay are the minimum times between any change and a
	// scale-up or scale-down; upstream's were 3 and 5 minutes. Only the profiles "cooldown"
	// and "design-2015" use them.
	UpscaleDelay, DownscaleDelay time.Duration
	// ScaleToZero is the HPAScaleToZero gate; off in v1.36.
	ScaleToZero bool
	// HistoryLimit is how many recommendations, and how many scale events per direction,
	// are kept as upstream keeps them. Beyond it, those that can't affect a decision are
	// dropped first, and then several are replaced by one. 0 means DefaultHistoryLimit,
	// and less than 8 means 8.
	HistoryLimit int
	// Named are the options that a request sets itself. The explanation warns of those
	// that the profile ignores, whatever their value.
	Named OptionSet
}

// DefaultOptions returns the defaults of the controller's flags.
func DefaultOptions() Options {
	return Options{
		Tolerance:               0.1,
		CPUInitializationPeriod: 5 * time.Minute,
		InitialReadinessDelay:   30 * time.Second,
		DownscaleStabilization:  5 * time.Minute,
		UpscaleDelay:            3 * time.Minute,
		DownscaleDelay:          5 * time.Minute,
	}
}

// Scale holds the workload's replica counts.
type Scale struct {
	// SpecReplicas are the requested replicas, StatusReplicas the observed ones.
	SpecReplicas, StatusReplicas int32
}

// ScaleErrorReason is the step of reading the scale that failed.
type ScaleErrorReason uint8

// The steps of reading a scale.
const (
	ScaleGetFailed ScaleErrorReason = iota
	ScaleInvalidAPIVersion
	ScaleUnknownKind
)

// ScaleError means that the scale could not be read.
type ScaleError struct {
	Reason  ScaleErrorReason
	Message string
}

// SelectorProblem means that the pods could not be selected.
type SelectorProblem struct {
	// Reason is upstream's event reason, Message its error. An ambiguous selector needs no
	// Message: it is then built from Selector and Autoscalers, which are namespace/name.
	Reason      SelectorReason
	Message     string
	Selector    string
	Autoscalers []string
}

// SelectorReason is what is wrong with a selector, in the words of upstream's events.
type SelectorReason string

// The selector problems of upstream.
const (
	SelectorRequired  SelectorReason = "SelectorRequired"
	InvalidSelector   SelectorReason = "InvalidSelector"
	AmbiguousSelector SelectorReason = "AmbiguousSelector"
)

// PodPhase is a pod's phase. The zero value, and any other that is not named here, counts
// as running.
type PodPhase uint8

// The phases that affect decisions.
const (
	PhaseOther PodPhase = iota
	PhasePending
	PhaseRunning
	PhaseFailed
)

// ReadyStatus is the status of a pod's Ready condition.
type ReadyStatus uint8

// The states of a Ready condition; NoCondition is that of a pod without one.
const (
	NoCondition ReadyStatus = iota
	ReadyTrue
	ReadyFalse
	ReadyUnknown
)

// Pod has the fields of a pod that decisions depend on. Those that most decisions read
// come first, for the processor's cache.
type Pod struct {
	Name     string
	Phase    PodPhase
	Deleting bool
	Ready    ReadyStatus
	// StartTime is zero for a pod that has none.
	StartTime time.Time
	// Containers and InitContainers hold requests; needed for utilization only.
	Containers     []Container
	InitContainers []InitContainer
	// PodLevelRequests are spec.resources.requests; they count if one of them is
	// of a resource that may be set at the pod's level.
	PodLevelRequests []ResourceRequest
	// Overhead counts only with pod-level requests.
	Overhead []ResourceRequest
	// ReadyTransition is when Ready last changed; the zero time is in the year 1.
	ReadyTransition time.Time
}

// Container is a container's requests.
type Container struct {
	Name     string
	Requests []ResourceRequest
}

// InitContainer is an init container's requests.
type InitContainer struct {
	Container
	// Restartable marks a sidecar (restartPolicy Always).
	Restartable bool
}

// ResourceRequest is a request of one resource.
type ResourceRequest struct {
	Resource string
	Quantity quantity.Quantity
}

// PodMetrics is the resource usage of one pod.
type PodMetrics struct {
	Pod string
	// Timestamp is the end of the interval of length Window over which usage was measured.
	Timestamp  time.Time
	Window     time.Duration
	Containers []ContainerMetrics
}

// ContainerMetrics is the resource usage of one container.
type ContainerMetrics struct {
	Name  string
	Usage []ResourceUsage
}

// ResourceUsage is the usage of one resource in milli-units.
type ResourceUsage struct {
	Resource string
	Milli    int64
}

// Readings are the values of one metric of the spec. For Resource and ContainerResource
// only Error counts: their samples are Input.PodMetrics.
type Readings struct {
	// Error is the error of the metrics API; empty: it returned readings.
	Error string
	// SelectorError is why the metric's selector is malformed; empty: it is not.
	SelectorError string
	// Timestamp is that of the first of Values; zero: unknown. Only the profile "cooldown"
	// uses it.
	Timestamp time.Time
	// Values are in the order of the API's response: one per pod for Pods, exactly one
	// for Object, all series for External.
	Values []Value
	// Series is how many series Values stand for, for explanations; 0: as many as they are.
	Series int
	// Taken are when the values were measured, by index, the zero time where that is unknown. Only
	// stages use them; nil: nobody asked.
	Taken []time.Time
}

// Total returns the value of an Object or External metric as the engine adds it up; ok is false if
// it can't be read, and for metrics of other types.
func (r *Readings) Total(m *MetricSpec, o *Options) (milli int64, ok bool) {
	calculation := m.calculation()
	switch {
	case r.Error != "", r.SelectorError != "", len(r.Values) == 0, calculation == NoCalculation:
		return 0, false
	case m.Type == ObjectMetric:
		return r.Values[0].Milli, len(r.Values) == 1
	case m.Type != ExternalMetric:
		return 0, false
	case calculation == ValueCalculation:
		return sumForValue(r.Values, o.profile().uncappedSums), true
	}
	return sumForAverageValue(r.Values, o.profile().uncappedSums), true
}

// Add adds a value with its timestamp, the zero time if unknown.
func (r *Readings) Add(taken time.Time, v Value) {
	if len(r.Values) == 0 {
		r.Timestamp = taken
	}
	r.Values = append(r.Values, v)
}

// Value is one value of a metric in milli-units.
type Value struct {
	// Pod is the pod's name; for Pods metrics.
	Pod   string
	Milli int64
}
