package recommender

// Reasons of conditions, in upstream's words; see LimitReason for those of ScalingLimited.
// Stored histories, metrics and agents know them by these names only.
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
	// store can't be reached.
	HistoryUnavailable = "HistoryUnavailable"

	// Of ScalingActive. Those of a metric that failed are reasons of events, too.
	ValidMetricFound                 = "ValidMetricFound"
	ScalingDisabled                  = "ScalingDisabled"
	FailedGetResourceMetric          = "FailedGetResourceMetric"
	FailedGetContainerResourceMetric = "FailedGetContainerResourceMetric"
	FailedGetPodsMetric              = "FailedGetPodsMetric"
	FailedGetObjectMetric            = "FailedGetObjectMetric"
	FailedGetExternalMetric          = "FailedGetExternalMetric"
	InvalidMetricSourceType          = "InvalidMetricSourceType"

	// Of the condition ScaledToZero, beside the one of its own name.
	NotScaledToZero = "NotScaledToZero"
)

// Reasons of events only, in upstream's words.
const (
	SuccessfulRescale            = "SuccessfulRescale"
	FailedRescale                = "FailedRescale"
	FailedComputeMetricsReplicas = "FailedComputeMetricsReplicas"
	// FailedGetMetrics is of profile design-2015, which knows one metric.
	FailedGetMetrics = "FailedGetMetrics"
)
