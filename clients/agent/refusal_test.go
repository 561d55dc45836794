package agent

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestPlainReason(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"a connection that is refused", status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:9090: connect: connection refused"`),
			"Error while dialing: dial tcp 127.0.0.1:9090: connect: connection refused"},
		{"several layers", status.Error(codes.Unavailable, `last connection error: connection error: desc = "transport: authentication handshake failed: tls: \"quoted\""`),
			`authentication handshake failed: tls: "quoted"`},
		{"a plain status", status.Error(codes.Unavailable, "the store is away"), "the store is away"},
		{"no text at all", status.Error(codes.Internal, ""), "Internal"},
		{"no status", errors.New("boom"), "boom"},
		{"a text without end", status.Error(codes.Internal, strings.Repeat("x", 2000)), strings.Repeat("x", maxReason) + "… (976 bytes more)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want(t, "reason", plainReason(tt.err), tt.want)
		})
	}
}

// Deletes that are refused for other reasons are still failures.
func TestOnlyOtherClustersAreNothingToForget(t *testing.T) {
	t.Parallel()
	want(t, "another refusal", isOtherCluster(status.Error(codes.FailedPrecondition, "OTHER_CLUSTER")), false)
	want(t, "none", isOtherCluster(nil), false)
}
