package recommender

// Reasons of conditions, in upstream's words; see LimitReason for those of ScalingLimited.
// Stored histories, metrics and agents depend on these names.
const (
	// Of AbleToScale, while the scale is read and written.
	SucceededGetScale = "SucceededGetScale"
	FailedGetScale    = "FailedGetScale"
	SucceededRescale  = "SucceededRescale"
	FailedUpdateScale = "FailedUpdateScale"

	// Of AbleToScale, after stabilization or, in profile cooldown, the delays.
	ReadyForNewScale    = "ReadyForNewScale"
	ScaleUpStabilized   = "ScaleUpStabilized"
	ScaleDownStabilized = "ScaleDownStabilized"
	BackoffUpscale      = "BackoffUpscale"
	BackoffDownscale    = "BackoffDownscale"
	BackoffBoth         = "BackoffBoth"

	// HistoryUnavailable is this project's own: a scale-down is withheld while the history
	// store is unreachable.
	HistoryUnavailable = "HistoryUnavailable"

	// Of ScalingActive. Those of a failed metric are reasons of events, too.
	ValidMetricFound                 = "ValidMetricFound"
	ScalingDisabled                  = "ScalingDisabled"
	FailedGetResourceMetric          = "FailedGetResourceMetric"
	FailedGetContainerResourceMetric = "FailedGetContainerResourceMetric"
	FailedGetPodsMetric              = "FailedGetPodsMetric"
	FailedGetObjectMetric            = "FailedGetObjectMetric"
	FailedGetExternalMetric          = "FailedGetExternalMetric"
	InvalidMetricSourceType          = "InvalidMetricSourceType"

	// Of the condition ScaledToZero, besides the one of the same name.
	NotScaledToZero = "NotScaledToZero"
)

// Reasons of events only, in upstream's words.
const (
	SuccessfulRescale            = "SuccessfulRescale"
	FailedRescale                = "FailedRescale"
	FailedComputeMetricsReplicas = "FailedComputeMetricsReplicas"
	// FailedGetMetrics is for profile design-2015, which has one metric.
	FailedGetMetrics = "FailedGetMetrics"
)
