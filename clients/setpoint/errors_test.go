package setpoint_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/clients/setpoint"
)

func TestDetailsOfErrors(t *testing.T) {
	bad := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: "spec.maxReplicas", Description: "Required value"}, {Field: "target", Description: "Invalid value"},
	}}
	violations := []setpoint.Violation{{Field: "spec.maxReplicas", Description: "Required value"}, {Field: "target", Description: "Invalid value"}}
	ours := &errdetails.ErrorInfo{Domain: "setpoint.dev", Reason: "INVALID_REQUEST"}
	for _, tt := range []struct {
		name       string
		err        error
		violations []setpoint.Violation
		delay      time.Duration
		told       bool
		reason     string
	}{
		{"no error", nil, nil, 0, false, ""},
		{"no status", errors.New("no status"), nil, 0, false, ""},
		{"a status without details", status.Error(codes.Unavailable, "away"), nil, 0, false, ""},
		{"violations and a reason", problem(codes.InvalidArgument, bad, ours), violations, 0, false, "INVALID_REQUEST"},
		{"a wrapped error", fmt.Errorf("scale web: %w", problem(codes.InvalidArgument, bad, ours)), violations, 0, false, "INVALID_REQUEST"},
		{"a delay", problem(codes.ResourceExhausted, comeBack(1500*time.Millisecond)), nil, 1500 * time.Millisecond, true, ""},
		{"a delay of nothing", problem(codes.ResourceExhausted, comeBack(0)), nil, 0, true, ""},
		{"a delay that is none", problem(codes.ResourceExhausted, &errdetails.RetryInfo{}), nil, 0, false, ""},
		{"a reason of another domain", problem(codes.Unavailable, &errdetails.ErrorInfo{Domain: "proxy", Reason: "X"}), nil, 0, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := setpoint.Violations(tt.err); !slices.Equal(got, tt.violations) {
				t.Errorf("violations %v, want %v", got, tt.violations)
			}
			if got, told := setpoint.RetryDelay(tt.err); got != tt.delay || told != tt.told {
				t.Errorf("delay %v, %t, want %v, %t", got, told, tt.delay, tt.told)
			}
			if got := setpoint.Reason(tt.err); got != tt.reason {
				t.Errorf("reason %q, want %q", got, tt.reason)
			}
		})
	}
}
