package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// sight is what a shadow last asked about. The zero value: nothing.
type sight struct {
	known bool
	// replicas is the count, desired what the shadow decided about it.
	replicas, desired int32
	// scaled is when the controller in charge had last scaled.
	scaled time.Time
	// late reports whether the count has changed since, and the controller's status did not show
	// a scale yet.
	late bool
}

// see returns what the shadow asks about now. A scale of the controller in charge is first noted
// at the service: the shadow's policies would not count it otherwise, as it decided nothing of it.
// Nil: what was seen before stands.
func (r *reconcile) see(ctx context.Context, e *evaluation) (*sight, error) {
	scale := e.Request.GetScale()
	if !r.o.Shadow || r.o.Fleet != "" || e.Observation.InCharge == nil || scale == nil || e.Request.ScaleError != nil {
		return nil, nil
	}
	was, is := &r.st.sight, &sight{known: true, replicas: scale.GetSpecReplicas(), scaled: e.Observation.LastScale}
	switch scaled := is.scaled.After(was.scaled); {
	case !was.known:
		r.uncounted(e, fmt.Sprintf("the scale there of %s is older than the history here, whose policies do not count it", is.scaled.UTC().Format(time.RFC3339)))
		if is.replicas == 0 {
			return is, r.noteScale(ctx, e, 1) // no policy counts that either
		}
	case was.replicas == is.replicas, was.desired == is.replicas:
		// The service finds its own decision applied.
	case !scaled && !was.late:
		was.late = true // the count is written before the status
		return nil, nil
	case !scaled, e.Observation.InCharge.Replicas != is.replicas:
		// Somebody else changed the count: the controller does not count that either.
	default:
		return is, r.noteScale(ctx, e, was.replicas)
	}
	return is, nil
}

// noteScale makes the change from that count a scale event of the shadow, as if its policies had counted
// the decision of the controller in charge: it asks about the former count with the present one as
// both bounds, which the service decides without windows and metrics, and finds applied in the next
// request. It asks about the present count first, because after a pause windows begin anew with the
// count of the first request.
func (r *reconcile) noteScale(ctx context.Context, e *evaluation, from int32) error {
	to := e.Request.GetScale().GetSpecReplicas()
	question, counts := proto.CloneOf(e.Request), []int32{to, from}
	switch question.Explain = false; {
	case to == 0:
		if !scaledToZero(e.Request.GetPreviousStatus()) {
			return nil // somebody else switched scaling off
		}
		scaleToZero(question)
		counts = counts[1:]
	case from != 0 && question.GetSpec().GetBehavior() == nil:
		return nil // no change counts
	default:
		question.Spec.MinReplicas, question.Spec.MaxReplicas = &to, to
	}
	r.lost() // what it decides is no decision of the shadow
	n := &evaluation{Decision: Decision{Key: r.o.Key, Shadow: true, Observation: e.Observation}}
	for _, count := range counts {
		n.asked, n.Request = time.Now(), proto.CloneOf(question)
		n.Request.RequestId, n.Request.Scale.SpecReplicas = rand.Text(), count
		var err error
		if n.Answer, err = r.asker.recommend(ctx, n.Request); err == nil {
			err = r.check(n)
		}
		if err != nil {
			return err
		}
	}
	if n.Answer.GetDesiredReplicas() != to {
		r.uncounted(e, fmt.Sprintf("policies here do not count the scale there from %d to %d", from, to))
	}
	return nil
}

// scaledToZero reports whether the status's writer scaled to zero, and so may scale up again.
func scaledToZero(status *setpointv1.HorizontalPodAutoscalerStatus) bool {
	return conditionOf(status, "ScaledToZero").GetStatus() == "True"
}

// scaleToZero makes the request one that is decided with 0 replicas: as 0 is no maximum, a metric
// without load decides, without windows and policies. No policy counts the change, and the service may
// scale up after it. No window begins anew with it, because nothing is below zero.
func scaleToZero(req *setpointv1.RecommendRequest) {
	if req.Options == nil {
		req.Options = &setpointv1.RecommendOptions{}
	}
	req.Options.DownscaleStabilization, req.RestartAfterPause = durationpb.New(0), false
	idle := &setpointv1.MetricIdentifier{Name: "idle"}
	req.Spec.Behavior, req.Spec.Metrics = nil, []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
		Metric: idle, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("1")},
	}}}
	req.Stages, req.Proposals, req.SelectorProblem, req.MetricErrors = nil, nil, nil, nil
	req.Pods, req.PodMetrics, req.CustomMetrics = nil, nil, nil
	req.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: idle, Value: "0"}}
}

// uncounted makes comparisons tell of a scale that the shadow's policies do not count, for as long
// as those of the controller in charge do.
func (r *reconcile) uncounted(e *evaluation, text string) {
	longest := int32(0)
	behavior := e.Request.GetSpec().GetBehavior()
	for _, rules := range []*setpointv1.HPAScalingRules{behavior.GetScaleUp(), behavior.GetScaleDown()} {
		for _, p := range rules.GetPolicies() {
			longest = max(longest, p.GetPeriodSeconds())
		}
	}
	r.st.uncounted, r.st.uncountedUntil = text, e.Observation.LastScale.Add(time.Duration(longest)*time.Second+r.o.Period)
}
