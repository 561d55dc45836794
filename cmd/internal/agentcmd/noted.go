package agentcmd

import (
	"context"
	"errors"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// noted is a platform whose reconciles are recorded in a book. It implements agent.Watched and
// agent.Teller.
type noted struct {
	agent.Watched
	teller agent.Teller // nil: the platform is not a Teller
	book   *book
}

// Object implements agent.Platform.
func (n *noted) Object(ctx context.Context, key agent.Key) (*agent.Object, error) {
	o, err := n.Watched.Object(ctx, key)
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
	seen, err := n.Watched.Observe(ctx, o)
	var held *agent.HoldError
	if err != nil && !errors.As(err, &held) {
		n.book.failed(o.Key, err)
	}
	return seen, err
}

// Watch implements agent.Watched.
func (n *noted) Watch(ctx context.Context, changed func(agent.Key)) error {
	n.book.watched("")
	err := n.Watched.Watch(ctx, changed)
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

// Forget implements agent.Teller.
func (n *noted) Forget(key agent.Key, uid string) {
	n.book.forget(key)
	if n.teller != nil {
		n.teller.Forget(key, uid)
	}
}
