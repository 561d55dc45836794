package calls_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

func TestCallsAreCountedByMethodAndCode(t *testing.T) {
	t.Parallel()
	s, r := servertest.Measured(t)
	before := servertest.Read(t, r)
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	_, _ = s.Recommendations.Recommend(t.Context(), &setpointv1.RecommendRequest{Target: servertest.Web})
	s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), servertest.Queue(servertest.Web, 3, 30)).Expect(t, http.StatusOK)
	s.Ask(t, http.MethodPost, servertest.RecommendPath(servertest.Web), `{"spec":`).Expect(t, http.StatusBadRequest)
	s.Ask(t, http.MethodGet, "/v1/nothing", nil).Expect(t, http.StatusNotFound)
	s.Ask(t, http.MethodGet, "/v1/clusters/demo/namespaces/shop/targets/none", nil).Expect(t, http.StatusNotFound)
	s.Batch(t, servertest.Queue(servertest.Web, 3, 30), &setpointv1.RecommendRequest{})
	if _, err := healthv1.NewHealthClient(s.Conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Simulations.Simulate(t.Context(), nil); err != nil && status.Code(err) != codes.InvalidArgument {
		t.Fatal(err)
	}
	got := servertest.Read(t, r).Since(before, "requests_", "request_", "rest_")
	for name := range got {
		if strings.Contains(name, "Simulat") {
			delete(got, name)
		}
	}
	got.Expect(t, servertest.Reading{
		"requests_total{code=OK,method=" + servertest.RecommendMethod + "}": 2,
		// Those that are wrong, and bodies that name their target, too.
		"requests_slow_path_total{reason=unusual,stage=decode}":                          2,
		"requests_slow_path_total{reason=unusual,stage=rest}":                            2,
		"requests_total{code=InvalidArgument,method=" + servertest.RecommendMethod + "}": 1,
		"requests_total{code=NotFound,method=setpoint.v1.TargetService/GetTarget}":       1,
		"requests_total{code=OK,method=" + servertest.BatchMethod + "}":                  1,
		"requests_total{code=OK,method=grpc.health.v1.Health/Check}":                     1,
		"request_duration_seconds{method=" + servertest.RecommendMethod + "}":            3,
		"request_duration_seconds{method=setpoint.v1.TargetService/GetTarget}":           1,
		"request_duration_seconds{method=" + servertest.BatchMethod + "}":                1,
		"request_duration_seconds{method=grpc.health.v1.Health/Check}":                   1,
		"rest_requests_total{code=2xx}":                                                  1,
		"rest_requests_total{code=4xx}":                                                  3,
	})
}

func TestStreamsAndTheirMessagesAreCounted(t *testing.T) {
	t.Parallel()
	s, r := servertest.Measured(t)
	stream := s.Stream(t)
	for i := range 3 {
		servertest.Send(t, stream, fmt.Sprint(i), servertest.Queue(servertest.Web, 3, 30))
		servertest.Receive(t, stream)
	}
	sent := "stream_messages_total{direction=sent,method=" + servertest.StreamMethod + "}"
	servertest.Eventually(t, func() bool { return servertest.Read(t, r)[sent] == 3 }) // it is counted once it is sent
	servertest.Read(t, r).Since(servertest.Reading{}, "stream").Expect(t, servertest.Reading{
		"streams_open{method=" + servertest.StreamMethod + "}":                             1,
		"stream_messages_total{direction=received,method=" + servertest.StreamMethod + "}": 3,
		"stream_messages_total{direction=sent,method=" + servertest.StreamMethod + "}":     3,
		"stream_message_duration_seconds":                                                  3,
	})
	fatal.If(t, stream.CloseSend())
	if _, err := servertest.ReceiveAll(t, stream); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() bool {
		now := servertest.Read(t, r)
		return now["streams_open{method="+servertest.StreamMethod+"}"] == 0 && now["requests_total{code=OK,method="+servertest.StreamMethod+"}"] == 1
	})
}

func TestCallsInFlightAreShown(t *testing.T) {
	t.Parallel()
	reached, release := make(chan struct{}), make(chan struct{})
	s, r := servertest.Measured(t, func(su *servertest.Setup) { su.Store.OnLoad = waitingLoad(reached, release) })
	answered := make(chan error, 1)
	go func() {
		_, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 30))
		answered <- err
	}()
	<-reached
	if n := servertest.Read(t, r)["requests_in_flight{method="+servertest.RecommendMethod+"}"]; n != 1 {
		t.Errorf("%v in flight, want 1", n)
	}
	close(release)
	fatal.If(t, <-answered)
	servertest.Eventually(t, func() bool {
		return servertest.Read(t, r)["requests_in_flight{method="+servertest.RecommendMethod+"}"] == 0
	})
}

func TestAPanicIsCountedAsAFailure(t *testing.T) {
	t.Parallel()
	s, r := servertest.Measured(t, func(su *servertest.Setup) { panicky(su) })
	_, _ = s.Recommendations.Recommend(t.Context(), servertest.Queue(boom, 3, 50))
	stream := s.Stream(t)
	servertest.Send(t, stream, "boom", servertest.Queue(boom, 3, 50))
	servertest.Receive(t, stream)
	got := servertest.Read(t, r)
	if n := got["requests_total{code=Internal,method="+servertest.RecommendMethod+"}"]; n != 1 {
		t.Errorf("%v calls failed, want 1", n)
	}
	if n := got["recommendation_errors_total{code=Internal}"]; n != 1 {
		t.Errorf("%v messages failed, want 1", n)
	}
}

// waitingLoad waits in the first load until it is released.
func waitingLoad(reached chan<- struct{}, release <-chan struct{}) func(context.Context, store.Key, servertest.LoadFunc) (store.Record, error) {
	return func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
		reached <- struct{}{}
		<-release
		return load(ctx, key)
	}
}
