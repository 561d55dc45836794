package admission

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/tap"

	"github.com/setpoint-dev/setpoint/server/limit"
)

// Enter lets calls in as their headers are read, or refuses them there, which is the
// cheapest.
func (g *Guard) Enter(ctx context.Context, info *tap.Info) (context.Context, error) {
	l := g.Limiter
	if limit.Exempt(info.FullMethodName) {
		return g.enterExempt(ctx, info)
	}
	a := &struct {
		admitted
		own limit.Ticket
	}{admitted: admitted{Context: ctx}}
	a.ticket = &a.own
	if reason := g.clogged(ctx); reason != 0 {
		a.refusal = l.Refuse(reason)
	} else {
		a.refusal = l.Enter(a.ticket, connectionOf(ctx).Origin())
	}
	if a.refusal.Refused() {
		if l.AnswerEarly(ctx) {
			g.options.Calls.Of(info.FullMethodName).Refused(codes.ResourceExhausted)
			return ctx, a.refusal.Err()
		}
		return &a.admitted, nil
	}
	// A call may end before its goroutine runs.
	context.AfterFunc(ctx, a.ticket.Abandon)
	return &a.admitted, nil
}

// enterExempt lets a call in that must be answered however great the load. Of one connection
// only so many may be open: who goes on after it was told so has the connection closed.
func (g *Guard) enterExempt(ctx context.Context, info *tap.Info) (context.Context, error) {
	conn := connectionOf(ctx)
	if conn == nil {
		return ctx, nil
	}
	if conn.BeginExempt() {
		context.AfterFunc(ctx, conn.EndExempt)
		return ctx, nil
	}
	if !g.Limiter.AnswerEarly(ctx) {
		_ = conn.Close()
	}
	g.options.Calls.Of(info.FullMethodName).Refused(codes.ResourceExhausted)
	return ctx, g.Limiter.Refuse(limit.ExemptCalls).Err()
}

// clogged says why no more calls are taken from a connection: too many calls wait for their
// messages, and many of them on this one, or it has too many answers that nobody reads.
func (g *Guard) clogged(ctx context.Context) limit.Reason {
	conn := ConnOf(ctx)
	if conn == nil {
		return 0
	}
	switch unsent := conn.Unsent(); {
	case unsent > MostUnsent, unsent > fewUnsent && g.Limiter.Shedding():
		return limit.Unread
	case conn.Waiting() >= busyWaiting && g.Limiter.Shedding():
		return limit.Overload
	case g.Limiter.Waiting() >= waitingFactor*g.options.Limits.InFlight && conn.Waiting() >= fairWaiting:
		return limit.Unfinished
	}
	return 0
}
