// Package servertest starts the whole service in a test's process, with clients of both transports, on a store
// whose operations a test may hook, and has what tests of the server's packages share: requests, callers with
// tokens, metrics, log lines and traces. Only tests import it.
package servertest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// Main runs the tests of a package, which leave no goroutine behind.
func Main(m *testing.M) { goleak.VerifyTestMain(m) }

// T0 is the instant at which the clock of a service begins.
var T0 = time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC)

// Clock is a service's clock. It stands still unless it is moved.
type Clock struct{ nanos atomic.Int64 }

// NewClock returns a clock that stands at an instant.
func NewClock(at time.Time) *Clock {
	c := &Clock{}
	c.nanos.Store(at.UnixNano())
	return c
}

// Now is the instant at which it stands.
func (c *Clock) Now() time.Time { return time.Unix(0, c.nanos.Load()).UTC() }

// Advance moves it.
func (c *Clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }

// Setup configures a service. Tests change it before the start.
type Setup struct {
	Options server.Options
	Store   *FaultyStore
	Log     store.Log
	// Engine is what keeps records instead of the store; nil: the store.
	Engine store.Engine
}

// Service is a server that listens, with clients of both transports.
type Service struct {
	Clock  *Clock
	Memory *memory.Store
	// Conn and what stands on it are the gRPC side; URL and HTTP are REST's.
	Conn            *grpc.ClientConn
	Recommendations setpointv1.RecommendationServiceClient
	Targets         setpointv1.TargetServiceClient
	Simulations     setpointv1.SimulationServiceClient
	Fleets          setpointv1.FleetServiceClient
	URL             string
	HTTP            *http.Client

	GRPCAddress, HTTPAddress string

	// Stop starts the drain; Served gets the result of Serve.
	Stop    context.CancelFunc
	Served  chan error
	stopped sync.Once
}

// Start starts a service on an empty memory store. It stops with the test, which
// fails unless it drains without an error.
func Start(tb testing.TB, changes ...func(*Setup)) *Service {
	tb.Helper()
	s := &Service{Clock: NewClock(T0), Memory: memory.New(memory.Options{}), Served: make(chan error, 1)}
	su := &Setup{Options: server.DefaultOptions(), Store: &FaultyStore{Store: s.Memory}, Log: s.Memory}
	su.Options.AllowEvaluationTime = true
	su.Options.Clock = s.Clock.Now
	// The machine of a test may be busy, or stand still for seconds.
	su.Options.Limits.Shedding.Off = true
	su.Options.RequestTimeout, su.Options.DrainTimeout = 10*time.Minute, 10*time.Minute
	for _, change := range changes {
		change(su)
	}
	if su.Engine == nil {
		su.Engine = su.Store
	}
	srv, err := server.New(su.Engine, su.Log, su.Options)
	fatal.If(tb, err)
	grpcListener, httpListener := Listen(tb), Listen(tb)
	ctx, stop := context.WithCancel(context.Background())
	s.Stop = stop
	go func() { s.Served <- srv.Serve(ctx, grpcListener, httpListener) }()
	s.GRPCAddress, s.HTTPAddress = grpcListener.Addr().String(), httpListener.Addr().String()
	s.URL = "http://" + s.HTTPAddress
	s.HTTP = &http.Client{Transport: &http.Transport{}}
	s.Conn = s.Dial(tb)
	s.Recommendations = setpointv1.NewRecommendationServiceClient(s.Conn)
	s.Targets = setpointv1.NewTargetServiceClient(s.Conn)
	s.Simulations = setpointv1.NewSimulationServiceClient(s.Conn)
	s.Fleets = setpointv1.NewFleetServiceClient(s.Conn)
	tb.Cleanup(func() { s.StopAndWait(tb) })
	return s
}

// StopAndWait stops the service and fails the test unless it drains without an
// error. Once is enough.
func (s *Service) StopAndWait(tb testing.TB) {
	tb.Helper()
	s.HTTP.CloseIdleConnections()
	s.Stop()
	s.stopped.Do(func() {
		if err := <-s.Served; err != nil {
			tb.Errorf("Serve: %v", err)
		}
	})
}

// Listen listens on loopback.
func Listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(tb, err)
	return l
}

// Dial opens another connection, closed with the test.
func (s *Service) Dial(tb testing.TB, options ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	options = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
	}, options...)
	conn, err := grpc.NewClient("passthrough:///"+s.GRPCAddress, options...)
	fatal.If(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Recommend calls over gRPC and fails the test on an error.
func (s *Service) Recommend(tb testing.TB, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse {
	tb.Helper()
	resp, err := s.Recommendations.Recommend(tb.Context(), req)
	if err != nil {
		tb.Fatalf("Recommend: %v", err)
	}
	return resp
}

// Report reports over gRPC and fails the test on an error.
func (s *Service) Report(tb testing.TB, target, id, outcome, message string) *setpointv1.ReportScaleResponse {
	tb.Helper()
	resp, err := s.Recommendations.ReportScale(tb.Context(), &setpointv1.ReportScaleRequest{
		Target: target, RecommendationId: id, Outcome: outcome, Message: message,
	})
	if err != nil {
		tb.Fatalf("ReportScale: %v", err)
	}
	return resp
}

// Target gets a target and fails the test on an error.
func (s *Service) Target(tb testing.TB, name string) *setpointv1.Target {
	tb.Helper()
	resp, err := s.Targets.GetTarget(tb.Context(), &setpointv1.GetTargetRequest{Name: name})
	if err != nil {
		tb.Fatalf("GetTarget: %v", err)
	}
	return resp.GetTarget()
}

// Decisions lists all decisions of a target, newest first.
func (s *Service) Decisions(tb testing.TB, name string) []*setpointv1.Decision {
	tb.Helper()
	resp, err := s.Targets.ListDecisions(tb.Context(), &setpointv1.ListDecisionsRequest{Parent: name, PageSize: 1000})
	if err != nil {
		tb.Fatalf("ListDecisions: %v", err)
	}
	if resp.GetNextPageToken() != "" {
		tb.Fatalf("more than 1000 decisions")
	}
	return resp.GetDecisions()
}

// Batch recommends for many and fails the test on an error.
func (s *Service) Batch(tb testing.TB, requests ...*setpointv1.RecommendRequest) []*setpointv1.BatchRecommendResult {
	tb.Helper()
	resp, err := s.Recommendations.BatchRecommend(tb.Context(), &setpointv1.BatchRecommendRequest{Requests: requests})
	if err != nil {
		tb.Fatalf("BatchRecommend: %v", err)
	}
	if len(resp.GetResults()) != len(requests) {
		tb.Fatalf("got %d results of %d requests", len(resp.GetResults()), len(requests))
	}
	return resp.GetResults()
}

// Recommendations counts the recommendations in a target's history, without the count
// at the first evaluation.
func Recommendations(target *setpointv1.Target) int {
	return len(target.GetHistory().GetRecommendations()) - 1
}

// Answer is what REST answered.
type Answer struct {
	Code   int
	Header http.Header
	Raw    []byte
	// Body is Raw as JSON; nil if it is none.
	Body map[string]any
}

// Ask makes a REST call. body is nil, a string, bytes, a reader, or something to
// be sent as JSON.
func (s *Service) Ask(tb testing.TB, method, path string, body any) *Answer {
	tb.Helper()
	a, err := s.Send(s.Request(tb, method, path, body))
	if err != nil {
		tb.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// Send makes a REST call with a request of its own.
func (s *Service) Send(req *http.Request) (*Answer, error) {
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := &Answer{Code: resp.StatusCode, Header: resp.Header}
	if a.Raw, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	if json.Unmarshal(a.Raw, &a.Body) != nil {
		a.Body = nil
	}
	return a, nil
}

// MustSend is Send for calls that must have an answer.
func (s *Service) MustSend(tb testing.TB, req *http.Request) *Answer {
	tb.Helper()
	a, err := s.Send(req)
	fatal.If(tb, err)
	return a
}

// Request returns what Ask sends, for tests that change it.
func (s *Service) Request(tb testing.TB, method, path string, body any) *http.Request {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, s.URL+path, reader(tb, body))
	fatal.If(tb, err)
	return req
}

// reader reads what Ask sends as a body.
func reader(tb testing.TB, body any) io.Reader {
	tb.Helper()
	switch b := body.(type) {
	case nil:
		return nil
	case string:
		return strings.NewReader(b)
	case []byte:
		return bytes.NewReader(b)
	case io.Reader:
		return b
	case proto.Message:
		text, err := protojson.Marshal(b)
		fatal.If(tb, err)
		return bytes.NewReader(text)
	default:
		text, err := json.Marshal(b)
		fatal.If(tb, err)
		return bytes.NewReader(text)
	}
}

// Expect fails the test unless the answer has that code, and returns its body.
func (a *Answer) Expect(tb testing.TB, code int) map[string]any {
	tb.Helper()
	if a.Code != code {
		tb.Fatalf("got HTTP %d, want %d: %s", a.Code, code, a.Raw)
	}
	return a.Body
}

// Into decodes the answer into a message.
func (a *Answer) Into(tb testing.TB, msg proto.Message) {
	tb.Helper()
	if err := protojson.Unmarshal(a.Raw, msg); err != nil {
		tb.Fatalf("decode %s: %v", a.Raw, err)
	}
}

// At returns what stands at a path of names and indexes in a JSON value, nil if
// nothing does.
func At(value any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[s]
		case int:
			list, _ := value.([]any)
			if s >= len(list) {
				return nil
			}
			value = list[s]
		}
	}
	return value
}

// SameMessage fails the test unless the messages are equal.
func SameMessage(tb testing.TB, got, want proto.Message) {
	tb.Helper()
	if !proto.Equal(got, want) {
		tb.Errorf("messages differ\n got %s\nwant %s", protojson.Format(got), protojson.Format(want))
	}
}

// Stored returns the stored value of a target; nil if there is none.
func (s *Service) Stored(tb testing.TB, name string) []byte {
	tb.Helper()
	record, err := s.Memory.Load(tb.Context(), KeyOf(name))
	fatal.If(tb, err)
	return record.Value
}

// KeyOf is the store's key of a target.
func KeyOf(name string) store.Key {
	parts := strings.Split(name, "/")
	return store.Key{Cluster: parts[1], Namespace: parts[3], Target: parts[5]}
}

// Secured secures a service, whose client is then one of HTTP/2.
func Secured(tb testing.TB) (change func(*Setup), client *tls.Config) {
	tb.Helper()
	files := redistest.NewTLS(tb)
	pair, err := tls.LoadX509KeyPair(files.ServerCertFile, files.ServerKeyFile)
	fatal.If(tb, err)
	change = func(su *Setup) {
		su.Options.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	}
	return change, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}} //nolint:gosec // of this test
}

// page is a page of two files.
var page = fstest.MapFS{
	"index.html":              {Data: []byte("<!doctype html><title>Setpoint</title>")},
	"assets/main-K2VQ7XWA.js": {Data: []byte("export {};")},
}

// WithPage has a service serve a page.
func WithPage(su *Setup) { su.Options.Page = page }
