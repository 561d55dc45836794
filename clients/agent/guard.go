package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// guarded makes errors of what an adapter must not do, so that one object does not end the agent. Each call has a time of
// its own: one that hangs takes none of the others', nor of the service's.
type guarded struct {
	Platform
	teller  Teller // nil: the platform is none
	timeout time.Duration
	log     *zap.Logger
	once    *once
}

// recovered turns a panic into the error; the log has its stack, once a minute.
func (g *guarded) recovered(key Key, call string, err *error) {
	caught := recover()
	if caught == nil {
		return
	}
	*err = fmt.Errorf("the platform's %s panicked: %v", call, caught)
	g.once.say(g.log, zapcore.ErrorLevel, "panic of the platform", call, zap.Stringer("object", key), zap.Error(*err), zap.ByteString("stack", debug.Stack()))
}

func (g *guarded) Object(ctx context.Context, key Key, before *Object) (o *Object, err error) {
	defer g.recovered(key, "Object", &err)
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	o, err = g.Platform.Object(ctx, key, before)
	if o == nil && err == nil {
		err = errors.New("the platform's Object returned neither an object nor an error")
	}
	return o, err
}

func (g *guarded) Observe(ctx context.Context, o *Object) (seen *Observation, err error) {
	defer g.recovered(o.Key, "Observe", &err)
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	seen, err = g.Platform.Observe(ctx, o)
	if err == nil && (seen == nil || seen.Request == nil) {
		err = errors.New("the platform's Observe returned neither a request nor an error")
	}
	return seen, err
}

func (g *guarded) Apply(ctx context.Context, o *Object, seen *Observation, change Change) (err error) {
	defer g.recovered(o.Key, "Apply", &err)
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	return g.Platform.Apply(ctx, o, seen, change)
}

// Tell implements Teller.
func (g *guarded) Tell(ctx context.Context, t *Telling) {
	if g.teller != nil {
		var err error
		defer g.recovered(t.Object.Key, "Tell", &err)
		ctx, cancel := context.WithTimeout(ctx, g.timeout)
		defer cancel()
		g.teller.Tell(ctx, t)
	}
}
