package integration

import (
	"net/http"
	"slices"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

// datadog is the contract of Datadog's external recommender. Its callers are the
// WatermarkPodAutoscaler and, for a DatadogPodAutoscaler, the cluster agent. The messages are
// the JSON of datadog.autoscaling.kubernetes.WorkloadRecommendationRequest and -Reply
// (github.com/DataDog/agent-payload). Their decoder refuses unknown fields.
type datadog struct{}

// workloadRequest has the fields used of a WorkloadRecommendationRequest. The cluster of
// its targetRef is Datadog's name for it, and empty if not set.
type workloadRequest struct {
	TargetRef struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"targetRef"`
	Constraints struct {
		MinReplicas int32 `json:"minReplicas"`
		MaxReplicas int32 `json:"maxReplicas"`
	} `json:"constraints"`
	State struct {
		DesiredReplicas int32  `json:"desiredReplicas"`
		CurrentReplicas *int32 `json:"currentReplicas"`
	} `json:"state"`
	Settings struct {
		Target *string `json:"target"`
	} `json:"settings"`
}

// workloadReply is a WorkloadRecommendationReply.
type workloadReply struct {
	Error              *workloadError   `json:"error,omitempty"`
	Timestamp          string           `json:"timestamp,omitempty"`
	TargetReplicas     *int32           `json:"targetReplicas,omitempty"`
	LowerBoundReplicas *int32           `json:"lowerBoundReplicas,omitempty"`
	UpperBoundReplicas *int32           `json:"upperBoundReplicas,omitempty"`
	ObservedTargets    []observedTarget `json:"observedTargets,omitempty"`
	Reason             string           `json:"reason,omitempty"`
}

type workloadError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

type observedTarget struct {
	Type        string  `json:"type"`
	TargetValue float64 `json:"targetValue"`
}

// Read implements Contract, as do those below. It uses the current replicas: a WatermarkPodAutoscaler's
// desired ones are the same, but a DatadogPodAutoscaler's are our last answer, which its own rules, or a person,
// may not have let through.
func (datadog) Read(cluster string, body []byte) (Question, []validation.Violation) {
	var req workloadRequest
	if violations := decode(body, &req); violations != nil {
		return Question{}, violations
	}
	q := Question{Key: store.Key{Cluster: cluster, Namespace: req.TargetRef.Namespace, Target: named(req.Settings.Target, req.TargetRef.Name)}}
	field := "targetRef.name"
	if req.Settings.Target != nil {
		field = "settings.target"
	}
	violations := names(
		place{"cluster", cluster, "must be the cluster of the target, in the address"},
		place{"targetRef.namespace", q.Key.Namespace, "must be the target's namespace"},
		place{field, q.Key.Target, "must be the target's name"},
	)
	read := func(field string, n *int32) *int32 {
		n, wrong := count(field, n)
		violations = append(violations, wrong...)
		return n
	}
	q.Current = read("state.currentReplicas", req.State.CurrentReplicas)
	if desired := read("state.desiredReplicas", &req.State.DesiredReplicas); q.Current == nil && desired != nil && *desired > 0 {
		q.Current = desired
	}
	q.Min = read("constraints.minReplicas", &req.Constraints.MinReplicas)
	if req.Constraints.MaxReplicas != 0 { // a bound of 0 means none
		q.Max = read("constraints.maxReplicas", &req.Constraints.MaxReplicas)
	}
	return q, violations
}

// Answer sets both bounds to the count: then WPA's conditions, and with them its delays,
// say whether the count will rise, fall or stay, whichever bound it uses for which
// direction.
func (datadog) Answer(_ Question, r *setpointv1.Recommendation) any {
	n := r.GetDesiredReplicas()
	return workloadReply{
		Timestamp:      r.GetEvaluationTime().AsTime().UTC().Format(time.RFC3339Nano),
		TargetReplicas: &n, LowerBoundReplicas: &n, UpperBoundReplicas: &n,
		ObservedTargets: observed(r.GetStatus().GetCurrentMetrics()), Reason: reason(r),
	}
}

// Refuse responds with 200 if the request was valid and the target has no count: with other
// statuses the users of some versions see only the status.
func (datadog) Refuse(q *Question, p Problem) (int, any) {
	code := p.Status
	if q != nil && (p.Status == http.StatusNotFound || p.Status == http.StatusBadRequest) {
		code = http.StatusOK
	}
	return code, workloadReply{Error: &workloadError{Code: p.Code, Message: p.Message}}
}

// reason is why the count changes, or does not.
func reason(r *setpointv1.Recommendation) string {
	if r.GetReason() != "" {
		return r.GetReason()
	}
	// The first that explains it: where no metric could be read, the conditions on limits are those of an earlier decision.
	stays := []func(c *setpointv1.HorizontalPodAutoscalerCondition) bool{
		is(stages.Overridden, recommender.ConditionTrue), is(recommender.AbleToScale, recommender.ConditionFalse), is(recommender.ScalingActive, recommender.ConditionFalse),
		func(c *setpointv1.HorizontalPodAutoscalerCondition) bool {
			return c.GetReason() == recommender.ScaleUpStabilized || c.GetReason() == recommender.ScaleDownStabilized
		},
		is(recommender.ScalingLimited, recommender.ConditionTrue), is(recommender.ScalingLimited, recommender.ConditionFalse),
	}
	conditions := r.GetStatus().GetConditions()
	for _, explains := range stays {
		if i := slices.IndexFunc(conditions, explains); i >= 0 {
			return conditions[i].GetMessage()
		}
	}
	return ""
}

func is(kind, status string) func(c *setpointv1.HorizontalPodAutoscalerCondition) bool {
	return func(c *setpointv1.HorizontalPodAutoscalerCondition) bool {
		return c.GetType() == kind && c.GetStatus() == status
	}
}

// observed are the readings of the decision, in the order of the spec: utilizations as
// fractions, others in their units.
func observed(metrics []*setpointv1.MetricStatus) (all []observedTarget) {
	for _, m := range metrics {
		var name string
		var value *setpointv1.MetricValueStatus
		switch {
		case m.GetResource() != nil:
			name, value = m.GetResource().GetName(), m.GetResource().GetCurrent()
		case m.GetContainerResource() != nil:
			name, value = m.GetContainerResource().GetName(), m.GetContainerResource().GetCurrent()
		case m.GetPods() != nil:
			name, value = m.GetPods().GetMetric().GetName(), m.GetPods().GetCurrent()
		case m.GetObject() != nil:
			name, value = m.GetObject().GetMetric().GetName(), m.GetObject().GetCurrent()
		case m.GetExternal() != nil:
			name, value = m.GetExternal().GetMetric().GetName(), m.GetExternal().GetCurrent()
		default:
			continue // it could not be read
		}
		if number, ok := numberOf(value); ok {
			all = append(all, observedTarget{Type: name, TargetValue: number})
		}
	}
	return all
}

func numberOf(v *setpointv1.MetricValueStatus) (float64, bool) {
	if v.AverageUtilization != nil {
		return float64(v.GetAverageUtilization()) / 100, true
	}
	text := v.GetAverageValue()
	if v.AverageValue == nil {
		text = v.GetValue()
	}
	milli, inRange, err := quantity.ParseMilli(text)
	return float64(milli) / 1000, err == nil && inRange
}
