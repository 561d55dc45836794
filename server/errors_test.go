package server_test

import (
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// problem is an error in brief.
type problem struct {
	code   codes.Code
	reason string
	// fields are those of the violations, sorted, each once.
	fields   []string
	metadata map[string]string
	message  string
}

func problemOf(s *rpcstatus.Status) problem {
	p := problem{code: codes.Code(s.GetCode()), message: s.GetMessage()}
	for _, detail := range status.FromProto(s).Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			p.reason, p.metadata = d.GetReason(), d.GetMetadata()
			if d.GetDomain() != "setpoint.dev" {
				p.reason += "@" + d.GetDomain()
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				p.fields = append(p.fields, v.GetField())
			}
		}
	}
	slices.Sort(p.fields)
	p.fields = slices.Compact(p.fields)
	return p
}

// rpcProblem is the problem of a gRPC call's error.
func rpcProblem(err error) problem { return problemOf(status.Convert(err).Proto()) }

// problem is that of a REST call.
func (a *answer) problem(tb testing.TB) problem {
	tb.Helper()
	s := &rpcstatus.Status{}
	if err := protojson.Unmarshal(a.raw, s); err != nil {
		tb.Fatalf("HTTP %d is no google.rpc.Status: %v: %s", a.code, err, a.raw)
	}
	return problemOf(s)
}

// wantProblem fails the test unless the error is of that code and reason.
func wantProblem(tb testing.TB, got problem, code codes.Code, reason string) {
	tb.Helper()
	if got.code != code || got.reason != reason {
		tb.Errorf("got %v with reason %q, want %v with %q: %s", got.code, got.reason, code, reason, got.message)
	}
}

// wantViolations fails the test unless the error is INVALID_ARGUMENT and names
// exactly these fields.
func wantViolations(tb testing.TB, err error, fields ...string) {
	tb.Helper()
	got := rpcProblem(err)
	wantProblem(tb, got, codes.InvalidArgument, "INVALID_REQUEST")
	slices.Sort(fields)
	if !slices.Equal(got.fields, fields) {
		tb.Errorf("got violations of %q, want %q: %s", got.fields, fields, got.message)
	}
}
