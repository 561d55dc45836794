package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/api/externalscaler"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
)

// scaledObject is what KEDA says of the polled target.
func scaledObject() *externalscaler.ScaledObjectRef {
	return &externalscaler.ScaledObjectRef{Name: "polled", Namespace: "shop", ScalerMetadata: map[string]string{
		"scalerAddress": "setpoint:9090", "cluster": "demo"}}
}

// KEDA's HPA has a metric with a target of 1, whose value is the recommended count.
func TestKEDAGetsTheCount(t *testing.T) {
	s := start(t)
	scaler := externalscaler.NewExternalScalerClient(s.conn)
	spec, err := scaler.GetMetricSpec(t.Context(), scaledObject())
	if err != nil || len(spec.GetMetricSpecs()) != 1 || spec.GetMetricSpecs()[0].GetTargetSizeFloat() != 1 {
		t.Fatalf("GetMetricSpec = %v, %v: it must depend on nothing", spec, err)
	}
	name := spec.GetMetricSpecs()[0].GetMetricName()
	_, err = scaler.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: scaledObject(), MetricName: name})
	wantReason(t, err, codes.NotFound, "SPEC_NOT_FOUND")

	s.setSpec(t, queueSpec(1, 500))
	for _, want := range []int32{1, 2, 7, 8, 499, 500} {
		s.observe(t, want, fmt.Sprint(10*want))
		got, err := scaler.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: scaledObject(), MetricName: name})
		if err != nil || len(got.GetMetricValues()) != 1 {
			t.Fatalf("GetMetrics = %v, %v", got, err)
		}
		v := got.GetMetricValues()[0]
		if v.GetMetricName() != name || v.GetMetricValueFloat() != float64(want) || v.GetMetricValue() != int64(want) { //nolint:staticcheck // old versions of KEDA read it
			t.Errorf("at %d replicas told %v", want, v)
		}
		if active, err := scaler.IsActive(t.Context(), scaledObject()); err != nil || !active.GetResult() {
			t.Errorf("IsActive = %v, %v", active, err)
		}
		s.clock.Advance(15 * time.Second)
	}
	s.clock.Advance(time.Hour)
	_, err = scaler.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: scaledObject(), MetricName: name})
	wantReason(t, err, codes.FailedPrecondition, "SCALE_UNKNOWN")
	if _, err := scaler.IsActive(t.Context(), scaledObject()); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("IsActive without a known count: %v", err)
	}
}

func TestKEDANamesTargets(t *testing.T) {
	s := start(t)
	scaler := externalscaler.NewExternalScalerClient(s.conn)
	s.setSpec(t, queueSpec(1, 10))
	s.observe(t, 2, "40")
	for _, tt := range []struct {
		name      string
		metadata  map[string]string
		code      codes.Code
		complaint string
	}{
		{"the ScaledObject's namespace and name", map[string]string{"cluster": "demo"}, codes.OK, ""},
		{"its own name", map[string]string{"cluster": "demo", "target": "polled", "namespace": "shop"}, codes.OK, ""},
		{"a whole name", map[string]string{"target": polled}, codes.OK, ""},
		{"a whole name before a cluster", map[string]string{"target": polled, "cluster": "other"}, codes.OK, ""},
		{"another target", map[string]string{"cluster": "demo", "target": "web"}, codes.NotFound, "no spec is stored"},
		{"no cluster", map[string]string{}, codes.InvalidArgument, "scalerMetadata.cluster: must name the cluster"},
		{"a name that is none", map[string]string{"target": "clusters/demo"}, codes.InvalidArgument, "scalerMetadata.target"},
		{"a cluster that is none", map[string]string{"cluster": "-"}, codes.InvalidArgument, "scalerMetadata.cluster"},
	} {
		ref := scaledObject()
		ref.ScalerMetadata = tt.metadata
		_, err := scaler.IsActive(t.Context(), ref)
		if status.Code(err) != tt.code || err != nil && !strings.Contains(err.Error(), tt.complaint) {
			t.Errorf("%s: %v, want %s, %q", tt.name, err, tt.code, tt.complaint)
		}
	}
	large := scaledObject()
	large.ScalerMetadata["filler"] = strings.Repeat("a", 70_000)
	_, err := scaler.IsActive(t.Context(), large)
	wantReason(t, err, codes.ResourceExhausted, "LIMIT_EXCEEDED")
}

// Whoever may not recommend for a target may not poll it by another contract either.
func TestKEDAReachesOnlyWhatTheCallerMay(t *testing.T) {
	s := guarded(t)
	scaler := externalscaler.NewExternalScalerClient(s.conn)
	foreign := scaledObject()
	foreign.ScalerMetadata["cluster"] = "prod"
	for _, tt := range []struct {
		who, token string
		ref        *externalscaler.ScaledObjectRef
		want       codes.Code
	}{
		{"nobody", "", scaledObject(), codes.Unauthenticated},
		{"a reader", readerToken, scaledObject(), codes.PermissionDenied},
		{"the scaler", scalerToken, scaledObject(), codes.NotFound},
		{"the scaler, elsewhere", scalerToken, foreign, codes.PermissionDenied},
	} {
		ctx := as(t.Context(), tt.token)
		spec := tt.want
		if spec == codes.NotFound {
			spec = codes.OK // it depends on nothing
		}
		if _, err := scaler.GetMetricSpec(ctx, tt.ref); status.Code(err) != spec {
			t.Errorf("GetMetricSpec by %s: %v, want %s", tt.who, err, spec)
		}
		if _, err := scaler.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: tt.ref}); status.Code(err) != tt.want {
			t.Errorf("GetMetrics by %s: %v, want %s", tt.who, err, tt.want)
		}
		if _, err := scaler.IsActive(ctx, tt.ref); status.Code(err) != tt.want {
			t.Errorf("IsActive by %s: %v, want %s", tt.who, err, tt.want)
		}
		if spec == codes.OK {
			continue
		}
		active, err := scaler.StreamIsActive(ctx, tt.ref)
		if err == nil {
			_, err = active.Recv()
		}
		if status.Code(err) != tt.want {
			t.Errorf("StreamIsActive by %s: %v, want %s", tt.who, err, tt.want)
		}
	}
}

// A stream says at once whether the target is active, again when it is to leave zero, and
// ends when the service does.
func TestKEDAStreams(t *testing.T) {
	s := start(t)
	scaler := externalscaler.NewExternalScalerClient(s.conn)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	specs, err := scaler.StreamMetricSpec(ctx, scaledObject())
	if err != nil {
		t.Fatal(err)
	}
	if spec, err := specs.Recv(); err != nil || len(spec.GetMetricSpecs()) != 1 {
		t.Errorf("StreamMetricSpec: %v, %v", spec, err)
	}
	zero := queueSpec(0, 10)
	zero.Options = &setpointv1.RecommendOptions{ScaleToZero: proto.Bool(true)}
	zero.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: proto.Int32(0)}}
	s.setSpec(t, zero)
	s.observe(t, 1, "0")
	active, err := scaler.StreamIsActive(ctx, scaledObject())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := active.Recv(); err != nil || got.GetResult() {
		t.Fatalf("at zero: %v, %v", got, err)
	}
	s.clock.Advance(time.Second)
	s.observe(t, 0, "35")
	if got, err := active.Recv(); err != nil || !got.GetResult() {
		t.Errorf("when it is to leave zero: %v, %v", got, err)
	}
	go s.stop()
	if _, err := active.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("at the end: %v, want UNAVAILABLE", err)
	}
}

// Each look of a stream is a call for the limits of its caller, and one that is refused ends
// nothing.
func TestKEDAStreamsAreLimitedAsCalls(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := start(t, func(su *setup) {
		su.options.Registerer = registry
		su.options.Limits.Identity.Rate, su.options.Limits.Identity.Burst = 1e-6, 3
	})
	s.setSpec(t, queueSpec(1, 10)) // one
	s.observe(t, 2, "35")          // two
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	scaler := externalscaler.NewExternalScalerClient(s.conn)
	first, err := scaler.StreamIsActive(ctx, scaledObject()) // its look is the third
	if err != nil {
		t.Fatal(err)
	}
	if got, err := first.Recv(); err != nil || !got.GetResult() {
		t.Fatalf("the first stream: %v, %v", got, err)
	}
	if _, err := scaler.IsActive(ctx, scaledObject()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a call after the stream's look: %v, want RESOURCE_EXHAUSTED", err)
	}
	second, err := scaler.StreamIsActive(ctx, scaledObject())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return read(t, registry)["calls_refused_total{limit=identity_rate}"] == 2 }) // the call's, and the second stream's
	go s.stop()
	if _, err := second.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the second stream: %v, want to last until the service ends", err)
	}
}

// KEDA's calls are counted by their names.
func TestKEDAsCallsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := start(t, func(su *setup) { su.options.Registerer = registry })
	scaler := externalscaler.NewExternalScalerClient(s.conn)
	if _, err := scaler.GetMetricSpec(t.Context(), scaledObject()); err != nil {
		t.Fatal(err)
	}
	_, _ = scaler.IsActive(t.Context(), scaledObject())
	counted := read(t, registry)
	for series, want := range map[string]float64{
		"requests_total{code=OK,method=externalscaler.ExternalScaler/GetMetricSpec}":  1,
		"requests_total{code=NotFound,method=externalscaler.ExternalScaler/IsActive}": 1,
		"requests_total{code=OK,method=other}":                                        0,
		"requests_total{code=NotFound,method=other}":                                  0,
	} {
		if counted[series] != want {
			t.Errorf("%s = %v, want %v", series, counted[series], want)
		}
	}
}

// If the operator allows it, a token in the trigger's metadata identifies the caller; it is
// in no response and in no log line.
func TestKEDATokensInMetadata(t *testing.T) {
	core, logged := observer.New(zap.DebugLevel)
	s := guarded(t, func(su *setup) {
		su.options.KEDATokens = true
		su.options.Log, su.options.LogCalls = zap.New(core), server.LogAllCalls
	})
	scaler := externalscaler.NewExternalScalerClient(s.conn)
	with := func(key, token string) *externalscaler.ScaledObjectRef {
		ref := scaledObject()
		ref.ScalerMetadata[key] = token
		return ref
	}
	foreign := with("token", scalerToken)
	foreign.ScalerMetadata["cluster"] = "prod"
	large := with("token", scalerToken)
	large.ScalerMetadata["filler"] = strings.Repeat("a", 70_000)
	both := with("tokenFromEnv", "wrong-"+scalerToken)
	both.ScalerMetadata["token"] = scalerToken
	for _, tt := range []struct {
		who, header string
		ref         *externalscaler.ScaledObjectRef
		want        codes.Code
	}{
		{"who has none", "", scaledObject(), codes.Unauthenticated},
		{"who has an empty one", "", with("token", ""), codes.Unauthenticated},
		{"the scaler", "", with("token", scalerToken), codes.NotFound},
		{"the scaler, from the environment", "", with("tokenFromEnv", scalerToken), codes.NotFound},
		{"the scaler, by both", "", both, codes.NotFound},
		{"the scaler, elsewhere", "", foreign, codes.PermissionDenied},
		{"the scaler, with too much", "", large, codes.ResourceExhausted},
		{"a reader", "", with("token", readerToken), codes.PermissionDenied},
		{"who has a wrong one", "", with("token", "wrong-"+scalerToken), codes.Unauthenticated},
		{"who has one with a line break", "", with("token", scalerToken+"\nx"), codes.Unauthenticated},
		{"who has one that is too long", "", with("token", strings.Repeat("a", 20_000)), codes.Unauthenticated},
		{"a reader by header, with the scaler's", readerToken, with("token", scalerToken), codes.PermissionDenied},
		{"the scaler by header, with a wrong one", scalerToken, with("token", "wrong-"+scalerToken), codes.NotFound},
	} {
		ctx, cancel := context.WithTimeout(as(t.Context(), tt.header), time.Minute)
		defer cancel()
		check := func(method string, err error, want codes.Code) {
			if status.Code(err) != want {
				t.Errorf("%s by %s: %v, want %s", method, tt.who, err, want)
			}
			if err != nil && (strings.Contains(err.Error(), scalerToken) || strings.Contains(err.Error(), readerToken)) {
				t.Errorf("%s by %s: the answer holds a token: %v", method, tt.who, err)
			}
		}
		spec := tt.want
		if spec == codes.NotFound {
			spec = codes.OK // it depends on nothing
		}
		_, err := scaler.GetMetricSpec(ctx, tt.ref)
		check("GetMetricSpec", err, spec)
		_, err = scaler.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: tt.ref, MetricName: "recommended-replicas"})
		check("GetMetrics", err, tt.want)
		_, err = scaler.IsActive(ctx, tt.ref)
		check("IsActive", err, tt.want)
		specs, err := scaler.StreamMetricSpec(ctx, tt.ref)
		if err == nil {
			_, err = specs.Recv()
		}
		check("StreamMetricSpec", err, spec)
		if spec == codes.OK {
			continue
		}
		active, err := scaler.StreamIsActive(ctx, tt.ref)
		if err == nil {
			_, err = active.Recv()
		}
		check("StreamIsActive", err, tt.want)
	}
	if logged.Len() == 0 {
		t.Fatal("nothing was logged")
	}
	for _, line := range logged.All() {
		if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, scalerToken) || strings.Contains(text, readerToken) {
			t.Errorf("a line holds a token: %s", text)
		}
	}
}

// By itself a token in the metadata is text as any other: nothing is read of unknown callers.
func TestKEDATokensInMetadataAreOffByThemselves(t *testing.T) {
	s := guarded(t)
	ref := scaledObject()
	ref.ScalerMetadata["token"] = scalerToken
	if _, err := externalscaler.NewExternalScalerClient(s.conn).GetMetricSpec(t.Context(), ref); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v, want UNAUTHENTICATED", err)
	}
}

// A token that was in force when a stream began ends it when it is not any more.
func TestAKEDAStreamEndsWithItsToken(t *testing.T) {
	t.Parallel() // it waits for 15 s
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256([]byte(scalerToken))
	write(fmt.Sprintf("tokens:\n  - {identity: scaler, sha256: %q}\n", hex.EncodeToString(sum[:])))
	authenticator, err := auth.New(auth.Options{TokensFile: file, Files: files.Options{Interval: -1}})
	if err != nil {
		t.Fatal(err)
	}
	defer authenticator.Close()
	granted, err := policy.Parse("policy.yaml", []byte(testPolicy))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, func(su *setup) {
		su.options.KEDATokens = true
		su.options.Access = &server.Access{Authenticator: authenticator, Policy: files.Fixed(granted)}
	})
	ref := scaledObject()
	ref.ScalerMetadata["token"] = scalerToken
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := externalscaler.NewExternalScalerClient(s.conn).StreamMetricSpec(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	write("tokens: []\n")
	if err := authenticator.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("after the token was revoked: %v, want UNAUTHENTICATED", err)
	}
}
