package status

import (
	"context"
	"errors"
	"fmt"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
)

// noted is a platform whose reconciles are recorded in a book. It implements agent.Watched and
// agent.Teller.
type noted struct {
	agent.Platform
	teller agent.Teller // nil: the platform is not a Teller
	book   *Book
}

// Note returns the platform, and records its reconciles. It can be watched if the platform can.
func (b *Book) Note(p agent.Platform) agent.Watched {
	n := &noted{Platform: p, book: b}
	n.teller, _ = p.(agent.Teller)
	return n
}

// Object implements agent.Platform.
func (n *noted) Object(ctx context.Context, key agent.Key, before *agent.Object) (*agent.Object, error) {
	o, err := n.Platform.Object(ctx, key, before)
	switch {
	case errors.Is(err, agent.ErrGone):
		n.book.forget(key)
		return nil, err
	case err != nil:
		n.book.unread(key, err)
		return nil, err
	}
	if o.Held == "" {
		if reason := n.book.heldBefore(key, o.UID); reason != "" {
			copied := *o
			copied.Held = reason
			o = &copied
		}
	}
	return o, nil
}

// Observe implements agent.Platform.
func (n *noted) Observe(ctx context.Context, o *agent.Object) (*agent.Observation, error) {
	seen, err := n.Platform.Observe(ctx, o)
	var held *agent.HoldError
	if err != nil && !errors.As(err, &held) {
		n.book.failed(o.Key, err)
	}
	// Kubernetes' autoscalers keep this in their status. A service that has lost its histories would take the object for
	// one that somebody has switched off, for good.
	if err == nil && seen.Request.GetPreviousStatus() == nil && seen.Request.GetScale() != nil && seen.Request.GetScale().GetSpecReplicas() == 0 && n.book.isIdle(o.Key, o.UID) {
		seen.Request.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{
			Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "ScaledToZero", Status: "True", Reason: "ScaledToZero"}},
		}
	}
	return seen, err
}

// Watch implements agent.Watched.
func (n *noted) Watch(ctx context.Context, changed func(agent.Key)) error {
	watched, ok := n.Platform.(agent.Watched)
	if !ok {
		return fmt.Errorf("%T has a queue of its own", n.Platform)
	}
	n.book.watched("")
	err := watched.Watch(ctx, changed)
	if err != nil && ctx.Err() == nil {
		n.book.watched("objects are not watched: " + err.Error())
	}
	return err
}

// Tell implements agent.Teller.
func (n *noted) Tell(ctx context.Context, t *agent.Telling) {
	n.book.note(t)
	if n.teller != nil {
		n.teller.Tell(ctx, t)
	}
}
