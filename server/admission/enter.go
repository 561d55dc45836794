package admission

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/tap"

	"github.com/setpoint-dev/setpoint/server/limit"
)

// Enter admits or refuses calls as soon as their headers are read, which is cheapest.
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
	if reason := g.connectionRefusal(ctx); reason != 0 {
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
	// The call may end before its goroutine runs.
	context.AfterFunc(ctx, a.ticket.Abandon)
	return &a.admitted, nil
}

// enterExempt admits a call that must be served under any load. A connection may have only some
// of them open, and none beyond its unread responses; one that continues after refusals is closed.
func (g *Guard) enterExempt(ctx context.Context, info *tap.Info) (context.Context, error) {
	conn := connectionOf(ctx)
	if conn == nil {
		return ctx, nil
	}
	reason := limit.Unread
	if Unsent(ctx) <= MostUnsent {
		if conn.BeginExempt() {
			context.AfterFunc(ctx, conn.EndExempt)
			return ctx, nil
		}
		reason = limit.ExemptCalls
	}
	if !g.Limiter.AnswerEarly(ctx) {
		_ = conn.Close()
	}
	g.options.Calls.Of(info.FullMethodName).Refused(codes.ResourceExhausted)
	return ctx, g.Limiter.Refuse(reason).Err()
}

// connectionRefusal returns why a connection may make no more calls: too many calls wait for their
// messages, many of them on this connection, or it has too many unread responses. 0: it may.
func (g *Guard) connectionRefusal(ctx context.Context) limit.Reason {
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
