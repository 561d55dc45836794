package admission

import (
	"cmp"
	"context"
	"errors"

	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// admitted is the context of a call that was admitted when its headers were read, before it has
// a goroutine.
type admitted struct {
	context.Context
	ticket  *limit.Ticket
	refusal limit.Refusal
	// who is the result of authentication, if looked is true.
	who    identified
	looked bool
}

type admittedKey struct{}

// Value implements context.Context.
func (a *admitted) Value(key any) any {
	switch key {
	case admittedKey{}:
		return a
	case limit.TicketKey{}:
		if a.ticket != nil {
			return a.ticket
		}
	}
	return a.Context.Value(key)
}

func admittedOf(ctx context.Context) *admitted {
	a, _ := ctx.Value(admittedKey{}).(*admitted)
	return a
}

// TicketOf returns the ticket of a call, nil if it has none.
func TicketOf(ctx context.Context) *limit.Ticket {
	if a := admittedOf(ctx); a != nil {
		return a.ticket
	}
	return nil
}

// identifiedEarly returns the result of authentication before the message was read.
func identifiedEarly(ctx context.Context) (who identified, early bool) {
	if a := admittedOf(ctx); a != nil {
		return a.who, a.looked
	}
	return identified{}, false
}

// begin begins an admitted call. It is called before the body is read.
func begin(ctx context.Context) (*limit.Ticket, error) {
	a := admittedOf(ctx)
	if a == nil {
		return nil, nil
	}
	if a.refusal.Refused() {
		return nil, a.refusal.Err()
	}
	if !a.ticket.Begin() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) { // perhaps before the caller notices
			return nil, apierror.OfContext(ctx)
		}
		return nil, status.FromContextError(context.Canceled).Err()
	}
	return a.ticket, nil
}

// Charge charges a call to its caller's limits. The weight of a batch is the number of its requests.
func Charge(ctx context.Context, weight int) error {
	a := admittedOf(ctx)
	if a == nil || a.ticket == nil {
		return nil
	}
	return a.ticket.Identify(access.CallerOf(ctx).Name(), weight).Err()
}

// ChargeUnread charges a call whose message can't be read, for err, to its caller's rate, and returns err or that it is
// refused for the rate.
func ChargeUnread(ctx context.Context, err error) error {
	who, _ := identifiedEarly(ctx)
	var c *access.Caller
	if rest := restCallerOf(ctx); rest != nil {
		session := access.Session{Settings: rest.guard.options.Access}
		c = &access.Caller{Identity: rest.identity}
		_ = session.Identify(ctx, c, nil) // its identity is known
		rest.guard.noteLimits(c)
	} else if who.session != nil {
		c = &who.session.First
	}
	return cmp.Or(limit.TicketOf(ctx).ChargeUnread(c.Name()).Err(), err)
}

// WithTicket returns the context of a call that already has a ticket, so that it does not get a
// second one.
func WithTicket(ctx context.Context, ticket *limit.Ticket) context.Context {
	return &admitted{Context: ctx, ticket: ticket}
}
