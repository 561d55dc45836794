package keda_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/api/externalscaler"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/keda"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// scaledObject is what KEDA says of the polled target.
func scaledObject() *externalscaler.ScaledObjectRef {
	return &externalscaler.ScaledObjectRef{Name: "polled", Namespace: "shop", ScalerMetadata: map[string]string{
		"scalerAddress": "setpoint:9090", "cluster": "demo"}}
}

// KEDA's HPA has a metric with a target of 1, whose value is the recommended count.
func TestKEDAGetsTheCount(t *testing.T) {
	s := servertest.Start(t)
	scaler := externalscaler.NewExternalScalerClient(s.Conn)
	spec, err := scaler.GetMetricSpec(t.Context(), scaledObject())
	if err != nil || len(spec.GetMetricSpecs()) != 1 || spec.GetMetricSpecs()[0].GetTargetSizeFloat() != 1 {
		t.Fatalf("GetMetricSpec = %v, %v: it must depend on nothing", spec, err)
	}
	name := spec.GetMetricSpecs()[0].GetMetricName()
	_, err = scaler.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: scaledObject(), MetricName: name})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.NotFound, "SPEC_NOT_FOUND")

	s.SetSpec(t, servertest.QueueSpec(1, 500))
	for _, want := range []int32{1, 2, 7, 8, 499, 500} {
		s.Observe(t, want, fmt.Sprint(10*want))
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
		s.Clock.Advance(15 * time.Second)
	}
	s.Clock.Advance(time.Hour)
	_, err = scaler.GetMetrics(t.Context(), &externalscaler.GetMetricsRequest{ScaledObjectRef: scaledObject(), MetricName: name})
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.FailedPrecondition, "SCALE_UNKNOWN")
	if _, err := scaler.IsActive(t.Context(), scaledObject()); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("IsActive without a known count: %v", err)
	}
}

func TestKEDANamesTargets(t *testing.T) {
	s := servertest.Start(t)
	scaler := externalscaler.NewExternalScalerClient(s.Conn)
	s.SetSpec(t, servertest.QueueSpec(1, 10))
	s.Observe(t, 2, "40")
	for _, tt := range []struct {
		name      string
		metadata  map[string]string
		code      codes.Code
		complaint string
	}{
		{"the ScaledObject's namespace and name", map[string]string{"cluster": "demo"}, codes.OK, ""},
		{"its own name", map[string]string{"cluster": "demo", "target": "polled", "namespace": "shop"}, codes.OK, ""},
		{"a whole name", map[string]string{"target": servertest.Polled}, codes.OK, ""},
		{"a whole name before a cluster", map[string]string{"target": servertest.Polled, "cluster": "other"}, codes.OK, ""},
		{"another target", map[string]string{"cluster": "demo", "target": "web"}, codes.NotFound, "no spec is stored"},
		{"no cluster", map[string]string{}, codes.InvalidArgument, "scalerMetadata.cluster: must name the cluster"},
		{"a name that is none", map[string]string{"target": "clusters/demo"}, codes.InvalidArgument, "scalerMetadata.target"},
		{"what KEDA sends besides", map[string]string{"cluster": "demo", "scalerAddress": "x:9090", "enableTLS": "true", "unsafeSsl": "false", "caCert": "c", "tlsClientCert": "c",
			"tlsClientKey": "k", "token": "t", "tokenFromEnv": "T", "metricType": "AverageValue"}, codes.OK, ""},
		{"a target from the environment, in place of which the ScaledObject's name would count", map[string]string{"cluster": "demo", "targetFromEnv": "web"}, codes.InvalidArgument, "scalerMetadata.targetFromEnv: is not read from an environment variable: set target"},
		{"keys that are misspelt", map[string]string{"cluster": "demo", "targett": "web", "namespce": "shop"}, codes.InvalidArgument, "scalerMetadata.namespce: there is no such key; did you mean namespace?"},
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
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.ResourceExhausted, "LIMIT_EXCEEDED")
}

// Whoever may not recommend for a target may not poll it by another contract either.
func TestKEDAReachesOnlyWhatTheCallerMay(t *testing.T) {
	s := servertest.Guarded(t)
	scaler := externalscaler.NewExternalScalerClient(s.Conn)
	foreign := scaledObject()
	foreign.ScalerMetadata["cluster"] = "prod"
	for _, tt := range []struct {
		who, token string
		ref        *externalscaler.ScaledObjectRef
		want       codes.Code
	}{
		{"nobody", "", scaledObject(), codes.Unauthenticated},
		{"a reader", servertest.ReaderToken, scaledObject(), codes.PermissionDenied},
		{"the scaler", servertest.ScalerToken, scaledObject(), codes.NotFound},
		{"the scaler, elsewhere", servertest.ScalerToken, foreign, codes.PermissionDenied},
	} {
		ctx := servertest.As(t.Context(), tt.token)
		spec := tt.want
		if spec == codes.NotFound {
			spec = codes.OK // it depends on nothing
		}
		for method, err := range callAll(ctx, scaler, tt.ref, spec != codes.OK) {
			want := tt.want
			if strings.Contains(method, "MetricSpec") {
				want = spec
			}
			if status.Code(err) != want {
				t.Errorf("%s by %s: %v, want %s", method, tt.who, err, want)
			}
		}
	}
}

// callAll makes each call once, and returns the errors; that of a stream which may stay open only where it is
// to be refused.
func callAll(ctx context.Context, scaler externalscaler.ExternalScalerClient, ref *externalscaler.ScaledObjectRef, refused bool) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // a stream that is not refused stays open
	defer cancel()
	errs := map[string]error{}
	_, errs["GetMetricSpec"] = scaler.GetMetricSpec(ctx, ref)
	_, errs["GetMetrics"] = scaler.GetMetrics(ctx, &externalscaler.GetMetricsRequest{ScaledObjectRef: ref})
	_, errs["IsActive"] = scaler.IsActive(ctx, ref)
	specs, err := scaler.StreamMetricSpec(ctx, ref)
	if err == nil {
		_, err = specs.Recv()
	}
	errs["StreamMetricSpec"] = err
	if refused {
		active, err := scaler.StreamIsActive(ctx, ref)
		if err == nil {
			_, err = active.Recv()
		}
		errs["StreamIsActive"] = err
	}
	return errs
}

// A stream says at once whether the target is active, again when it is to leave zero, and
// ends when the service does.
func TestKEDAStreams(t *testing.T) {
	s := servertest.Start(t)
	scaler := externalscaler.NewExternalScalerClient(s.Conn)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	specs, err := scaler.StreamMetricSpec(ctx, scaledObject())
	fatal.If(t, err)
	if spec, err := specs.Recv(); err != nil || len(spec.GetMetricSpecs()) != 1 {
		t.Errorf("StreamMetricSpec: %v, %v", spec, err)
	}
	zero := servertest.QueueSpec(0, 10)
	zero.Options = &setpointv1.RecommendOptions{ScaleToZero: proto.Bool(true)}
	zero.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: proto.Int32(0)}}
	s.SetSpec(t, zero)
	s.Observe(t, 1, "0")
	active, err := scaler.StreamIsActive(ctx, scaledObject())
	fatal.If(t, err)
	if got, err := active.Recv(); err != nil || got.GetResult() {
		t.Fatalf("at zero: %v, %v", got, err)
	}
	s.Clock.Advance(time.Second)
	s.Observe(t, 0, "35")
	if got, err := active.Recv(); err != nil || !got.GetResult() {
		t.Errorf("when it is to leave zero: %v, %v", got, err)
	}
	go s.Stop()
	for _, recv := range []func() error{func() error { _, err := active.Recv(); return err }, func() error { _, err := specs.Recv(); return err }} {
		if err := recv(); !errors.Is(err, io.EOF) { // as KEDA, which otherwise waits longer before the next stream
			t.Errorf("at the end: %v, want no error", err)
		}
	}
}

// KEDA doubles its pause before the next stream, up to a minute in which nothing leaves zero, until one ends without an error: one that
// lasts as long as its connection never does.
func TestAKEDAStreamEndsBeforeItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scaler := keda.New(keda.Options{
			Admit:     func(ctx context.Context) (context.Context, func(), error) { return ctx, func() {}, nil },
			Authorize: func(context.Context, store.Key) error { return nil },
			Recommend: func(context.Context, store.Key) (*setpointv1.Recommendation, error) {
				return &setpointv1.Recommendation{}, nil
			},
		})
		ctx, cancel := context.WithTimeout(t.Context(), server.DefaultOptions().MaxConnectionAge/2)
		defer cancel()
		if err := scaler.StreamIsActive(scaledObject(), activity{ctx: ctx}); err != nil {
			t.Errorf("the stream ended with %v, want no error", err)
		}
	})
}

// activity is a stream whose messages nobody reads.
type activity struct {
	grpc.ServerStreamingServer[externalscaler.IsActiveResponse]
	ctx context.Context
}

func (a activity) Context() context.Context                  { return a.ctx }
func (activity) Send(*externalscaler.IsActiveResponse) error { return nil }

// Each look of a stream is a call for the limits of its caller, and one that is refused ends
// nothing.
func TestKEDAStreamsAreLimitedAsCalls(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.Registerer = registry
		su.Options.Limits.Identity.Rate, su.Options.Limits.Identity.Burst = 1e-6, 3
	})
	s.SetSpec(t, servertest.QueueSpec(1, 10)) // one
	s.Observe(t, 2, "35")                     // two
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	scaler := externalscaler.NewExternalScalerClient(s.Conn)
	first, err := scaler.StreamIsActive(ctx, scaledObject()) // its look is the third
	fatal.If(t, err)
	if got, err := first.Recv(); err != nil || !got.GetResult() {
		t.Fatalf("the first stream: %v, %v", got, err)
	}
	if _, err := scaler.IsActive(ctx, scaledObject()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a call after the stream's look: %v, want RESOURCE_EXHAUSTED", err)
	}
	second, err := scaler.StreamIsActive(ctx, scaledObject())
	fatal.If(t, err)
	servertest.Eventually(t, func() bool { return servertest.Read(t, registry)["calls_refused_total{limit=identity_rate}"] == 2 }) // the call's, and the second stream's
	go s.Stop()
	if _, err := second.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the second stream: %v, want to last until the service ends", err)
	}
}

// KEDA's calls are counted by their names.
func TestKEDAsCallsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.Registerer = registry })
	scaler := externalscaler.NewExternalScalerClient(s.Conn)
	if _, err := scaler.GetMetricSpec(t.Context(), scaledObject()); err != nil {
		t.Fatal(err)
	}
	_, _ = scaler.IsActive(t.Context(), scaledObject())
	counted := servertest.Read(t, registry)
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
	s := servertest.Guarded(t, func(su *servertest.Setup) {
		su.Options.KEDATokens = true
		su.Options.Log, su.Options.LogCalls = zap.New(core), server.LogAllCalls
	})
	scaler := externalscaler.NewExternalScalerClient(s.Conn)
	with := func(key, token string) *externalscaler.ScaledObjectRef {
		ref := scaledObject()
		ref.ScalerMetadata[key] = token
		return ref
	}
	foreign := with("token", servertest.ScalerToken)
	foreign.ScalerMetadata["cluster"] = "prod"
	large := with("token", servertest.ScalerToken)
	large.ScalerMetadata["filler"] = strings.Repeat("a", 70_000)
	both := with("tokenFromEnv", "wrong-"+servertest.ScalerToken)
	both.ScalerMetadata["token"] = servertest.ScalerToken
	for _, tt := range []struct {
		who, header string
		ref         *externalscaler.ScaledObjectRef
		want        codes.Code
	}{
		{"who has none", "", scaledObject(), codes.Unauthenticated},
		{"who has an empty one", "", with("token", ""), codes.Unauthenticated},
		{"the scaler", "", with("token", servertest.ScalerToken), codes.NotFound},
		{"the scaler, from the environment", "", with("tokenFromEnv", servertest.ScalerToken), codes.NotFound},
		{"the scaler, from a Secret made of a file", "", with("tokenFromEnv", servertest.ScalerToken+"\n"), codes.NotFound},
		{"the scaler, by both", "", both, codes.NotFound},
		{"the scaler, elsewhere", "", foreign, codes.PermissionDenied},
		{"the scaler, with too much", "", large, codes.ResourceExhausted},
		{"a reader", "", with("token", servertest.ReaderToken), codes.PermissionDenied},
		{"who has a wrong one", "", with("token", "wrong-"+servertest.ScalerToken), codes.Unauthenticated},
		{"who has one with a line break", "", with("token", servertest.ScalerToken+"\nx"), codes.Unauthenticated},
		{"who has one that is too long", "", with("token", strings.Repeat("a", 20_000)), codes.Unauthenticated},
		{"a reader by header, with the scaler's", servertest.ReaderToken, with("token", servertest.ScalerToken), codes.PermissionDenied},
		{"the scaler by header, with a wrong one", servertest.ScalerToken, with("token", "wrong-"+servertest.ScalerToken), codes.NotFound},
	} {
		ctx, cancel := context.WithTimeout(servertest.As(t.Context(), tt.header), time.Minute)
		defer cancel()
		spec := tt.want
		if spec == codes.NotFound {
			spec = codes.OK // it depends on nothing
		}
		for method, err := range callAll(ctx, scaler, tt.ref, spec != codes.OK) {
			want := tt.want
			if strings.Contains(method, "MetricSpec") {
				want = spec
			}
			if status.Code(err) != want {
				t.Errorf("%s by %s: %v, want %s", method, tt.who, err, want)
			}
			if err != nil && (strings.Contains(err.Error(), servertest.ScalerToken) || strings.Contains(err.Error(), servertest.ReaderToken)) {
				t.Errorf("%s by %s: the answer holds a token: %v", method, tt.who, err)
			}
		}
	}
	if logged.Len() == 0 {
		t.Fatal("nothing was logged")
	}
	for _, line := range logged.All() {
		if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, servertest.ScalerToken) || strings.Contains(text, servertest.ReaderToken) {
			t.Errorf("a line holds a token: %s", text)
		}
	}
}

// By itself a token in the metadata is text as any other: nothing is read of unknown callers.
func TestKEDATokensInMetadataAreOffByThemselves(t *testing.T) {
	s := servertest.Guarded(t)
	ref := scaledObject()
	ref.ScalerMetadata["token"] = servertest.ScalerToken
	if _, err := externalscaler.NewExternalScalerClient(s.Conn).GetMetricSpec(t.Context(), ref); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v, want UNAUTHENTICATED", err)
	}
}

// A token that was in force when a stream began ends it when it is not any more.
func TestAKEDAStreamEndsWithItsToken(t *testing.T) {
	t.Parallel() // it waits for 15 s
	s := servertest.NewTenancy(t, map[string]string{servertest.ScalerToken: "scaler"}, servertest.TestPolicy, func(su *servertest.Setup) { su.Options.KEDATokens = true })
	ref := scaledObject()
	ref.ScalerMetadata["token"] = servertest.ScalerToken
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := externalscaler.NewExternalScalerClient(s.Conn).StreamMetricSpec(ctx, ref)
	fatal.If(t, err)
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	s.Reload(t, nil, servertest.TestPolicy)
	if _, err := stream.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("after the token was revoked: %v, want UNAUTHENTICATED", err)
	}
}
