package nomad

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// Keys of an event's metadata.
const (
	metaRecommendation = "setpoint.recommendation"
	metaReason         = "setpoint.reason"
	metaFrom           = "setpoint.from"
	metaTo             = "setpoint.to"
	metaShadow         = "setpoint.shadow"
)

// shadowEvery is the minimum time between two events of a shadow: Nomad keeps 20 events per
// group, including counts of others.
const shadowEvery = time.Minute

// Tell implements agent.Teller: it writes an event without a count for a shadow's decision, and
// an error event for a wrong policy, and for what the service refuses. A dry run of the whole agent writes nothing, not even for
// groups that are shadows by their policy.
func (p *Platform) Tell(ctx context.Context, t *agent.Telling) {
	wants := t.Object.Native.(*scaled)
	own := wants.Policy != nil && wants.Shadow
	if d := t.Decision; d != nil && (d.Applied || d.Answer.GetCurrentReplicas() == d.Answer.GetDesiredReplicas()) {
		p.turns.wants(wants.group, false, 0)
	}
	if t.Dry || t.Object.Shadow && !own {
		return
	}
	switch {
	case t.Hold != nil && slices.Contains([]string{agent.ReasonInvalidObject, agent.ReasonConflictingAutoscaler, agent.ReasonRecommendationRefused}, t.Hold.Reason):
		p.tellWrong(ctx, t, wants, t.Hold.Reason+": "+t.Hold.Message)
	case t.Decision != nil && own:
		p.tellShadow(ctx, t, wants)
	case t.Decision != nil:
		wants.kept.lastEvent = ""
	}
}

// tellShadow writes an event for a decision that is not applied, if it differs from the
// previous one.
func (p *Platform) tellShadow(ctx context.Context, t *agent.Telling, wants *scaled) {
	answer := t.Decision.Answer
	from, to := answer.GetCurrentReplicas(), answer.GetDesiredReplicas()
	told := fmt.Sprintf("shadow: %d → %d", from, to)
	if from == to {
		wants.kept.lastEvent = ""
		return
	}
	if told == wants.kept.lastEvent || time.Since(wants.kept.lastEventAt) < shadowEvery {
		return
	}
	wants.kept.lastEventAt = time.Now()
	if p.event(ctx, t, wants, Scaling{
		Message: agent.Shorten(told + ": " + agent.FiguresOf(answer, t.Decision.Request).With(answer.GetReason())),
		Meta: map[string]any{
			metaShadow: true, metaRecommendation: answer.GetRecommendationId(), metaReason: agent.Why(answer), metaFrom: from, metaTo: to,
		},
	}) {
		wants.kept.lastEvent = told
	}
}

// tellWrong writes an event about why a group is not scaled, once, and not if an earlier agent
// already did. It retries a failed write. What the service says may change with each answer.
func (p *Platform) tellWrong(ctx context.Context, t *agent.Telling, wants *scaled, message string) {
	message = agent.Shorten(message)
	seldom := wants.kept.eventError != "" || t.Hold.Reason == agent.ReasonRecommendationRefused
	if message == wants.kept.lastEvent || seldom && time.Since(wants.kept.lastEventAt) < shadowEvery {
		return
	}
	wants.kept.lastEventAt = time.Now()
	reading, cancel := context.WithTimeout(ctx, p.options.ReadTimeout)
	defer cancel()
	status, _, err := p.client.Jobs().ScaleStatus(wants.group.Job, p.read.options(reading, wants.group.Namespace))
	if err != nil {
		p.logEventError(t, wants, err)
		return
	}
	written := slices.ContainsFunc(status.TaskGroups[wants.group.Name].Events, func(e api.ScalingEvent) bool { return e.Message == message })
	if written || p.event(ctx, t, wants, Scaling{Message: message, Error: true}) {
		wants.kept.lastEvent, wants.kept.eventError = message, ""
	}
}

// event writes an event, and reports whether it succeeded. The handler of Nomad's server panics
// at an event of a system job, but system jobs have no scaling block.
func (p *Platform) event(ctx context.Context, t *agent.Telling, wants *scaled, s Scaling) bool {
	ctx, cancel := context.WithTimeout(ctx, p.options.ReadTimeout)
	defer cancel()
	began := time.Now()
	_, err := Scale(ctx, p.client, wants.group, s)
	t.Wrote(began)
	if err != nil {
		p.logEventError(t, wants, err)
		return false
	}
	wants.kept.eventError = ""
	return true
}

// logEventError logs why an event was not written, once per reason.
func (p *Platform) logEventError(t *agent.Telling, wants *scaled, err error) {
	text := strings.TrimSpace(agent.Shorten(err.Error()))
	if text != wants.kept.eventError {
		p.options.Log.Warn("event not written", zap.Stringer("object", t.Object.Key), zap.String("error", text))
	}
	wants.kept.eventError = text
}
