package admission

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/internal/fatal"
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
