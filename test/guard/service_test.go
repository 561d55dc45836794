package guard_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// perBatch is how many requests a batch has.
const perBatch = 100

// call calls a method with an encoded message.
func (p *process) call(method string, message []byte) {
	p.t.Helper()
	size := 0
	fatal.If(p.t, p.conn.Invoke(p.t.Context(), method, &message, &size))
	if size < 256 {
		p.t.Fatalf("an answer of %d bytes", size)
	}
}

// unary measures a recommendation that is a call.
func (p *process) unary(a *asked, n int) cost {
	p.t.Helper()
	return p.measure(n, func() { p.recommend(a) })
}

func (p *process) recommend(a *asked) {
	p.t.Helper()
	p.call(setpointv1.RecommendationService_Recommend_FullMethodName, a.next())
}

// batch measures a recommendation within a batch.
func (p *process) batch(a *asked) cost {
	p.t.Helper()
	c := p.measure(full, func() { p.call(setpointv1.RecommendationService_BatchRecommend_FullMethodName, a.batch()) })
	n := float64(len(a.requests))
	return cost{c.allocs / n, c.bytes / n, c.reads / n, c.writes / n, c.commands / n, c.redisBytes / n}
}

// stream measures a recommendation that is a message of a stream.
func (p *process) stream(a *asked, n int) cost {
	p.t.Helper()
	stream, err := p.conn.NewStream(p.t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		setpointv1.RecommendationService_StreamRecommend_FullMethodName)
	fatal.If(p.t, err)
	return p.measure(n, func() {
		message, size := a.streamed(), 0
		fatal.If(p.t, stream.SendMsg(&message))
		if err := stream.RecvMsg(&size); err != nil || size < 256 {
			p.t.Fatalf("an answer of %d bytes: %v", size, err)
		}
	})
}

// few is how many targets are asked for one after the other, and calls how many calls
// are measured: enough that each target's history is full.
const (
	few   = 8
	calls = few * full
)

func TestCallsOnMemory(t *testing.T) {
	counted(t)
	p := start(t, inMemory)
	ten := p.unary(newAsked(t, 0, few, 10), calls)
	check(t, "unary, 10 pods", ten)
	hundred := p.unary(newAsked(t, 100, few, 100), calls)
	check(t, "unary, 100 pods", hundred)
	check(t, "unary, each pod", cost{allocs: (hundred.allocs - ten.allocs) / 90, bytes: (hundred.bytes - ten.bytes) / 90})
	check(t, "unary, 10,000 pods", p.unary(newAsked(t, 200, 1, 10_000), full))
	check(t, "stream, 10 pods", p.stream(newAsked(t, 300, few, 10), calls))
	check(t, "batch, 10 pods", p.batch(newAsked(t, 400, perBatch, 10)))
}

func TestCallsOnRedis(t *testing.T) {
	counted(t)
	server := redistest.Start(t, redistest.Config{})
	p, client := start(t, server.URL()), server.Client(t)
	requests := newAsked(t, 0, few, 10)
	one := p.unary(requests, calls)
	one.redisBytes = bytesToRedis(t, client, calls, func() { p.recommend(requests) })
	check(t, "unary, Redis", one)
	check(t, "stream, Redis", p.stream(newAsked(t, 300, few, 10), calls))
	check(t, "batch, Redis", p.batch(newAsked(t, 400, perBatch, 10)))
}

// bytesToRedis returns the bytes that Redis reads per operation, of n in a row, without what it reads
// in the same time of a service that is asked nothing.
func bytesToRedis(t *testing.T, client *goredis.Client, n int, operation func()) float64 {
	t.Helper()
	read := func() float64 {
		t.Helper()
		info, err := client.InfoMap(t.Context(), "stats").Result()
		fatal.If(t, err)
		bytes, err := strconv.ParseFloat(info["Stats"]["total_net_input_bytes"], 64)
		fatal.If(t, err)
		return bytes
	}
	bytes := func(do func()) float64 {
		before := read()
		empty := read()
		do()
		return read() - empty - (empty - before)
	}
	idle := bytes(func() { time.Sleep(idleSeconds * time.Second) }) / idleSeconds
	least := math.Inf(1)
	for range rounds {
		began := time.Now()
		took := bytes(func() {
			for range n {
				operation()
			}
		})
		least = min(least, (took-idle*time.Since(began).Seconds())/float64(n))
	}
	return least
}
