package recommender

import "strings"

// Spec is the user's specification: an autoscaling/v2 HorizontalPodAutoscalerSpec with
// the API's defaults applied. Quantities are milli-units.
type Spec struct {
	// ScaleTargetRef names the workload in texts.
	ScaleTargetRef ObjectReference
	// MinReplicas and MaxReplicas bound the count.
	MinReplicas, MaxReplicas int32
	// Metrics are evaluated in order; none is not allowed (the API defaults it).
	Metrics []MetricSpec
	// Behavior is nil when the user gave none, which is not the same as a
	// defaulted one.
	Behavior *Behavior
}

// ObjectReference names an object of the target's namespace.
type ObjectReference struct {
	Kind, Name, APIVersion string
}

// APIGroup returns the group of an API version: "apps" of "apps/v1", "" of "v1". One with several
// slashes counts as the core group's, as Kubernetes reads it.
func APIGroup(apiVersion string) string {
	group, version, found := strings.Cut(apiVersion, "/")
	if !found || strings.Contains(version, "/") {
		return ""
	}
	return group
}

// MetricType is the kind of a metric's source, in the API's words.
type MetricType string

// The metric types. Any other fails as upstream's "unknown metric source type".
const (
	ResourceMetric          MetricType = "Resource"
	ContainerResourceMetric MetricType = "ContainerResource"
	PodsMetric              MetricType = "Pods"
	ObjectMetric            MetricType = "Object"
	ExternalMetric          MetricType = "External"
)

// MetricSpec is one metric and its target.
type MetricSpec struct {
	Type MetricType
	// Resource is the resource's name: Resource and ContainerResource.
	Resource string
	// Container is the container's name: ContainerResource.
	Container string
	// Metric identifies the metric: Pods, Object and External.
	Metric MetricIdentifier
	// DescribedObject is the object that the metric describes: Object.
	DescribedObject ObjectReference
	Target          MetricTarget
}

// MetricIdentifier is the identity of a custom or external metric.
type MetricIdentifier struct {
	Name string
	// Selector is nil when there is none; an empty one selects the same but
	// prints differently.
	Selector *LabelSelector
}

// LabelSelector is a Kubernetes label selector, for texts and for the status: readings
// are already matched to metrics.
type LabelSelector struct {
	// MatchLabels are sorted by key.
	MatchLabels []Label
	// MatchExpressions keep the spec's order.
	MatchExpressions []LabelRequirement
}

// Label is one key and its value.
type Label struct{ Key, Value string }

// LabelRequirement is one expression of a selector.
type LabelRequirement struct {
	Key, Operator string
	Values        []string
}

// Target types of a metric. They matter for Object metrics only; elsewhere the field
// that is set counts.
const (
	UtilizationTarget  = "Utilization"
	ValueTarget        = "Value"
	AverageValueTarget = "AverageValue"
)

// MetricTarget is the target of a metric. Fields that are not set are nil.
type MetricTarget struct {
	Type string
	// Value is a total, milli-units.
	Value *int64
	// AverageValue is an average per replica, milli-units.
	AverageValue *int64
	// AverageUtilization is a percentage of the request.
	AverageUtilization *int32
}

// Behavior holds the rules per direction, with the API's defaults applied.
type Behavior struct {
	ScaleUp, ScaleDown ScalingRules
}

// ScalingRules are the rules of one direction.
type ScalingRules struct {
	// StabilizationWindowSeconds may be nil only downwards: the DownscaleStabilization
	// option then applies.
	StabilizationWindowSeconds *int32
	SelectPolicy               SelectPolicy
	Policies                   []ScalingPolicy
	// Tolerance is nil where the Tolerance option applies.
	Tolerance *float64
}

// SelectPolicy says which of several policies decides.
type SelectPolicy string

// The select policies: the one that allows the most change, the least, or none at all.
const (
	MaxChange   SelectPolicy = "Max"
	MinChange   SelectPolicy = "Min"
	NoSelection SelectPolicy = "Disabled"
)

// PolicyType is the kind of a scaling policy.
type PolicyType string

// The policy types.
const (
	PodsPolicy    PolicyType = "Pods"
	PercentPolicy PolicyType = "Percent"
)

// ScalingPolicy limits the change over the last PeriodSeconds.
type ScalingPolicy struct {
	Type PolicyType
	// Value is replicas or percent.
	Value         int32
	PeriodSeconds int32
}

// DefaultMetrics returns the API's default for a spec without metrics: cpu at 80 % of
// its request.
func DefaultMetrics() []MetricSpec {
	utilization := int32(80)
	return []MetricSpec{{
		Type:     ResourceMetric,
		Resource: "cpu",
		Target:   MetricTarget{Type: UtilizationTarget, AverageUtilization: &utilization},
	}}
}

// DefaultScaleUp returns the API's rules for scaling up: no stabilization, the
// larger of 4 pods and 100 % per 15 s.
func DefaultScaleUp() ScalingRules {
	window := int32(0)
	return ScalingRules{
		StabilizationWindowSeconds: &window,
		SelectPolicy:               MaxChange,
		Policies: []ScalingPolicy{
			{Type: PodsPolicy, Value: 4, PeriodSeconds: 15},
			{Type: PercentPolicy, Value: 100, PeriodSeconds: 15},
		},
	}
}

// DefaultScaleDown returns the API's rules for scaling down: the controller's
// stabilization window, 100 % per 15 s.
func DefaultScaleDown() ScalingRules {
	return ScalingRules{
		SelectPolicy: MaxChange,
		Policies:     []ScalingPolicy{{Type: PercentPolicy, Value: 100, PeriodSeconds: 15}},
	}
}
