// Package load calls a service and tells how it fared, from a process of its own, so
// that neither the tests nor the service take from each other what is measured. Its
// program reads a Config from standard input and writes Buckets to standard output,
// both as JSON:
//
//	config := load.Config{Address: "127.0.0.1:9090", Connections: 4, Requests: encoded,
//		Phases: []load.Phase{{Name: "few", Workers: 2, Seconds: 3}, {Name: "many", Rate: 5000, Seconds: 60}}}
package load

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Config is the called service, the requests and the load.
type Config struct {
	Address     string
	Connections int
	// Requests are encoded RecommendRequests, sent in turn. Each is followed by Rest,
	// which they have in common.
	Requests [][]byte
	Rest     []byte
	// TimeoutMillis is each call's deadline.
	TimeoutMillis int
	Phases        []Phase
}

// Phase is a load of one kind.
type Phase struct {
	Name string
	// Workers call one after the other, each. 0: Rate calls a second are started, however many
	// are unanswered.
	Workers int
	Rate    float64
	// Seconds is how long it takes; 0: until standard input ends.
	Seconds float64
}

// Bucket is the calls that ended within BucketLength.
type Bucket struct {
	Phase string
	// Ended is when the bucket did, nanoseconds since the Unix epoch.
	Ended int64
	// Codes counts calls by their code.
	Codes map[string]int
	// Micros are the times that calls with the code OK took, from when they were due.
	Micros []int32
}

// BucketLength is how often Buckets are written.
const BucketLength = 100 * time.Millisecond

// Run runs the phases, one after the other. One without an end lasts until ctx is done.
func Run(ctx context.Context, config Config, out io.Writer) error {
	g := &generator{config: config, codes: make(map[string]int)}
	for i, request := range config.Requests {
		g.config.Requests[i] = slices.Concat(request, config.Rest)
	}
	for range config.Connections {
		conn, err := grpc.NewClient(config.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDisableRetry(), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.WaitForReady(true)))
		if err != nil {
			return err
		}
		defer conn.Close()
		g.conns = append(g.conns, conn)
	}
	for _, conn := range g.conns { // connect before anything is measured
		_ = g.call(ctx, conn, time.Now())
	}
	g.codes, g.micros = make(map[string]int), nil
	encoder := json.NewEncoder(out)
	for _, phase := range config.Phases {
		during, cancel := context.WithCancel(ctx)
		if phase.Seconds > 0 {
			during, cancel = context.WithTimeout(ctx, time.Duration(phase.Seconds*float64(time.Second)))
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer cancel()
			g.run(during, phase)
		}()
		if err := g.report(phase, ended, encoder); err != nil {
			return err
		}
	}
	return nil
}

type generator struct {
	config Config
	conns  []*grpc.ClientConn
	next   atomic.Uint64

	mu     sync.Mutex
	codes  map[string]int // guarded by mu
	micros []int32        // guarded by mu
}

// report writes buckets until the phase has ended.
func (g *generator) report(phase Phase, ended <-chan struct{}, encoder *json.Encoder) error {
	ticker := time.NewTicker(BucketLength)
	defer ticker.Stop()
	for running := true; running; {
		select {
		case <-ticker.C:
		case <-ended:
			running = false
		}
		g.mu.Lock()
		bucket := Bucket{Phase: phase.Name, Ended: time.Now().UnixNano(), Codes: g.codes, Micros: g.micros}
		g.codes, g.micros = make(map[string]int), nil
		g.mu.Unlock()
		if err := encoder.Encode(bucket); err != nil {
			return err
		}
	}
	return nil
}

// run makes the calls of a phase, and waits for them.
func (g *generator) run(ctx context.Context, phase Phase) {
	var running sync.WaitGroup
	defer running.Wait()
	if phase.Workers > 0 {
		for i := range phase.Workers {
			running.Go(func() {
				for ctx.Err() == nil {
					_ = g.call(ctx, g.conns[i%len(g.conns)], time.Now())
				}
			})
		}
		return
	}
	began, n := time.Now(), 0
	for ctx.Err() == nil {
		due := began.Add(time.Duration(float64(n) / phase.Rate * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		conn := g.conns[n%len(g.conns)]
		n++
		running.Go(func() { _ = g.call(ctx, conn, due) })
	}
}

// call makes a call. One that the phase's end would cut off is waited for.
func (g *generator) call(ctx context.Context, conn *grpc.ClientConn, due time.Time) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(g.config.TimeoutMillis)*time.Millisecond)
	defer cancel()
	request := g.config.Requests[g.next.Add(1)%uint64(len(g.config.Requests))]
	var answer []byte
	err := conn.Invoke(ctx, setpointv1.RecommendationService_Recommend_FullMethodName, request, &answer)
	took := time.Since(due)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.codes[status.Code(err).String()]++
	if err == nil {
		g.micros = append(g.micros, int32(min(took.Microseconds(), 1<<30)))
	}
	return err
}

// raw is a codec of messages that are encoded already.
type raw struct{}

var _ encoding.CodecV2 = raw{}

// Marshal implements encoding.CodecV2.
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = nil // nobody reads it
	_ = data.Len()
	return nil
}

// Name implements encoding.CodecV2.
func (raw) Name() string { return "proto" }
