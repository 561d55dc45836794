package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

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
	case was.replicas == is.replicas, was.desired == is.replicas:
		// The service finds its own decision applied.
	case !scaled && !was.late:
		was.late = true // the count is written before the status
		return nil, nil
	case !scaled, e.Observation.InCharge.Replicas != is.replicas:
		// Somebody else changed the count: the controller does not count that either.
	default:
		return is, r.note(ctx, e, was.replicas)
	}
	return is, nil
}

// note makes the change from that count a scale event of the shadow, as if its policies had counted
// the decision of the controller in charge: it asks about the former count with the present one as
// both bounds, which the service decides without windows and metrics, and finds applied in the next
// request.
func (r *reconcile) note(ctx context.Context, e *evaluation, from int32) error {
	to := e.Request.GetScale().GetSpecReplicas()
	if to == 0 || from != 0 && e.Request.GetSpec().GetBehavior() == nil {
		return nil // without a behavior no change counts; 0 is no maximum
	}
	n := &evaluation{asked: time.Now(), Decision: Decision{Key: r.o.Key, Shadow: true, Observation: e.Observation}}
	n.Request = proto.Clone(e.Request).(*setpointv1.RecommendRequest)
	n.Request.RequestId, n.Request.Explain = rand.Text(), false
	n.Request.Spec.MinReplicas, n.Request.Spec.MaxReplicas = &to, to
	n.Request.Scale.SpecReplicas = from
	var err error
	if n.Answer, err = r.asker.recommend(ctx, n.Request); err == nil {
		err = r.check(n)
	}
	if err == nil && n.Answer.GetDesiredReplicas() != to {
		r.uncounted(e, fmt.Sprintf("policies here do not count the scale there from %d to %d", from, to))
	}
	return err
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
