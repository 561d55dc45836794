package limit_test

import (
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/limit"
)

func TestRefusalsAsErrors(t *testing.T) {
	for _, reason := range limit.Reasons() {
		for _, after := range []time.Duration{
			0, 1, time.Millisecond, 1001 * time.Microsecond, 7 * time.Millisecond, 100 * time.Millisecond, 333 * time.Millisecond,
			time.Second, 1999 * time.Millisecond, 5 * time.Second, time.Minute,
		} {
			refusal := limit.Refusal{Reason: reason, RetryAfter: after}
			s := status.Convert(refusal.Err())
			if s.Code() != codes.ResourceExhausted || s.Message() == "" || refusal.Status().Code() != s.Code() {
				t.Fatalf("%v: %v", reason, s)
			}
			if len(s.Details()) != 2 {
				t.Fatalf("%v: details %v", reason, s.Details())
			}
			told := s.Details()[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration()
			if told < after || told > max(time.Millisecond, after+after/4) {
				t.Errorf("%v: told to wait %v for %v", reason, told, after)
			}
			info := s.Details()[1].(*errdetails.ErrorInfo)
			if info.GetDomain() != "setpoint.dev" || info.GetReason() != "LIMIT_EXCEEDED" || info.GetMetadata()["limit"] != reason.String() {
				t.Errorf("%v: %v", reason, info)
			}
		}
		if got := status.Convert(limit.Refusal{Reason: reason, RetryAfter: 1 << 62}.Err()); got.Code() != codes.ResourceExhausted {
			t.Errorf("%v: %v", reason, got)
		}
	}
	if err := (limit.Refusal{}).Err(); err != nil || (limit.Refusal{}).Refused() || (limit.Refusal{}).Status() != nil {
		t.Error("no refusal is an error", err)
	}
}

// Every reason can be refused with, says something of its own, and tells a time to come back.
func TestRefusingForEveryReason(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, with(limit.Limits{}))
	names, messages := map[string]limit.Reason{}, map[string]limit.Reason{}
	for _, reason := range limit.Reasons() {
		var refusal limit.Refusal
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("refusing for reason %d (%v) panics: %v", reason, reason, p)
				}
			}()
			refusal = l.Refuse(reason)
		}()
		if refusal.RetryAfter < 100*time.Millisecond || refusal.RetryAfter > 2*time.Minute {
			t.Errorf("%v: told to wait %v", reason, refusal.RetryAfter)
		}
		s := status.Convert(refusal.Err())
		if s.Code() != codes.ResourceExhausted || len(s.Message()) < 20 || reason.String() == "" || l.Refused(reason) != 1 {
			t.Errorf("reason %d (%v): %v, counted %d", reason, reason, s, l.Refused(reason))
		}
		if other, taken := names[reason.String()]; taken {
			t.Errorf("reasons %d and %d have one name", other, reason)
		}
		if other, taken := messages[s.Message()]; taken {
			t.Errorf("reasons %v and %v have one message", other, reason)
		}
		names[reason.String()], messages[s.Message()] = reason, reason
	}
}

// Callers refused for overload get different retry delays, so that not all come back at
// once.
func TestRetriesAreSpread(t *testing.T) {
	l := newLimiter(t, with(limit.Limits{}, func(o *limit.Options) { o.InFlight = 1 }))
	l.Enter(new(limit.Ticket), nil)
	seen := map[time.Duration]bool{}
	for range 200 {
		refusal := l.Enter(new(limit.Ticket), nil)
		if refusal.RetryAfter < 500*time.Millisecond || refusal.RetryAfter > 1500*time.Millisecond {
			t.Fatalf("told to wait %v", refusal.RetryAfter)
		}
		seen[status.Convert(refusal.Err()).Details()[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration()] = true
	}
	if len(seen) < 5 {
		t.Errorf("only told %v", seen)
	}
}
