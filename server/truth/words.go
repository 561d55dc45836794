package truth

// words are texts that most decisions have. A chunk names them by their place here, which never changes:
// new ones come last.
var words = [...]string{
	"True", "False", "Unknown",
	"AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero", "Overridden",
	"ReadyForNewScale", "recommended size matches current size",
	"SucceededRescale", "SucceededGetScale", "the HPA controller was able to get the target's current scale",
	"ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation",
	"ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation",
	"BackoffBoth", "BackoffDownscale", "BackoffUpscale", "FailedUpdateScale", "FailedGetScale",
	"ValidMetricFound",
	"the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
	"the HPA was able to successfully calculate a replica count from memory resource utilization (percentage of request)",
	"the HPA was able to successfully calculate a replica count from cpu resource",
	"the HPA was able to successfully calculate a replica count from memory resource",
	"ScalingDisabled", "scaling is disabled since the replica count of the target is zero",
	"FailedGetResourceMetric", "FailedGetContainerResourceMetric", "FailedGetPodsMetric", "FailedGetObjectMetric", "FailedGetExternalMetric",
	"InvalidMetricSourceType", "InvalidSelector", "SelectorRequired", "AmbiguousSelector", "InvalidKind",
	"DesiredWithinRange", "the desired count is within the acceptable range",
	"TooFewReplicas", "the desired replica count is less than the minimum replica count",
	"TooManyReplicas", "the desired replica count is more than the maximum replica count",
	"ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate",
	"ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate",
	"All metrics below target", "memory resource utilization (percentage of request) above target", "cpu resource utilization (percentage of request) above target",
	"no metrics returned from resource metrics API", "no metrics returned from custom metrics API", "no metrics returned from external metrics API",
}

// wordsByText finds them.
var wordsByText = func() map[string]int {
	all := make(map[string]int, len(words))
	for i, word := range words {
		all[word] = i
	}
	return all
}()
