package cli_test

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// An error is told in words, whatever wraps it, and names the program once.
func TestErrorsAreToldInWords(t *testing.T) {
	t.Parallel()
	call := status.Error(codes.NotFound, "no history for x")
	invalid, err := status.New(codes.InvalidArgument, "invalid request").WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: "spec.maxReplicas", Description: "Invalid value: 0"}, {Field: "name", Description: "Required value"},
	}})
	fatal.If(t, err)
	const violations = "invalid request:\n  spec.maxReplicas: Invalid value: 0\n  name: Required value"
	for name, tt := range map[string]struct {
		err  error
		want string
		code int
	}{
		"none":       {nil, "", 0},
		"of a call":  {call, "setpoint: no history for x (NotFound)", cli.ExitFailed},
		"wrapped":    {fmt.Errorf("a.jsonl: %w", call), "setpoint: a.jsonl: no history for x (NotFound)", cli.ExitFailed},
		"violations": {invalid.Err(), "setpoint: " + violations, cli.ExitUsage},
		"of one of several": {
			fmt.Errorf("of the 2 specs of the file the first is stored; a/b/two: %w", invalid.Err()),
			"setpoint: of the 2 specs of the file the first is stored; a/b/two: " + violations, cli.ExitUsage,
		},
		"joined":           {errors.Join(call, nil), "setpoint: no history for x (NotFound)", cli.ExitFailed},
		"joined with more": {errors.Join(call, errors.New("and closing failed")), "setpoint: no history for x\nand closing failed (NotFound)", cli.ExitFailed},
		"of a stranger":    {errors.New("the metric \u202e\x1b[2J:\n\tis unknown"), "setpoint: the metric \ufffd\ufffd[2J:\n\tis unknown", cli.ExitFailed},
		"of a command":     {errors.New("a.yaml: x\n::error title=a::b.yaml: y"), "setpoint: a.yaml: x\n./::error title=a::b.yaml: y", cli.ExitFailed},
		"of the library":   {errors.New("setpoint: a token would travel unencrypted"), "setpoint: a token would travel unencrypted", cli.ExitFailed},
		"no address":       {status.Error(codes.Unavailable, "no children to pick from"), "setpoint: the server can't be reached: the name or the port of --server can't be looked up, or has no address (Unavailable)", cli.ExitFailed},
		"nobody there": {
			status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:9090: connect: connection refused"`),
			"setpoint: the server can't be reached: dial tcp 127.0.0.1:9090: connect: connection refused: does it run there? --server says where it is (Unavailable)", cli.ExitFailed,
		},
		"nobody there for one of several": {
			fmt.Errorf("a/b/two: %w", status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:9090: connect: connection refused"`)),
			"setpoint: a/b/two: the server can't be reached: dial tcp 127.0.0.1:9090: connect: connection refused: does it run there? --server says where it is (Unavailable)", cli.ExitFailed,
		},
		"of an older server": {
			status.Error(codes.Unimplemented, "unknown service setpoint.v1.FleetService"),
			"setpoint: unknown service setpoint.v1.FleetService; this program is " + cli.Version() + "; the server may be older, which its metric setpoint_build_info and Operations on its page tell, or no Setpoint (Unimplemented)", cli.ExitFailed,
		},
		"of no Setpoint": {
			status.Error(codes.Unimplemented, "unexpected HTTP status code received from server: 404 (Not Found)"),
			"setpoint: unexpected HTTP status code received from server: 404 (Not Found); this program is " + cli.Version() + "; the server may be older, which its metric setpoint_build_info and Operations on its page tell, or no Setpoint (Unimplemented)", cli.ExitFailed,
		},
		"of a setting": {
			cli.Lacking(status.Error(codes.Unimplemented, "this server keeps none: --recording-bytes is 0"), []string{"v1.0.0"}),
			"setpoint: this server keeps none: --recording-bytes is 0 (Unimplemented)", cli.ExitFailed,
		},
		"of another port": {
			status.Error(codes.Unimplemented, "this is the port of REST; gRPC is served at port 9090 (--grpc-address)"),
			"setpoint: this is the port of REST; gRPC is served at port 9090 (--grpc-address) (Unimplemented)", cli.ExitFailed,
		},
		"of one whose version is known": {
			fmt.Errorf("a: %w", cli.Lacking(status.Error(codes.Unimplemented, "unknown service x"), []string{"v0.9.0", "v1.0.0"})),
			"setpoint: a: unknown service x; this program is " + cli.Version() + ", the server v0.9.0 and v1.0.0 (Unimplemented)", cli.ExitFailed,
		},
		"hung": {
			status.Error(codes.Unavailable, `connection error: desc = "error reading server preface: read tcp 127.0.0.1:1->127.0.0.1:2: use of closed network connection: there was no answer within 5s"`),
			"setpoint: the server can't be reached: there was no answer within 5s (Unavailable)", cli.ExitFailed,
		},
		"the user's, twice": {cli.BadInput(cli.BadInput(errors.New("x"))), "setpoint: x", cli.ExitUsage},
		"settings":          {cli.BadSettings(cli.BadInput(errors.New("x"))), "setpoint: x", cli.ExitSettings},
	} {
		if got, code := cli.Failure(tt.err), cli.ExitCode(tt.err); got != tt.want || code != tt.code {
			t.Errorf("%s: %q, exit code %d, want %q and %d", name, got, code, tt.want, tt.code)
		}
	}
}
