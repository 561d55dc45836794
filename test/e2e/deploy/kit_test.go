//go:build linux

package deploy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// repository is its root.
const repository = "../../.."

// imageName is the name of the built image.
const imageName = "setpoint:e2e"

var buildImage = sync.OnceValue(func() error {
	_, err := shared.daemon.run("scripts/image.sh", imageName)
	return err
})

// image builds the image once.
func image(t *testing.T, d *daemon) string {
	t.Helper()
	fatal.If(t, buildImage())
	return imageName
}

// read returns a file's text.
func read(t *testing.T, elements ...string) string {
	t.Helper()
	return testpages.Read(t, filepath.Join(elements...))
}

// patience bounds waits that take seconds on an idle machine.
const patience = 3 * time.Minute

// caller calls a service, over TLS if there is a CA, with a token if there is one.
type caller struct {
	rest, grpc string
	ca, token  string
}

func (c *caller) tls(t *testing.T) *tls.Config {
	t.Helper()
	if c.ca == "" {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(c.ca)) {
		t.Fatal("no certificate")
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// overREST requests the demo's target and returns the code and the desired replicas.
func (c *caller) overREST(t *testing.T, target string) (code int, desired int32, err error) {
	t.Helper()
	scheme, config := "http", c.tls(t)
	if config != nil {
		scheme = "https"
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	body := read(t, repository, "deploy/demo/request.json")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scheme+"://"+c.rest+"/v1/"+target+":recommend", strings.NewReader(body))
	fatal.If(t, err)
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	var answer struct{ DesiredReplicas int32 }
	err = json.NewDecoder(response.Body).Decode(&answer)
	return response.StatusCode, answer.DesiredReplicas, err
}

// connect opens a connection for gRPC.
func (c *caller) connect(t *testing.T, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if config := c.tls(t); config != nil {
		options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	}
	conn, err := grpc.NewClient(c.grpc, options...)
	fatal.If(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// withToken adds the token to calls.
func (c *caller) withToken(ctx context.Context) context.Context {
	if c.token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
}

// ask requests over gRPC a target without metrics.
func (c *caller) ask(t *testing.T, conn *grpc.ClientConn, target, requestID string) (*setpointv1.RecommendResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(c.withToken(t.Context()), time.Minute)
	defer cancel()
	return setpointv1.NewRecommendationServiceClient(conn).Recommend(ctx, request(target, requestID))
}

func request(target, requestID string) *setpointv1.RecommendRequest {
	return &setpointv1.RecommendRequest{
		Target: target, RequestId: requestID,
		Spec:  &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 5},
		Scale: &setpointv1.Scale{SpecReplicas: 7, StatusReplicas: proto.Int32(7)},
	}
}
