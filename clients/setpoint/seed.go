package setpoint

import (
	"strings"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Bounds on the readings in a status that is sent along: their number and bytes.
const (
	maxSeedMetrics     = 100
	maxSeedMetricBytes = 16 << 10
)

// Seed returns the part of an autoscaler's stored status that a first evaluation needs, as
// previous_status of a request. A stored status may hold anything: Seed leaves out what no
// evaluation writes and clips texts, so that the service does not refuse the request and
// CheckAnswer does not refuse the answer. It does not change the status; nil returns nil.
func Seed(status *setpointv1.HorizontalPodAutoscalerStatus) *setpointv1.HorizontalPodAutoscalerStatus {
	if status == nil {
		return nil
	}
	seed := &setpointv1.HorizontalPodAutoscalerStatus{
		CurrentReplicas: max(0, status.GetCurrentReplicas()),
		DesiredReplicas: max(0, status.GetDesiredReplicas()),
	}
	if status.ObservedGeneration != nil && status.GetObservedGeneration() >= 0 {
		seed.ObservedGeneration = status.ObservedGeneration
	}
	if isInstant(status.GetLastScaleTime()) {
		seed.LastScaleTime = status.GetLastScaleTime()
	}
	metrics, err := proto.Marshal(&setpointv1.HorizontalPodAutoscalerStatus{CurrentMetrics: status.GetCurrentMetrics()})
	if err == nil && len(status.GetCurrentMetrics()) <= maxSeedMetrics && len(metrics) <= maxSeedMetricBytes { // not UTF-8: no request could be sent
		seed.CurrentMetrics = status.GetCurrentMetrics()
	}
	seen := map[string]bool{}
	for _, c := range status.GetConditions() {
		clipped := &setpointv1.HorizontalPodAutoscalerCondition{
			Type: c.GetType(), Status: c.GetStatus(), Reason: c.GetReason(), Message: clip(c.GetMessage()),
		}
		if isInstant(c.GetLastTransitionTime()) {
			clipped.LastTransitionTime = c.GetLastTransitionTime()
		}
		if isSeedType(clipped.GetType()) && conditionProblem(clipped, seen) == "" {
			seed.Conditions = append(seed.Conditions, clipped)
		}
	}
	return seed
}

// isSeedType reports whether every service that takes a seed knows conditions of that type.
func isSeedType(of string) bool {
	switch of {
	case "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero":
		return true
	case "Overridden", "ExternalMetricFallbackActive", "MetricFallbackActive", "MetricSuspect": // of stages
		return true
	}
	return false
}

// clip bounds a text.
func clip(text string) string {
	if len(text) > maxAnswerText {
		text = text[:maxAnswerText]
	}
	return strings.ToValidUTF8(text, "")
}
