package guard_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/arena"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/wire"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// allocations returns what an operation of this process allocates, n times in a row.
func allocations(n int, operation func()) (least cost) {
	// As in the process that serves.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range n {
		operation()
	}
	for i := range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			operation()
		}
		runtime.ReadMemStats(&after)
		c := cost{allocs: float64(after.Mallocs-before.Mallocs) / float64(n), bytes: float64(after.TotalAlloc-before.TotalAlloc) / float64(n)}
		if i == 0 {
			least = c
		}
		least.allocs, least.bytes = min(least.allocs, c.allocs), min(least.bytes, c.bytes)
	}
	return least
}

// The steps of a recommendation by themselves: reading, deciding, writing.
func TestSteps(t *testing.T) {
	counted(t)
	for _, pods := range []int{10, 1000, 10_000} {
		decoder := wire.NewDecoder(recommender.DefaultOptions())
		data := encode(t, usual(0, pods))
		n := max(10, 1000/pods)
		check(t, fmt.Sprintf("decode, %d pods", pods), allocations(n, func() { decode(t, decoder, data).Release() }))
		// The first of a size finds no memory that can be used again.
		check(t, fmt.Sprintf("decode anew, %d pods", pods), allocations(n, func() { _ = decode(t, decoder, data) }))
		request := decode(t, decoder, data)
		var history recommender.History
		for i := range full {
			_, history = recommender.Recommend(began.Add(time.Duration(i)*period), &request.Input, &history)
		}
		now := began.Add(full * period)
		var decision recommender.Decision
		check(t, fmt.Sprintf("decide, %d pods", pods), allocations(n, func() { decision, _ = recommender.Recommend(now, &request.Input, &history) }))
		if pods > 10 {
			continue
		}
		around := stages.Around{Plan: &stages.Plan{
			Metrics: []string{conversion.MetricName(&request.Input.Spec.Metrics[0])}, WindowThroughFailures: true, IgnoreSurge: true,
			Combine:   &stages.Combine{Method: stages.Quorum, Quorum: 1},
			Reversals: &stages.Reversals{Count: 15, Period: time.Hour, Hold: time.Minute},
		}}
		check(t, "decide with stages, 10 pods", allocations(n, func() { _, _, _ = around.RecommendIn(nil, now, &request.Input, &history, nil) }))
		var b []byte
		check(t, "encode answer", allocations(n, func() { b, _ = wire.AppendResponse(b[:0], &decision, "") }))
		check(t, "encode history", allocations(n, func() { b = encoding.AppendHistory(b[:0], &history) }))
		check(t, "decode history", allocations(n, func() {
			if _, err := encoding.DecodeHistory(b); err != nil {
				t.Fatal(err)
			}
		}))
	}
}

// A decision on an hour of seconds, from its record to the next one, makes no list of it.
func TestALongHistory(t *testing.T) {
	counted(t)
	request := decode(t, wire.NewDecoder(recommender.DefaultOptions()), encode(t, usual(0, 10)))
	request.Input.Options.DownscaleStabilization = time.Hour
	h := recommender.History{Seen: true, Initialized: true, Updated: began}
	for i := range 3600 {
		at := began.Add(time.Duration(i-3600)*time.Second + time.Duration(i*i%5_000_000))
		h.Recommendations = append(h.Recommendations, recommender.TimedRecommendation{Replicas: int32(10 + i*i%20), At: at.UnixNano()})
	}
	value := record.Append(nil, &record.Record{History: h})
	var reads record.Memory
	var decides arena.Decisions[recommender.Condition, recommender.MetricStatus, recommender.TimedRecommendation]
	room := make([]byte, 0, len(value)+1024)
	var known record.Record
	check(t, "an hour of seconds", allocations(100, func() {
		fatal.If(t, reads.DecodePacked(value, &known))
		_, known.History = recommender.RecommendIn(&decides, began.Add(time.Second), &request.Input, &known.History)
		room = reads.Append(room[:0], &known)
	}))
}

func decode(t *testing.T, decoder *wire.Decoder, data []byte) *wire.Request {
	t.Helper()
	request, ok := decoder.Decode(data, nil)
	if !ok {
		t.Fatal("the fast path does not take the request")
	}
	return request
}

// swapped is about what is stored of a target.
var swapped = make([]byte, 260)

func TestSwaps(t *testing.T) {
	counted(t)
	engine, err := openRedis(redistest.Start(t, redistest.Config{}).URL())
	fatal.If(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	one := store.Swap{Key: key(0), Value: swapped}
	check(t, "swap", allocations(full, func() {
		result, err := engine.CompareAndSwap(context.Background(), one)
		one.Old = after(t, result, err)
	}))
	many := make([]store.Swap, perBatch)
	for i := range many {
		many[i] = store.Swap{Key: key(1 + i), Value: swapped}
	}
	c := allocations(full, func() {
		results, err := engine.CompareAndSwapBatch(context.Background(), many)
		for i := range results {
			many[i].Old = after(t, results[i], err)
		}
	})
	check(t, "swap in a batch", cost{allocs: c.allocs / perBatch, bytes: c.bytes / perBatch})
}

func key(i int) store.Key {
	return store.Key{Cluster: "prod", Namespace: "shop", Target: fmt.Sprintf("web-%04d", i)}
}

// after returns the version after a swap that happened.
func after(t *testing.T, result store.SwapResult, err error) store.Version {
	t.Helper()
	if err != nil || !result.Swapped {
		t.Fatalf("%+v, %v", result, err)
	}
	return result.Record.Version
}
