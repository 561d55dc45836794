package admission

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// A call that ended before it began is answered with how it ended: a caller whose deadline it
// was retries, one that cancelled does not.
func TestACallThatEndedBeforeItBegan(t *testing.T) {
	t.Parallel()
	late, cancelLate := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancelLate()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for want, ctx := range map[codes.Code]context.Context{codes.DeadlineExceeded: late, codes.Canceled: cancelled} {
		limiter, err := limit.New(limit.DefaultOptions())
		fatal.If(t, err)
		ticket := new(limit.Ticket)
		if refusal := limiter.Enter(ticket, nil); refusal.Refused() {
			t.Fatal(refusal)
		}
		ticket.Abandon()
		if _, err := begin(&admitted{Context: ctx, ticket: ticket}); status.Code(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// silent is a stream whose messages are empty.
type silent struct {
	grpc.ServerStream
	ctx context.Context
}

func (s silent) Context() context.Context { return s.ctx }
func (silent) RecvMsg(any) error          { return nil }

// What reads credentials and messages runs before the interceptors: a bug there is the end of one call, which holds no place then,
// and not of the process.
func TestAPanicBeforeTheInterceptors(t *testing.T) {
	t.Parallel()
	const method = "/s/M"
	g, err := New(Options{Limits: limit.DefaultOptions(), Access: new(access.Settings), Log: zap.NewNop(), TokensIn: map[string]func([]byte) string{
		method: func([]byte) string { panic("a bug") },
	}})
	fatal.If(t, err)
	enter := func() context.Context {
		a := &admitted{Context: t.Context(), ticket: new(limit.Ticket)}
		if refusal := g.Limiter.Enter(a.ticket, nil); refusal.Refused() {
			t.Fatal(refusal)
		}
		return a
	}
	call := g.Limited(&grpc.ServiceDesc{ServiceName: "s", Methods: []grpc.MethodDesc{{MethodName: "M"}}}, 0).Methods[0].Handler
	if _, err := call(nil, enter(), func(any) error { return nil }, nil); status.Code(err) != codes.Internal {
		t.Errorf("got %v, want INTERNAL", err)
	}
	func() {
		defer func() { _ = recover() }() // as calls.RecoverStreams
		_ = g.AuthenticateStreams(nil, silent{ctx: enter()}, &grpc.StreamServerInfo{FullMethod: method}, nil)
	}()
	if n := g.Limiter.InFlight(); n != 0 {
		t.Errorf("%d calls are in flight, want none", n)
	}
}
