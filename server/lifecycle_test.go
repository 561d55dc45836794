package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// soon is far longer than anything that is to happen at once takes on the busiest machine,
// and far shorter than the timeouts that it must not wait for, which are the kit's.
const soon = time.Minute

// wantStopSoon stops a service, and fails the test unless that takes no timeout.
func wantStopSoon(t *testing.T, s *servertest.Service) {
	t.Helper()
	begun := time.Now()
	s.StopAndWait(t)
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

func (g *gate) load(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
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
func askSlow(t *testing.T, s *servertest.Service, g *gate) (overGRPC, overREST <-chan outcome) {
	t.Helper()
	viaGRPC, viaREST := make(chan outcome, 1), make(chan outcome, 1)
	go func() {
		resp, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(slow, 3, 50))
		viaGRPC <- outcome{resp.GetDesiredReplicas(), err}
	}()
	req := s.Request(t, http.MethodPost, servertest.RecommendPath(slow), servertest.Queue(slow, 3, 50))
	go func() {
		a, err := s.Send(req)
		o := outcome{err: err}
		if err == nil {
			replicas, _ := a.Body["desiredReplicas"].(float64)
			o.replicas = int32(replicas)
		}
		viaREST <- o
	}()
	<-g.held
	<-g.held
	return viaGRPC, viaREST
}

// awaitDraining returns when the server reports that it stops.
func awaitDraining(t *testing.T, s *servertest.Service) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := healthv1.NewHealthClient(s.Conn).Watch(ctx, &healthv1.HealthCheckRequest{})
	fatal.If(t, err)
	if first, err := watch.Recv(); err != nil || first.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Fatalf("health begins with %v, %v", first, err)
	}
	s.Stop()
	if next, err := watch.Recv(); err != nil || next.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Fatalf("health goes on with %v, %v, want NOT_SERVING", next, err)
	}
}

func TestADrainFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Store.OnLoad = g.load })
	overGRPC, overREST := askSlow(t, s, g)
	awaitDraining(t, s)
	close(g.open)
	for name, calls := range map[string]<-chan outcome{"gRPC": overGRPC, "REST": overREST} {
		if got := <-calls; got.err != nil || got.replicas != 5 {
			t.Errorf("%s: got %d replicas and %v, want 5", name, got.replicas, got.err)
		}
	}
	s.StopAndWait(t)
	if _, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.HTTPAddress); err == nil {
		t.Error("the REST listener is still open")
	}
	if _, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.GRPCAddress); err == nil {
		t.Error("the gRPC listener is still open")
	}
}

func TestADrainRefusesNewCalls(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Store.OnLoad = g.load })
	overGRPC, overREST := askSlow(t, s, g)
	awaitDraining(t, s)
	for name, client := range map[string]setpointv1.RecommendationServiceClient{
		"an old connection": s.Recommendations,
		"a new connection":  setpointv1.NewRecommendationServiceClient(s.Dial(t)),
	} {
		if _, err := client.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 50)); status.Code(err) != codes.Unavailable {
			t.Errorf("gRPC over %s: got %v, want UNAVAILABLE", name, err)
		}
	}
	if got := s.Stored(t, servertest.Web); got != nil {
		t.Error("a call that came while the server drained is recorded")
	}
	// The REST listener closes within moments of the start of the drain.
	for begun := time.Now(); ; {
		req := s.Request(t, http.MethodGet, "/healthz", nil)
		if _, err := s.Send(req); err != nil {
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

// A load balancer that asks for readiness now and then has the shutdown delay to notice. Until it ends, calls are
// answered.
func TestAStoppingServerIsUnreadyBeforeItRefusesCalls(t *testing.T) {
	t.Parallel()
	const delay = time.Second
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.ShutdownDelay = delay })
	begun := time.Now()
	awaitDraining(t, s)
	var calling sync.WaitGroup // both at once: each has to be seen before the delay ends
	for name, call := range map[string]func() error{
		"gRPC": func() error {
			_, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 50))
			return err
		},
		"REST": func() error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/readyz", nil)
			if err != nil {
				return err
			}
			resp, err := s.HTTP.Do(req)
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("a stopping server's readiness is HTTP %d, want 503", resp.StatusCode)
				}
			}
			return err
		},
	} {
		calling.Go(func() {
			for call() == nil && time.Since(begun) < soon {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(begun); took < delay || took > soon {
				t.Errorf("%s refused calls after %s, want %s", name, took, delay)
			}
		})
	}
	calling.Wait()
}

// A REST call that was let in before the drain began is answered, though it goes on
// to gRPC only afterwards.
func TestADrainFinishesRequestsThatAreStillBeingSent(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.HTTPAddress)
	fatal.If(t, err)
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", servertest.RecommendPath(servertest.Web), len(servertest.WebBody)); err != nil {
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
	if _, err := io.WriteString(conn, servertest.WebBody); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(answers, nil)
	fatal.If(t, err)
	defer func() { _ = resp.Body.Close() }()
	if raw, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("got HTTP %d %s, %v, want 200", resp.StatusCode, raw, err)
	}
}

func TestTheDrainTimeoutCutsOffWhatDoesNotFinish(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Store.OnLoad = g.load
		su.Options.DrainTimeout = 20 * time.Millisecond
		su.Options.RequestTimeout = time.Hour
	})
	overGRPC, overREST := askSlow(t, s, g)
	s.Stop()
	if got := <-overGRPC; status.Code(got.err) != codes.Unavailable {
		t.Errorf("gRPC: got %v, want UNAVAILABLE", got.err)
	}
	if got := <-overREST; got.err == nil && got.replicas == 5 {
		t.Error("REST: a call was answered that never finished")
	}
	s.StopAndWait(t)
	if got := s.Stored(t, slow); got != nil {
		t.Error("a call that was cut off is recorded")
	}
}

// A swap goes on without its caller, but not without end: neither may it hold up a
// stop.
func TestTheDrainTimeoutBoundsSwapsToo(t *testing.T) {
	t.Parallel()
	swapping, release := make(chan struct{}), make(chan struct{})
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.DrainTimeout = 20 * time.Millisecond
		su.Options.RequestTimeout = time.Hour
		su.Store.OnSwap = func(ctx context.Context, _ store.Swap, _ servertest.SwapFunc) (store.SwapResult, error) {
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
		_, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 50))
		done <- err
	}()
	<-swapping
	s.Stop()
	if err := <-done; status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		t.Errorf("the call that was cut off got %v", err)
	}
	select {
	case err := <-s.Served:
		s.Served <- err
	case <-time.After(soon):
		t.Error("Serve waits for a swap long after the drain timeout")
	}
	close(release)
}

// Streams that end by themselves never, such as those by which clients watch the
// health, do not hold up a stop.
func TestWatchersDoNotHoldUpADrain(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, s *servertest.Service) error{
		"health": func(t *testing.T, s *servertest.Service) error {
			watch, err := healthv1.NewHealthClient(s.Conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
			if err == nil {
				_, err = watch.Recv()
			}
			return err
		},
		"reflection": func(t *testing.T, s *servertest.Service) error {
			stream, err := reflectionv1.NewServerReflectionClient(s.Conn).ServerReflectionInfo(t.Context())
			if err == nil {
				err = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
			}
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"recommendations": func(t *testing.T, s *servertest.Service) error {
			_, err := s.Recommendations.StreamRecommend(t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			fatal.If(t, open(t, s))
			wantStopSoon(t, s)
		})
	}
}

func TestIdleConnectionsDoNotHoldUpADrain(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Recommend(t, servertest.WebRequest(t))
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil).Expect(t, http.StatusOK)
	begun := time.Now()
	s.Stop() // and the connections stay, which the kit would close
	err := <-s.Served
	s.Served <- err
	if took := time.Since(begun); err != nil || took > soon {
		t.Errorf("the stop took %v: %v", took, err)
	}
}

func TestDecisionsThatWaitAreLoggedBeforeTheServerStops(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	for range 20 {
		s.Recommend(t, servertest.Queue(servertest.Web, 3, 30))
	}
	s.StopAndWait(t)
	values, _, err := s.Memory.ReadLog(context.WithoutCancel(t.Context()), servertest.KeyOf(servertest.Web), "", 100)
	if err != nil || len(values) != 20 {
		t.Fatalf("%d decisions are in the log, %v, want 20", len(values), err)
	}
	if d := decisionlog.Read(values[0]); d.GetCurrentReplicas() != 3 || d.GetDesiredReplicas() != 3 || len(d.GetConditions()) == 0 {
		t.Errorf("the newest is %v", d)
	}
}

func TestTheEnginesStayOpen(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.StopAndWait(t)
	if err := s.Memory.Ping(t.Context()); err != nil {
		t.Errorf("the store was closed by who did not open it: %v", err)
	}
}

func TestAServerThatNeverServedCloses(t *testing.T) {
	t.Parallel()
	engine := memory.New(memory.Options{})
	s, err := server.New(engine, engine, server.DefaultOptions())
	fatal.If(t, err)
	s.Close()
	s.Close() // once more is harmless
}

func TestTheServiceAnswersInTheProcessWithoutServing(t *testing.T) {
	t.Parallel()
	engine := memory.New(memory.Options{})
	s, err := server.New(engine, engine, server.DefaultOptions())
	fatal.If(t, err)
	defer s.Close()
	resp, err := s.Recommendations().Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 50))
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
			fatal.If(t, err)
			grpcListener, httpListener := servertest.Listen(t), servertest.Listen(t)
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
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.DrainTimeout = 20 * time.Millisecond })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.HTTPAddress)
	fatal.If(t, err)
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST "+servertest.RecommendPath(servertest.Web)+" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	wantStopSoon(t, s)
}

// A caller of StreamRecommend that reads none of its responses does not hold up a stop until the drain timeout.
func TestAStreamThatNobodyReadsDoesNotHoldUpADrain(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Options.DrainTimeout = 2 * soon })
	stream, err := s.Recommendations.StreamRecommend(t.Context())
	fatal.If(t, err)
	for range 500 { // whose responses are several times what a stream may be sent unread
		req := servertest.WebRequest(t)
		req.Explain, req.DryRun = true, true
		fatal.If(t, stream.Send(&setpointv1.StreamRecommendRequest{Id: "x", Request: req}))
	}
	wantStopSoon(t, s)
}

// Whoever connects to the port of gRPC and sends nothing, or stops in its handshake, keeps nobody else there, and does not
// hold up a stop at all: gRPC itself waits for such connections before it closes any other, some seconds longer than the
// drain timeout.
func TestHandshakesDoNotHoldUpADrain(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{"nothing": "", "a part of the preface": "PRI * HTTP/2.0", "the preface alone": http2.ClientPreface} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t)
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.GRPCAddress)
			fatal.If(t, err)
			defer func() { _ = conn.Close() }()
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			s.Recommend(t, servertest.WebRequest(t)) // on a later connection, so the first one is accepted
			begun := time.Now()
			s.StopAndWait(t)
			if took := time.Since(begun); took > handshakes/2 {
				t.Errorf("the stop took %v", took)
			}
		})
	}
}

// handshakes is how long gRPC waits for one.
const handshakes = 10 * time.Second

// Clients of gRPC that have an instance to go to go there at once, however long calls over REST go on here.
func TestADrainSendsClientsElsewhereWhileRESTFinishes(t *testing.T) {
	t.Parallel()
	g := newGate()
	s := servertest.Start(t, func(su *servertest.Setup) { su.Store.OnLoad = g.load })
	s.Recommend(t, servertest.WebRequest(t))
	req := s.Request(t, http.MethodPost, servertest.RecommendPath(slow), servertest.Queue(slow, 3, 50))
	answered := make(chan error, 1)
	go func() {
		a, err := s.Send(req)
		if err == nil && a.Code != http.StatusOK {
			err = fmt.Errorf("HTTP %d %s", a.Code, a.Raw)
		}
		answered <- err
	}()
	<-g.held
	awaitDraining(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if !s.Conn.WaitForStateChange(ctx, connectivity.Ready) {
		t.Error("the client stays where its calls are refused")
	}
	close(g.open)
	if err := <-answered; err != nil {
		t.Errorf("REST: %v", err)
	}
}
