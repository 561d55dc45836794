package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// FleetOf says for people what share of the fleet of that name an answer is, such as "share 4 of 12 of
// fleet clusters/f/namespaces/n/targets/t, drained; lost members: 1". Empty: the answer is no share.
func FleetOf(answer *setpointv1.RecommendResponse, fleet string) string {
	f := answer.GetFleet()
	if f == nil {
		return ""
	}
	text := fmt.Sprintf("share %d of %d of fleet %s", answer.GetDesiredReplicas(), f.GetShareTotal(), fleet)
	switch {
	case f.GetDecisionTime() == nil:
		text = fmt.Sprintf("the fleet %s has not decided yet", fleet)
	case f.GetHolds():
		text = fmt.Sprintf("the fleet holds: %s knows too little to give a share", fleet)
	case ownCount(answer):
		text = fmt.Sprintf("its own bounds or an override limit its share of %d of fleet %s", f.GetShareTotal(), fleet)
	}
	if f.GetDrained() {
		text += ", drained"
	}
	if state := f.GetState(); state != "" && state != "FRESH" {
		text += ", " + strings.ToLower(state)
	}
	members := f.GetMembers()
	for _, one := range []struct {
		n    int32
		what string
	}{
		{f.GetUnplacedReplicas(), "%d replicas that no member can take"}, {f.GetMissingReplicas(), "%d replicas too few if the largest member is lost"},
		{members.GetLost(), "lost members: %d"}, {members.GetStale(), "stale members: %d"}, {members.GetUnseen(), "members that never called: %d"},
	} {
		if one.n > 0 {
			text += "; " + fmt.Sprintf(one.what, one.n)
		}
	}
	return text
}

// ownCount reports whether a member's count is not its share, by the bounds of its own spec or an override.
func ownCount(answer *setpointv1.RecommendResponse) bool {
	one := decisive(answer)
	return one.GetStage() == "OVERRIDE" || slices.ContainsFunc(answer.GetStatus().GetConditions(), func(c *setpointv1.HorizontalPodAutoscalerCondition) bool {
		return c.GetReason() == "TooFewReplicas" || c.GetReason() == "TooManyReplicas"
	})
}

// isBlind reports whether to tell the fleet of a member, in each period, that the member can't be seen: one that is silent is
// lost, and others may get its share although it runs on. A read that has failed once is tried again first.
func (r *reconcile) isBlind() bool {
	return r.o.Spec != nil && r.o.Fleet != "" && (r.o.Hold == nil || r.o.callsHeld()) &&
		r.st.failures+r.st.unread > 0 && time.Since(r.st.settled) >= r.o.Period
}

// tellBlind tells it, and why.
func (r *reconcile) tellBlind(ctx context.Context, why error) (*evaluation, error) {
	e := &evaluation{Decision: Decision{Key: r.o.Key, Request: &setpointv1.RecommendRequest{
		Spec: r.o.Spec, ScaleError: &setpointv1.ScaleError{Message: Shorten(why.Error())},
	}}}
	return e, r.ask(ctx, e)
}

// tellFleet emits an event when what a fleet makes of its member begins to need attention, and no further
// one while it does.
func (r *reconcile) tellFleet(e *evaluation) {
	f := e.Answer.GetFleet()
	kind, what := warning, ""
	switch {
	case f.GetHolds() && f.GetDecisionTime() != nil:
		what = "holds"
	case f.GetDrained():
		kind, what = normal, "drained"
	case f.GetMembers().GetLost() > 0:
		what = "lost"
	case f.GetUnplacedReplicas() > 0:
		what = "unplaced"
	case f.GetMissingReplicas() > 0:
		what = "missing"
	}
	if !r.st.fleet.begins(what) {
		return
	}
	text := Shorten(FleetOf(e.Answer, e.Request.GetFleet()))
	r.once.say(r.log, zapcore.InfoLevel, "fleet", what, zap.String("fleet", text))
	r.telling.event(kind, EventFleet, text)
}

// tellShare emits the controller's event of a changed count for a fleet's share: what is reported has it from the service.
func (r *reconcile) tellShare(e *evaluation) {
	if e.Answer.GetFleet() == nil || !e.changes() {
		return
	}
	text := fmt.Sprintf("New size: %d", e.Answer.GetDesiredReplicas())
	if why := reasonOf(e.Answer); why != "" {
		text += "; reason: " + why
	}
	if e.Applied {
		r.telling.event(normal, "SuccessfulRescale", Shorten(text))
		return
	}
	r.telling.event(warning, "FailedRescale", Shorten(text+"; error: "+e.ApplyError.Error()))
}
