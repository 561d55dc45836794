package keda_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/api/externalscaler"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/keda"
)

func reference(metadata ...string) *externalscaler.ScaledObjectRef {
	ref := &externalscaler.ScaledObjectRef{Name: "web", Namespace: "shop", ScalerMetadata: map[string]string{}}
	for i := 0; i < len(metadata); i += 2 {
		ref.ScalerMetadata[metadata[i]] = metadata[i+1]
	}
	return ref
}

func TestTokensOfMessages(t *testing.T) {
	tokens := keda.Tokens()
	for _, tt := range []struct {
		name, method string
		message      proto.Message
		want         string
	}{
		{"none", externalscaler.ExternalScaler_IsActive_FullMethodName, reference("cluster", "demo"), ""},
		{"one", externalscaler.ExternalScaler_IsActive_FullMethodName, reference("cluster", "demo", "token", "a"), "a"},
		{"of the environment", externalscaler.ExternalScaler_StreamIsActive_FullMethodName, reference("tokenFromEnv", "b"), "b"},
		{"both", externalscaler.ExternalScaler_StreamMetricSpec_FullMethodName, reference("tokenFromEnv", "b", "token", "a"), "a"},
		{"in a reference", externalscaler.ExternalScaler_GetMetrics_FullMethodName, &externalscaler.GetMetricsRequest{ScaledObjectRef: reference("token", "a"), MetricName: "token"}, "a"},
		{"a reference of another form", externalscaler.ExternalScaler_GetMetricSpec_FullMethodName, &externalscaler.GetMetricsRequest{ScaledObjectRef: reference("token", "a")}, ""},
	} {
		message, err := proto.Marshal(tt.message)
		fatal.If(t, err)
		if got := tokens[tt.method](message); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// The values read without decoding are those of the decoded message.
func FuzzTokens(f *testing.F) {
	for _, ref := range []*externalscaler.ScaledObjectRef{reference(), reference("token", "a"), reference("tokenFromEnv", "b", "x", strings.Repeat("y", 200))} {
		message, _ := proto.Marshal(ref)
		f.Add(message)
		f.Add(append(message, message...))
	}
	read := keda.Tokens()[externalscaler.ExternalScaler_IsActive_FullMethodName]
	f.Fuzz(func(t *testing.T, message []byte) {
		got := read(message)
		var ref externalscaler.ScaledObjectRef
		if proto.Unmarshal(message, &ref) != nil {
			return // it is refused after that
		}
		want := ref.GetScalerMetadata()["token"]
		if want == "" {
			want = ref.GetScalerMetadata()["tokenFromEnv"]
		}
		if got != want {
			t.Errorf("read %q, want %q", got, want)
		}
	})
}
