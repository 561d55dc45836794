//go:build linux

package edge

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// callTimeout is for one call on a busy machine.
const callTimeout = 60 * time.Second

// caller calls a service over both transports, each with a connection of its own.
type caller struct {
	t               testing.TB
	token           string // "": none is sent
	conn            *grpc.ClientConn
	recommendations setpointv1.RecommendationServiceClient
	targets         setpointv1.TargetServiceClient
	http            *http.Client
	url             string
}

// newCaller returns a caller with that TLS configuration; nil: without TLS.
func newCaller(t testing.TB, p *service.Instance, config *tls.Config, token string) *caller {
	t.Helper()
	transport, scheme := insecure.NewCredentials(), "http"
	if config != nil {
		transport, scheme = credentials.NewTLS(config.Clone()), "https"
	}
	conn, err := grpc.NewClient(p.GRPCAddr(), grpc.WithTransportCredentials(transport), grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}))
	fatal.If(t, err)
	over := &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: config != nil}
	c := &caller{
		t: t, token: token, conn: conn,
		recommendations: setpointv1.NewRecommendationServiceClient(conn), targets: setpointv1.NewTargetServiceClient(conn),
		http: &http.Client{Transport: over, Timeout: callTimeout}, url: scheme + "://" + p.RESTAddr(),
	}
	t.Cleanup(func() {
		_ = conn.Close()
		over.CloseIdleConnections()
	})
	return c
}

// with returns the caller with another token, on the same connections.
func (c *caller) with(token string) *caller {
	other := *c
	other.token = token
	return &other
}

// context returns one for a call.
func (c *caller) context() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(c.t.Context(), callTimeout)
	if c.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
	}
	return ctx, cancel
}

// recommend calls over gRPC.
func (c *caller) recommend(request *setpointv1.RecommendRequest) error {
	ctx, cancel := c.context()
	defer cancel()
	_, err := c.recommendations.Recommend(ctx, request)
	return err
}

// recommendREST calls over REST. The error is a status, as over gRPC.
func (c *caller) recommendREST(request *setpointv1.RecommendRequest) error {
	request = proto.CloneOf(request)
	path := "/v1/" + request.GetTarget() + ":recommend"
	request.Target = ""
	body, err := protojson.Marshal(request)
	if err != nil {
		return err
	}
	_, err = c.call(http.MethodPost, path, body)
	return err
}

// call makes a REST call. The error is a status, as over gRPC.
func (c *caller) call(method, path string, body []byte, headers ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error()) // as gRPC says it
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode == http.StatusOK {
		return text, err
	}
	var answered struct {
		Code    codes.Code
		Message string
	}
	if err := json.Unmarshal(text, &answered); err != nil || answered.Code == codes.OK {
		return text, fmt.Errorf("%s with a body that is no status: %q", response.Status, text)
	}
	return text, status.Error(answered.Code, answered.Message)
}

// both calls over gRPC and REST, which must agree, and returns the code. Permissions may change
// between the two: so gRPC is called again.
func (c *caller) both(target string) codes.Code {
	c.t.Helper()
	overGRPC, overREST := c.recommend(requestFor(target)), c.recommendREST(requestFor(target))
	code := status.Code(overREST)
	if code != status.Code(overGRPC) {
		overGRPC = c.recommend(requestFor(target))
	}
	if code != status.Code(overGRPC) {
		c.t.Errorf("%s over gRPC: %v; over REST: %v", target, overGRPC, overREST)
	}
	return code
}

// talk is a stream that is kept open.
type talk struct {
	stream setpointv1.RecommendationService_StreamRecommendClient
	n      int
}

func (c *caller) talk() *talk {
	c.t.Helper()
	ctx := c.t.Context()
	if c.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
	}
	stream, err := c.recommendations.StreamRecommend(ctx)
	fatal.If(c.t, err)
	return &talk{stream: stream}
}

// ask sends a request and waits for the answer. broken is the error of the stream itself.
func (s *talk) ask(request *setpointv1.RecommendRequest) (item, broken error) {
	s.n++
	if err := s.stream.Send(&setpointv1.StreamRecommendRequest{Id: fmt.Sprint(s.n), Request: request}); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	answer, err := s.stream.Recv()
	if err != nil {
		return nil, err
	}
	return status.ErrorProto(answer.GetError()), nil
}

func targetIn(cluster string) string { return "clusters/" + cluster + "/namespaces/shop/targets/web" }

// requestFor returns a small request: a queue of ten for each of three replicas, and a
// few more.
func requestFor(target string) *setpointv1.RecommendRequest {
	return &setpointv1.RecommendRequest{
		Target: target,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MinReplicas: new(int32(1)), MaxReplicas: 100,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("10")},
			}}},
		},
		Scale:           &setpointv1.Scale{SpecReplicas: 3},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"}, Value: "50"}},
	}
}
