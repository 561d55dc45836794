package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// soon is far longer than anything that is to happen at once takes on the busiest machine,
// and far shorter than the timeouts that it must not wait for, which are the kit's.
const soon = time.Minute

// wantStopSoon stops a service, and fails the test unless that takes no timeout.
func wantStopSoon(t *testing.T, s *service) {
	t.Helper()
	begun := time.Now()
	s.stopAndWait(t)
	if took := time.Since(begun); took > soon {
		t.Errorf("the stop took %v", took)
	}
}

// gate is a store's hook that delays loads of the target "slow".
type gate struct {
	// held gets a value for each delayed load, until open is closed.
	held, open chan struct{}
}

const slow = "clusters/demo/namespaces/shop/targets/slow"

func newGate() *gate { return &gate{held: make(chan struct{}, 16), open: make(chan struct{})} }

func (g *gate) load(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
	if key.Target == "slow" {
		g.held <- struct{}{}
		select {
		case <-g.open:
		case <-ctx.Done():
			return store.Record{}, ctx.Err()
		}
	}
	return load(ctx, key)
}

// outcome is what became of a call.
type outcome struct {
	replicas int32
	err      error
}

// askSlow calls for the target slow over gRPC and REST, and returns once both calls are
// delayed.
func askSlow(t *testing.T, s *service, g *gate) (overGRPC, overREST <-chan outcome) {
	t.Helper()
	viaGRPC, viaREST := make(chan outcome, 1), make(chan outcome, 1)
	go func() {
		resp, err := s.recommendations.Recommend(t.Context(), queue(slow, 3, 50))
		viaGRPC <- outcome{resp.GetDesiredReplicas(), err}
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+recommendPath(slow), reader(t, queue(slow, 3, 50)))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		a, err := s.send(req)
		o := outcome{err: err}
		if err == nil {
			replicas, _ := a.body["desiredReplicas"].(float64)
			o.replicas = int32(replicas)
		}
		viaREST <- o
	}()
	<-g.held
	<-g.held
	return viaGRPC, viaREST
}

// awaitDraining returns when the server reports that it stops.
func awaitDraining(t *testing.T, s *service) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := healthv1.NewHealthClient(s.conn).Watch(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil || first.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Fatalf("health begins with %v, %v", first, err)
	}
	s.stop()
	if next, err := watch.Recv(); err != nil || next.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Fatalf("health goes on with %v, %v, want NOT_SERVING", next, err)
	}
}

func TestADrainFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := start(t, func(su *setup) { su.store.load = g.load })
	overGRPC, overREST := askSlow(t, s, g)
	awaitDraining(t, s)
	close(g.open)
	for name, calls := range map[string]<-chan outcome{"gRPC": overGRPC, "REST": overREST} {
		if got := <-calls; got.err != nil || got.replicas != 5 {
			t.Errorf("%s: got %d replicas and %v, want 5", name, got.replicas, got.err)
		}
	}
	s.stopAndWait(t)
	if _, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.httpAddress); err == nil {
		t.Error("the REST listener is still open")
	}
	if _, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.grpcAddress); err == nil {
		t.Error("the gRPC listener is still open")
	}
}

func TestADrainRefusesNewCalls(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := start(t, func(su *setup) { su.store.load = g.load })
	overGRPC, overREST := askSlow(t, s, g)
	awaitDraining(t, s)
	for name, client := range map[string]setpointv1.RecommendationServiceClient{
		"an old connection": s.recommendations,
		"a new connection":  setpointv1.NewRecommendationServiceClient(s.dial(t)),
	} {
		if _, err := client.Recommend(t.Context(), queue(web, 3, 50)); status.Code(err) != codes.Unavailable {
			t.Errorf("gRPC over %s: got %v, want UNAVAILABLE", name, err)
		}
	}
	if got := s.stored(t, web); got != nil {
		t.Error("a call that came while the server drained is recorded")
	}
	// The REST listener closes within moments of the start of the drain.
	for begun := time.Now(); ; {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.send(req); err != nil {
			break
		}
		if time.Since(begun) > soon {
			t.Error("REST still answers new calls")
			break
		}
	}
	close(g.open)
	<-overGRPC
	<-overREST
}

// A REST call that was let in before the drain began is answered, though it goes on
// to gRPC only afterwards.
func TestADrainFinishesRequestsThatAreStillBeingSent(t *testing.T) {
	t.Parallel()
	s := start(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.httpAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", recommendPath(web), len(webBody)); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	if line, err := answers.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q, %v, want to be told to go on", line, err)
	}
	if _, err := answers.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	awaitDraining(t, s)
	if _, err := io.WriteString(conn, webBody); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if raw, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("got HTTP %d %s, %v, want 200", resp.StatusCode, raw, err)
	}
}

func TestTheDrainTimeoutCutsOffWhatDoesNotFinish(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := start(t, func(su *setup) {
		su.store.load = g.load
		su.options.DrainTimeout = 20 * time.Millisecond
		su.options.RequestTimeout = time.Hour
	})
	overGRPC, overREST := askSlow(t, s, g)
	s.stop()
	if got := <-overGRPC; status.Code(got.err) != codes.Unavailable {
		t.Errorf("gRPC: got %v, want UNAVAILABLE", got.err)
	}
	if got := <-overREST; got.err == nil && got.replicas == 5 {
		t.Error("REST: a call was answered that never finished")
	}
	s.stopAndWait(t)
	if got := s.stored(t, slow); got != nil {
		t.Error("a call that was cut off is recorded")
	}
}

// A swap goes on without its caller, but not without end: neither may it hold up a
// stop.
func TestTheDrainTimeoutBoundsSwapsToo(t *testing.T) {
	t.Parallel()
	swapping, release := make(chan struct{}), make(chan struct{})
	s := start(t, func(su *setup) {
		su.options.DrainTimeout = 20 * time.Millisecond
		su.options.RequestTimeout = time.Hour
		su.store.swap = func(ctx context.Context, _ store.Swap, _ swapFunc) (store.SwapResult, error) {
			close(swapping)
			select {
			case <-release:
				return store.SwapResult{}, errors.New("the test is over")
			case <-ctx.Done():
				return store.SwapResult{}, ctx.Err()
			}
		}
	})
	done := make(chan error, 1)
	go func() {
		_, err := s.recommendations.Recommend(t.Context(), queue(web, 3, 50))
		done <- err
	}()
	<-swapping
	s.stop()
	if err := <-done; status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		t.Errorf("the call that was cut off got %v", err)
	}
	select {
	case err := <-s.served:
		s.served <- err
	case <-time.After(soon):
		t.Error("Serve waits for a swap long after the drain timeout")
	}
	close(release)
}

// Streams that end by themselves never, such as those by which clients watch the
// health, do not hold up a stop.
func TestWatchersDoNotHoldUpADrain(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, s *service) error{
		"health": func(t *testing.T, s *service) error {
			watch, err := healthv1.NewHealthClient(s.conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
			if err == nil {
				_, err = watch.Recv()
			}
			return err
		},
		"reflection": func(t *testing.T, s *service) error {
			stream, err := reflectionv1.NewServerReflectionClient(s.conn).ServerReflectionInfo(t.Context())
			if err == nil {
				err = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
			}
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"recommendations": func(t *testing.T, s *service) error {
			_, err := s.recommendations.StreamRecommend(t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			if err := open(t, s); err != nil {
				t.Fatal(err)
			}
			wantStopSoon(t, s)
		})
	}
}

func TestIdleConnectionsDoNotHoldUpADrain(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.recommend(t, webRequest(t))
	s.ask(t, http.MethodGet, "/v1/"+web, nil).expect(t, http.StatusOK)
	begun := time.Now()
	s.stop() // and the connections stay, which stopAndWait would close
	err := <-s.served
	s.served <- err
	if took := time.Since(begun); err != nil || took > soon {
		t.Errorf("the stop took %v: %v", took, err)
	}
}

func TestDecisionsThatWaitAreLoggedBeforeTheServerStops(t *testing.T) {
	t.Parallel()
	s := start(t)
	for range 20 {
		s.recommend(t, queue(web, 3, 30))
	}
	s.stopAndWait(t)
	values, _, err := s.memory.ReadLog(context.WithoutCancel(t.Context()), keyOf(web), "", 100)
	if err != nil || len(values) != 20 {
		t.Fatalf("%d decisions are in the log, %v, want 20", len(values), err)
	}
	h, err := encoding.DecodeHistory(values[0])
	if err != nil || h.Last.From != 3 || h.Last.To != 3 || len(h.Status.Conditions) == 0 {
		t.Errorf("the newest is %+v, %v", h.Last, err)
	}
}

func TestTheEnginesStayOpen(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.stopAndWait(t)
	if err := s.memory.Ping(t.Context()); err != nil {
		t.Errorf("the store was closed by who did not open it: %v", err)
	}
}

func TestAServerThatNeverServedCloses(t *testing.T) {
	t.Parallel()
	engine := memory.New(memory.Options{})
	s, err := server.New(engine, engine, server.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close() // once more is harmless
}

func TestTheServiceAnswersInTheProcessWithoutServing(t *testing.T) {
	t.Parallel()
	engine := memory.New(memory.Options{})
	s, err := server.New(engine, engine, server.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	resp, err := s.Recommendations().Recommend(t.Context(), queue(web, 3, 50))
	if err != nil || resp.GetDesiredReplicas() != 5 {
		t.Errorf("got %v, %v, want 5 replicas", resp, err)
	}
	if got := resp.GetEvaluationTime().AsTime(); time.Since(got) > time.Minute {
		t.Errorf("without a clock of its own it decided for %v", got)
	}
}

// brokenListener accepts nothing.
type brokenListener struct{ net.Listener }

func (brokenListener) Accept() (net.Conn, error) { return nil, errors.New("out of sockets") }

func TestAListenerThatFailsEndsServing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		breakGRPC      bool
		other, message string
	}{
		{"gRPC", true, "REST", "serve gRPC: out of sockets"},
		{"REST", false, "gRPC", "serve REST: out of sockets"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			engine := memory.New(memory.Options{})
			s, err := server.New(engine, engine, server.DefaultOptions())
			if err != nil {
				t.Fatal(err)
			}
			grpcListener, httpListener := listen(t), listen(t)
			other := httpListener.Addr().String()
			if tt.breakGRPC {
				grpcListener = brokenListener{grpcListener}
			} else {
				other, httpListener = grpcListener.Addr().String(), brokenListener{httpListener}
			}
			if err := s.Serve(t.Context(), grpcListener, httpListener); err == nil || err.Error() != tt.message {
				t.Errorf("Serve: %v, want %s", err, tt.message)
			}
			if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", other); err == nil {
				_ = conn.Close()
				t.Errorf("%s is still served", tt.other)
			}
		})
	}
}

// A client that is slow to send its request's head or body must not hold up a stop
// for longer than the drain timeout.
func TestHalfSentRequestsAreCutOffByTheDrainTimeout(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.options.DrainTimeout = 20 * time.Millisecond })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.httpAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST "+recommendPath(web)+" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	wantStopSoon(t, s)
}
