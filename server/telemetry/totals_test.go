package telemetry_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/setpoint-dev/setpoint/server/telemetry"
)

func TestTotalsOfAnInterval(t *testing.T) {
	t.Parallel()
	calls := telemetry.NewCalls(telemetry.MethodInfo{FullMethod: "/setpoint.v1.S/Ask"}, telemetry.MethodInfo{FullMethod: "/grpc.health.v1.Health/Check"})
	ask := calls.Of("/setpoint.v1.S/Ask")
	end := func(n int, code codes.Code, took time.Duration) {
		for range n {
			ask.Begin()
			ask.End(code, took)
		}
	}
	end(50, codes.OK, 9*time.Second)
	before := calls.Totals()
	if none := calls.Totals().Since(before); none.Calls != 0 || none.Refused != 0 {
		t.Errorf("nothing was called, and there are %v", none)
	} else if _, ok := none.Quantile(.5); ok {
		t.Error("a latency of no calls")
	}
	end(90, codes.OK, 300*time.Microsecond)   // of 250 to 500 µs
	end(9, codes.Aborted, 3*time.Millisecond) // of 2.5 to 5 ms
	ask.Refused(codes.ResourceExhausted)
	calls.Message(time.Minute) // beyond all buckets
	for range 1000 {
		health := calls.Of("/grpc.health.v1.Health/Check")
		health.Begin()
		health.End(codes.OK, time.Nanosecond)
	}
	got := calls.Totals().Since(before)
	if got.Calls != 101 || got.Refused != 1 {
		t.Errorf("counted %v calls, %v refused; want 101 and 1", got.Calls, got.Refused)
	}
	for part, want := range map[float64][2]time.Duration{
		.5: {250 * time.Microsecond, 500 * time.Microsecond}, .95: {2500 * time.Microsecond, 5 * time.Millisecond}, 1: {10 * time.Second, 10 * time.Second},
	} {
		if took, ok := got.Quantile(part); !ok || took < want[0] || took > want[1] {
			t.Errorf("%v of the calls took up to %s, want %s to %s", part, took, want[0], want[1])
		}
	}
}
