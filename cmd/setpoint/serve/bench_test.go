package serve

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/server/recordings"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// Benchmarks of the service on Redis: client, service and Redis on one machine, over loopback.
// Ratios are medians of rates measured in alternation. Clients send pre-encoded messages, as
// load generators do, and do not decode the answers.

const (
	benchCallers = 32
	benchTargets = 5000
	benchBatch   = 500
	// benchBatchCallers keep a batch in flight while another one is being decided.
	benchBatchCallers = 3
)

// encodedMessages is a codec that leaves messages as they are.
type encodedMessages struct{}

func (encodedMessages) Name() string { return "proto" }

func (encodedMessages) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (encodedMessages) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*int) = data.Len()
	return nil
}

// encodedClient returns a connection that sends encoded messages.
func encodedClient(b *testing.B, address string) *grpc.ClientConn {
	b.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(encodedMessages{}), grpc.MaxCallRecvMsgSize(64<<20)))
	fatal.If(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// invoke makes one call with an encoded message.
func invoke(b *testing.B, conn *grpc.ClientConn, method string, message []byte) error {
	var size int
	return conn.Invoke(b.Context(), method, message, &size)
}

func encode(b *testing.B, m proto.Message) []byte {
	b.Helper()
	data, err := proto.Marshal(m)
	fatal.If(b, err)
	return data
}

// bareService does the least that a service on Redis can do: gRPC decodes the request,
// one script writes as many bytes as a history has, and an answer of the usual size
// goes back.
type bareService struct {
	setpointv1.UnimplementedRecommendationServiceServer
	redis  *goredis.Client
	script *goredis.Script
	prefix string
	answer *setpointv1.RecommendResponse
	value  []byte
}

func (s *bareService) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	err := s.script.EvalSha(ctx, s.redis, []string{s.prefix + req.GetTarget()}, "123456789", s.value, "86400000").Err()
	return s.answer, err
}

// bareScript does the same to Redis as the engine's swap.
const bareScript = `redis.call('GETRANGE', KEYS[1], 0, 8)
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`

// startBare serves it and returns its address.
func startBare(b *testing.B, r *redistest.Server, answer *setpointv1.RecommendResponse, valueSize int) string {
	b.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: r.Addr()})
	b.Cleanup(func() { _ = client.Close() })
	bare := &bareService{redis: client, script: goredis.NewScript(bareScript), prefix: redistest.Prefix(b), answer: answer, value: make([]byte, valueSize)}
	fatal.If(b, bare.script.Load(b.Context(), client).Err())
	srv := grpc.NewServer()
	setpointv1.RegisterRecommendationServiceServer(srv, bare)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(b, err)
	go func() { _ = srv.Serve(listener) }()
	b.Cleanup(srv.Stop)
	return listener.Addr().String()
}

// callAll makes n calls from that many callers and returns the calls per second.
func callAll(b *testing.B, callers, n int, call func(i int) error) float64 {
	b.Helper()
	var running sync.WaitGroup
	start := time.Now()
	for c := range callers {
		running.Go(func() {
			for i := c; i < n; i += callers {
				if err := call(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	return float64(n) / time.Since(start).Seconds()
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// BenchmarkUnaryOnRedis compares unary recommendations with the bare handler.
func BenchmarkUnaryOnRedis(b *testing.B) {
	tuneCollector()
	r := redistest.Shared(b)
	service := serveOnRedis(b, r.URL(), func(s *settings) { s.Log.Level = "warn" })
	now := time.Now()
	requests := make([][]byte, 500)
	for i := range requests {
		requests[i] = encode(b, tenPods(webTarget(i), now))
	}
	recommend := func(conn *grpc.ClientConn) func(int) error {
		return func(i int) error {
			return invoke(b, conn, setpointv1.RecommendationService_Recommend_FullMethodName, requests[i%len(requests)])
		}
	}
	answer, err := service.Recommend(b.Context(), tenPods(webTarget(0), now))
	fatal.If(b, err)
	conn, bare := encodedClient(b, service.address), encodedClient(b, startBare(b, r, answer, 320))
	for range 10 { // the cache is filled, connections are open
		callAll(b, benchCallers, len(requests), recommend(conn))
		callAll(b, benchCallers, len(requests), recommend(bare))
	}
	const calls = 10_000
	var bareRates, rates, ratios []float64
	for b.Loop() {
		bareRate, rate := callAll(b, benchCallers, calls, recommend(bare)), callAll(b, benchCallers, calls, recommend(conn))
		bareRates, rates, ratios = append(bareRates, bareRate), append(rates, rate), append(ratios, rate/bareRate)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(bareRates), "bare/s")
	b.ReportMetric(median(rates), "recommendations/s")
	b.ReportMetric(100*median(ratios), "%-of-bare")
	b.ReportMetric(float64(len(requests[0])), "request-B")
}

// BenchmarkRecordingOnRedis compares unary recommendations of a service that keeps what targets are asked with one
// that does not: rates, and the processor's time of client, service with its background writer, and Redis together.
func BenchmarkRecordingOnRedis(b *testing.B) {
	tuneCollector()
	r := redistest.Shared(b)
	now := time.Now()
	requests := make([][]byte, 500)
	for i := range requests {
		requests[i] = encode(b, tenPods(webTarget(i), now))
	}
	var rounds [2]func(n int) (rate, cpu float64)
	for i, bytes := range []int{0, recordings.DayBytes} {
		conn := encodedClient(b, serveOnRedis(b, r.URL(), func(s *settings) { s.Log.Level, s.Server.Recordings.Bytes, s.ShedLoad = "warn", bytes, false }).address)
		rounds[i] = func(n int) (rate, cpu float64) {
			from := process.Own() + redisTime(b, r)
			rate = callAll(b, benchCallers, n, func(i int) error {
				return invoke(b, conn, setpointv1.RecommendationService_Recommend_FullMethodName, requests[i%len(requests)])
			})
			return rate, float64((process.Own() + redisTime(b, r) - from).Nanoseconds()) / float64(n)
		}
		rounds[i](10 * len(requests)) // the cache is filled, connections are open
	}
	const calls = 2000
	var rates, costs, offCosts []float64
	for b.Loop() {
		offRate, offCost := rounds[0](calls)
		rate, cost := rounds[1](calls)
		rates, costs, offCosts = append(rates, rate/offRate), append(costs, cost/offCost), append(offCosts, offCost)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*median(rates), "%-of-rate")
	b.ReportMetric(100*median(costs), "%-of-cpu")
	b.ReportMetric(median(offCosts), "cpu-ns/call-off")
}

// redisTime is the processor's time that Redis has had so far.
func redisTime(b *testing.B, r *redistest.Server) time.Duration {
	text, err := r.Client(b).Info(b.Context(), "cpu").Result()
	fatal.If(b, err)
	seconds := 0.
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			n, err := strconv.ParseFloat(value, 64)
			fatal.If(b, err)
			seconds += n
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

// BenchmarkBatchOnRedis measures batches.
func BenchmarkBatchOnRedis(b *testing.B) {
	tuneCollector()
	service := serveOnRedis(b, redistest.Shared(b).URL(), func(s *settings) { s.Log.Level = "warn" })
	now := time.Now()
	batches := make([][]byte, benchTargets/benchBatch)
	for i := range batches {
		batch := &setpointv1.BatchRecommendRequest{}
		for j := range benchBatch {
			batch.Requests = append(batch.Requests, tenPods(webTarget(i*benchBatch+j), now))
		}
		service.mustBatch(b, batch.GetRequests()...)
		batches[i] = encode(b, batch)
	}
	conn := encodedClient(b, service.address)
	const calls = 60
	round := func() float64 {
		return benchBatch * callAll(b, benchBatchCallers, calls, func(i int) error {
			return invoke(b, conn, setpointv1.RecommendationService_BatchRecommend_FullMethodName, batches[i%len(batches)])
		})
	}
	round()
	var rates []float64
	for b.Loop() {
		rates = append(rates, round())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(rates), "recommendations/s")
	b.ReportMetric(float64(len(batches[0])), "request-B")
}
