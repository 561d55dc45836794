package limit_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/setpoint-dev/setpoint/server/limit"
)

// admissions are the ways to put a Limiter before a gRPC server.
var admissions = map[string]func(*limit.Limiter) []grpc.ServerOption{
	// none lets everything in.
	"none": func(*limit.Limiter) []grpc.ServerOption { return nil },
	// interceptor decides when the call's goroutine has read the body.
	"interceptor": func(l *limit.Limiter) []grpc.ServerOption {
		return []grpc.ServerOption{grpc.UnaryInterceptor(
			func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				var ticket limit.Ticket
				if refusal := l.Enter(&ticket, nil); refusal.Refused() {
					return nil, refusal.Err()
				}
				defer ticket.Release()
				ticket.Begin()
				return handler(ctx, req)
			})}
	},
	// tap decides when the headers are read, and answers there while memory allows.
	"tap": func(l *limit.Limiter) []grpc.ServerOption {
		return []grpc.ServerOption{grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
			if limit.Exempt(info.FullMethodName) {
				return ctx, nil
			}
			c := &entered{Context: ctx}
			if c.refusal = l.Enter(&c.ticket, nil); !c.refusal.Refused() {
				context.AfterFunc(ctx, c.ticket.Abandon)
			} else if l.AnswerEarly(ctx) {
				return ctx, c.refusal.Err()
			}
			return c, nil
		})}
	},
	// deferred decides when the headers are read, and lets the call's goroutine answer.
	"deferred": func(l *limit.Limiter) []grpc.ServerOption {
		return []grpc.ServerOption{grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
			if limit.Exempt(info.FullMethodName) {
				return ctx, nil
			}
			c := &entered{Context: ctx}
			if c.refusal = l.Enter(&c.ticket, nil); !c.refusal.Refused() {
				context.AfterFunc(ctx, c.ticket.Abandon)
			}
			return c, nil
		})}
	},
}

// entered is the context of a call that was looked at when its headers were read.
type entered struct {
	context.Context
	ticket  limit.Ticket
	refusal limit.Refusal
}

type enteredKey struct{}

func (c *entered) Value(key any) any {
	if key == (enteredKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// work is the service: it keeps a processor busy.
func work(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	if c, ok := ctx.Value(enteredKey{}).(*entered); ok {
		if c.refusal.Refused() {
			return nil, c.refusal.Err()
		}
		defer c.ticket.Release()
		if !c.ticket.Begin() {
			return nil, status.FromContextError(context.Canceled).Err()
		}
	}
	in := new(wrapperspb.BytesValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	handle := func(_ context.Context, req any) (any, error) {
		data := req.(*wrapperspb.BytesValue).GetValue()
		for range workRounds {
			sum := sha256.Sum256(data)
			copy(data, sum[:])
		}
		return wrapperspb.Bytes(data[:256]), nil
	}
	if interceptor == nil {
		return handle(ctx, in)
	}
	return interceptor(ctx, in, &grpc.UnaryServerInfo{FullMethod: workMethod}, handle)
}

const (
	workMethod  = "/test.Work/Do"
	workBytes   = 2 << 10
	callTimeout = 5 * time.Second
	// workRounds of hashing that much take some 700 µs of a processor.
	workRounds = 500
)

var workService = grpc.ServiceDesc{
	ServiceName: "test.Work", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Do", Handler: work}},
}

// admissionVariable names the kind of admission in a process that runs as the server.
const admissionVariable = "SETPOINT_TEST_ADMISSION"

// refuseAllVariable has it refuse everything.
const refuseAllVariable = "SETPOINT_TEST_REFUSE_ALL"

func TestMain(m *testing.M) {
	if admission := os.Getenv(admissionVariable); admission != "" {
		if err := serveWork(admission); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serverReport is a server's report when its input ends.
type serverReport struct {
	HeapBytes  uint64
	PeakBytes  uint64
	Goroutines int
	Refused    uint64
	InFlight   int
	// CPU is the processor time used.
	CPU time.Duration
}

// serveWork serves until standard input ends: its address is its first line, its report
// the second one.
func serveWork(admission string) error {
	options := limit.DefaultOptions()
	refuseAll := os.Getenv(refuseAllVariable) != ""
	if refuseAll {
		options.InFlight = 1
	}
	l, err := limit.New(options)
	if err != nil {
		return err
	}
	if refuseAll {
		l.Enter(new(limit.Ticket), nil)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer(admissions[admission](l)...)
	s.RegisterService(&workService, nil)
	fmt.Println(listener.Addr())
	var report serverReport
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			report.PeakBytes = max(report.PeakBytes, memory.HeapInuse)
			report.Goroutines = max(report.Goroutines, runtime.NumGoroutine())
		}
	}()
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString(0)
		s.Stop()
	}()
	if err := s.Serve(listener); err != nil {
		return err
	}
	close(stop)
	<-stopped
	for _, r := range limit.Reasons() {
		report.Refused += l.Refused(r)
	}
	report.InFlight = l.InFlight()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	report.CPU = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return json.NewEncoder(os.Stdout).Encode(report)
}

// workServer is a server in a process of its own.
type workServer struct {
	address string
	stop    func() serverReport
}

func startWork(b testing.TB, admission string, more ...string) *workServer {
	command := exec.Command(os.Args[0])
	command.Env = append(append(os.Environ(), admissionVariable+"="+admission), more...)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewReader(out)
	address, err := lines.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return &workServer{strings.TrimSpace(address), sync.OnceValue(func() (report serverReport) {
		_ = in.Close()
		if err := json.NewDecoder(lines).Decode(&report); err != nil {
			b.Error(err)
		}
		if err := command.Wait(); err != nil {
			b.Error(err)
		}
		return report
	})}
}

// load is a client's result.
type load struct {
	seconds float64
	times   []time.Duration // of calls that were answered
	errors  map[codes.Code]int
	offered int
}

func (l *load) goodput() float64 { return float64(len(l.times)) / l.seconds }

func (l *load) quantile(q float64) time.Duration {
	if len(l.times) == 0 {
		return 0
	}
	slices.Sort(l.times)
	return l.times[int(q*float64(len(l.times)-1))]
}

// workClient calls a server over some connections.
type workClient struct {
	conns   []*grpc.ClientConn
	payload *wrapperspb.BytesValue
}

func dialWork(b testing.TB, address string) *workClient {
	c := &workClient{payload: wrapperspb.Bytes(make([]byte, workBytes))}
	for range 4 {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		c.conns = append(c.conns, conn)
	}
	return c
}

func (c *workClient) call(i int) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return c.conns[i%len(c.conns)].Invoke(ctx, workMethod, c.payload, new(wrapperspb.BytesValue))
}

// saturate keeps that many calls in flight, and returns the results.
func (c *workClient) saturate(callers int, d time.Duration) *load {
	l := &load{seconds: d.Seconds(), errors: map[codes.Code]int{}}
	var mu sync.Mutex
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			for end := time.Now().Add(d); time.Now().Before(end); {
				l.count(&mu, time.Now(), c.call(i))
			}
		})
	}
	running.Wait()
	return l
}

// offer calls so many times a second at random, whatever comes back.
func (c *workClient) offer(perSecond float64, d time.Duration) *load {
	l := &load{seconds: d.Seconds(), errors: map[codes.Code]int{}}
	var mu sync.Mutex
	var running sync.WaitGroup
	next := time.Now()
	for end := next.Add(d); next.Before(end); l.offered++ {
		next = next.Add(time.Duration(rand.ExpFloat64() / perSecond * float64(time.Second)))
		if pause := time.Until(next); pause > 200*time.Microsecond {
			time.Sleep(pause)
		}
		i, due := l.offered, time.Now()
		running.Go(func() { l.count(&mu, due, c.call(i)) })
	}
	running.Wait()
	return l
}

func (l *load) count(mu *sync.Mutex, due time.Time, err error) {
	took := time.Since(due)
	mu.Lock()
	defer mu.Unlock()
	if err == nil {
		l.times = append(l.times, took)
		return
	}
	l.errors[status.Code(err)]++
}

// BenchmarkOverload offers a gRPC server several times its capacity and reports, for each
// way of using a Limiter, the rate and the latency of successful calls. Client and server
// are processes on the same machine, and the client's work counts against the server.
//
//	go test -run='^$' -bench=Overload -benchtime=1x -timeout=10m ./server/limit
func BenchmarkOverload(b *testing.B) {
	for _, factor := range []float64{2, 5} {
		for _, admission := range []string{"none", "interceptor", "deferred", "tap"} {
			b.Run(fmt.Sprintf("factor=%g/admission=%s", factor, admission), func(b *testing.B) {
				for b.Loop() {
					s := startWork(b, admission)
					c := dialWork(b, s.address)
					peak := c.saturate(16, 2*time.Second).goodput()
					unloaded := c.offer(peak/10, 3*time.Second)
					over := c.offer(factor*peak, 10*time.Second)
					after := c.offer(peak/10, 2*time.Second)
					report := s.stop()
					if report.InFlight != 0 {
						b.Error(errors.New("calls are still in flight"), report.InFlight)
					}
					b.ReportMetric(peak, "peak/s")
					b.ReportMetric(float64(over.offered)/over.seconds, "offered/s")
					b.ReportMetric(over.goodput(), "goodput/s")
					others := 0
					for code, n := range over.errors {
						if code != codes.ResourceExhausted {
							others += n
						}
					}
					b.ReportMetric(float64(others), "other-errors")
					b.ReportMetric(over.quantile(.5).Seconds()*1e3, "p50-ms")
					b.ReportMetric(over.quantile(.99).Seconds()*1e3, "p99-ms")
					b.ReportMetric(unloaded.quantile(.99).Seconds()*1e3, "unloaded-p99-ms")
					b.ReportMetric(after.quantile(.99).Seconds()*1e3, "after-p99-ms")
					b.ReportMetric(float64(report.PeakBytes)/(1<<20), "heap-MiB")
					b.ReportMetric(float64(report.Goroutines), "goroutines")
				}
			})
		}
	}
}

// BenchmarkRefusal reports the cost of refusing a call for a gRPC server: its processor
// time, and the maximum memory, with deadlines callTimeout away.
func BenchmarkRefusal(b *testing.B) {
	for _, admission := range []string{"interceptor", "deferred", "tap"} {
		b.Run("admission="+admission, func(b *testing.B) {
			s := startWork(b, admission, refuseAllVariable+"=1")
			c := dialWork(b, s.address)
			b.ResetTimer()
			var next atomic.Int64
			var callers sync.WaitGroup
			for range 16 {
				callers.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						if err := c.call(int(i)); status.Code(err) != codes.ResourceExhausted {
							b.Error(err)
							return
						}
					}
				})
			}
			callers.Wait()
			b.StopTimer()
			report := s.stop()
			b.ReportMetric(report.CPU.Seconds()*1e6/float64(b.N), "server-cpu-µs/op")
			b.ReportMetric(float64(report.PeakBytes)/(1<<20), "heap-MiB")
		})
	}
}
