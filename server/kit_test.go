package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// t0 is the instant at which the clock of a service begins.
var t0 = time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC)

// clock is a service's clock. It stands still unless it is moved.
type clock struct{ nanos atomic.Int64 }

func newClock(at time.Time) *clock {
	c := &clock{}
	c.nanos.Store(at.UnixNano())
	return c
}

func (c *clock) Now() time.Time          { return time.Unix(0, c.nanos.Load()).UTC() }
func (c *clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }

// setup configures a service. Tests change it before the start.
type setup struct {
	options server.Options
	store   *faultyStore
	log     store.Log
	// engine is what keeps records instead of the store; nil: the store.
	engine store.Store
}

// service is a server that listens, with clients of both transports.
type service struct {
	clock  *clock
	memory *memory.Store
	// conn and what stands on it are the gRPC side; url and http are REST's.
	conn            *grpc.ClientConn
	recommendations setpointv1.RecommendationServiceClient
	targets         setpointv1.TargetServiceClient
	simulations     setpointv1.SimulationServiceClient
	url             string
	http            *http.Client

	grpcAddress, httpAddress string

	// stop starts the drain; served gets the result of Serve.
	stop    context.CancelFunc
	served  chan error
	stopped sync.Once
}

// start starts a service on an empty memory store. It stops with the test, which
// fails unless it drains without an error.
func start(tb testing.TB, changes ...func(*setup)) *service {
	tb.Helper()
	s := &service{clock: newClock(t0), memory: memory.New(memory.Options{}), served: make(chan error, 1)}
	su := &setup{options: server.DefaultOptions(), store: &faultyStore{Store: s.memory}, log: s.memory}
	su.options.AllowEvaluationTime = true
	su.options.Clock = s.clock.Now
	// The machine of a test may be busy, or stand still for seconds.
	su.options.Limits.Shedding.Off = true
	su.options.RequestTimeout, su.options.DrainTimeout = 10*time.Minute, 10*time.Minute
	for _, change := range changes {
		change(su)
	}
	if su.engine == nil {
		su.engine = su.store
	}
	srv, err := server.New(su.engine, su.log, su.options)
	if err != nil {
		tb.Fatal(err)
	}
	grpcListener, httpListener := listen(tb), listen(tb)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.served <- srv.Serve(ctx, grpcListener, httpListener) }()
	s.grpcAddress, s.httpAddress = grpcListener.Addr().String(), httpListener.Addr().String()
	s.url = "http://" + s.httpAddress
	s.http = &http.Client{Transport: &http.Transport{}}
	s.conn = s.dial(tb)
	s.recommendations = setpointv1.NewRecommendationServiceClient(s.conn)
	s.targets = setpointv1.NewTargetServiceClient(s.conn)
	s.simulations = setpointv1.NewSimulationServiceClient(s.conn)
	tb.Cleanup(func() { s.stopAndWait(tb) })
	return s
}

// stopAndWait stops the service and fails the test unless it drains without an
// error. Once is enough.
func (s *service) stopAndWait(tb testing.TB) {
	tb.Helper()
	s.http.CloseIdleConnections()
	s.stop()
	s.stopped.Do(func() {
		if err := <-s.served; err != nil {
			tb.Errorf("Serve: %v", err)
		}
	})
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// dial opens another connection, closed with the test.
func (s *service) dial(tb testing.TB, options ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	options = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
	}, options...)
	conn, err := grpc.NewClient("passthrough:///"+s.grpcAddress, options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// recommend calls over gRPC and fails the test on an error.
func (s *service) recommend(tb testing.TB, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse {
	tb.Helper()
	resp, err := s.recommendations.Recommend(tb.Context(), req)
	if err != nil {
		tb.Fatalf("Recommend: %v", err)
	}
	return resp
}

// report reports over gRPC and fails the test on an error.
func (s *service) report(tb testing.TB, target, id, outcome, message string) *setpointv1.ReportScaleResponse {
	tb.Helper()
	resp, err := s.recommendations.ReportScale(tb.Context(), &setpointv1.ReportScaleRequest{
		Target: target, RecommendationId: id, Outcome: outcome, Message: message,
	})
	if err != nil {
		tb.Fatalf("ReportScale: %v", err)
	}
	return resp
}

// target gets a target and fails the test on an error.
func (s *service) target(tb testing.TB, name string) *setpointv1.Target {
	tb.Helper()
	resp, err := s.targets.GetTarget(tb.Context(), &setpointv1.GetTargetRequest{Name: name})
	if err != nil {
		tb.Fatalf("GetTarget: %v", err)
	}
	return resp.GetTarget()
}

// decisions lists all decisions of a target, newest first.
func (s *service) decisions(tb testing.TB, name string) []*setpointv1.Decision {
	tb.Helper()
	resp, err := s.targets.ListDecisions(tb.Context(), &setpointv1.ListDecisionsRequest{Parent: name, PageSize: 1000})
	if err != nil {
		tb.Fatalf("ListDecisions: %v", err)
	}
	if resp.GetNextPageToken() != "" {
		tb.Fatalf("more than 1000 decisions")
	}
	return resp.GetDecisions()
}

// answer is what REST answered.
type answer struct {
	code   int
	header http.Header
	raw    []byte
	// body is raw as JSON; nil if it is none.
	body map[string]any
}

// ask makes a REST call. body is nil, a string, bytes, a reader, or something to
// be sent as JSON.
func (s *service) ask(tb testing.TB, method, path string, body any) *answer {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, s.url+path, reader(tb, body))
	if err != nil {
		tb.Fatal(err)
	}
	a, err := s.send(req)
	if err != nil {
		tb.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (s *service) send(req *http.Request) (*answer, error) {
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := &answer{code: resp.StatusCode, header: resp.Header}
	if a.raw, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	if json.Unmarshal(a.raw, &a.body) != nil {
		a.body = nil
	}
	return a, nil
}

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
		if err != nil {
			tb.Fatal(err)
		}
		return bytes.NewReader(text)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			tb.Fatal(err)
		}
		return bytes.NewReader(text)
	}
}

// expect fails the test unless the answer has that code, and returns its body.
func (a *answer) expect(tb testing.TB, code int) map[string]any {
	tb.Helper()
	if a.code != code {
		tb.Fatalf("got HTTP %d, want %d: %s", a.code, code, a.raw)
	}
	return a.body
}

// into decodes the answer into a message.
func (a *answer) into(tb testing.TB, msg proto.Message) {
	tb.Helper()
	if err := protojson.Unmarshal(a.raw, msg); err != nil {
		tb.Fatalf("decode %s: %v", a.raw, err)
	}
}

// at returns what stands at a path of names and indexes in a JSON value, nil if
// nothing does.
func at(value any, path ...any) any {
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

// sameMessage fails the test unless the messages are equal.
func sameMessage(tb testing.TB, got, want proto.Message) {
	tb.Helper()
	if !proto.Equal(got, want) {
		tb.Errorf("messages differ\n got %s\nwant %s", protojson.Format(got), protojson.Format(want))
	}
}

// jsonInto decodes JSON into a message.
func jsonInto(text string, msg proto.Message) error { return protojson.Unmarshal([]byte(text), msg) }

// callRaw makes a unary gRPC call with the bytes of a message and returns those of
// the answer.
func (s *service) callRaw(tb testing.TB, method string, body []byte) ([]byte, error) {
	tb.Helper()
	var out []byte
	err := s.conn.Invoke(tb.Context(), method, &body, &out, grpc.ForceCodec(rawCodec{}))
	return out, err
}

// rawCodec takes *[]byte for messages.
type rawCodec struct{}

func (rawCodec) Name() string                       { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }

// stored returns the stored value of a target; nil if there is none.
func (s *service) stored(tb testing.TB, name string) []byte {
	tb.Helper()
	record, err := s.memory.Load(tb.Context(), keyOf(name))
	if err != nil {
		tb.Fatal(err)
	}
	return record.Value
}

// keyOf is the store's key of a target.
func keyOf(name string) store.Key {
	parts := strings.Split(name, "/")
	return store.Key{Cluster: parts[1], Namespace: parts[3], Target: parts[5]}
}

// marshalJSON is JSON as the contract names it.
func marshalJSON(m proto.Message) ([]byte, error) { return protojson.Marshal(m) }
