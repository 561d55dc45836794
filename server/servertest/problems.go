package servertest

import (
	"slices"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// Problem is an error in brief.
type Problem struct {
	Code   codes.Code
	Reason string
	// Fields are those of the violations, sorted, each once.
	Fields []string
	// Violations are they as they come, each with its description.
	Violations []string
	Metadata   map[string]string
	Message    string
}

// ProblemOf is the problem of an item, of a batch or a stream.
func ProblemOf(s *rpcstatus.Status) Problem {
	p := Problem{Code: codes.Code(s.GetCode()), Message: s.GetMessage()}
	for _, detail := range status.FromProto(s).Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			p.Reason, p.Metadata = d.GetReason(), d.GetMetadata()
			if d.GetDomain() != "setpoint.dev" {
				p.Reason += "@" + d.GetDomain()
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				p.Fields = append(p.Fields, v.GetField())
				p.Violations = append(p.Violations, v.GetField()+": "+v.GetDescription())
			}
		}
	}
	slices.Sort(p.Fields)
	p.Fields = slices.Compact(p.Fields)
	return p
}

// RPCProblem is the problem of a gRPC call's error.
func RPCProblem(err error) Problem { return ProblemOf(status.Convert(err).Proto()) }

// Problem is that of a REST call.
func (a *Answer) Problem(tb testing.TB) Problem {
	tb.Helper()
	s := &rpcstatus.Status{}
	if err := protojson.Unmarshal(a.Raw, s); err != nil {
		tb.Fatalf("HTTP %d is no google.rpc.Status: %v: %s", a.Code, err, a.Raw)
	}
	return ProblemOf(s)
}

// WantProblem fails the test unless the error is of that code and reason.
func WantProblem(tb testing.TB, got Problem, code codes.Code, reason string) {
	tb.Helper()
	if got.Code != code || got.Reason != reason {
		tb.Errorf("got %v with reason %q, want %v with %q: %s", got.Code, got.Reason, code, reason, got.Message)
	}
}

// WantViolations fails the test unless the error is INVALID_ARGUMENT and names
// exactly these fields.
func WantViolations(tb testing.TB, err error, fields ...string) {
	tb.Helper()
	got := RPCProblem(err)
	WantProblem(tb, got, codes.InvalidArgument, "INVALID_REQUEST")
	slices.Sort(fields)
	if !slices.Equal(got.Fields, fields) {
		tb.Errorf("got violations of %q, want %q: %s", got.Fields, fields, got.Message)
	}
}
