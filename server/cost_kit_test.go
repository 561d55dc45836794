package server_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// What a message may cost: the property that the service promises.
const (
	memoryFloor, memoryPerByte = 32 << 20, 10
	timeFloor                  = 50 * time.Millisecond
	timePerMessage             = 2 * time.Second // of 16 MiB
)

// spentBy measures the allocations, in bytes, and the processor time of the whole
// process while f runs: no peak is higher than that. Nothing else may run.
func spentBy(f func()) (allocated uint64, took time.Duration) {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before, began := sample[0].Value.Uint64(), process.Own()
	f()
	took = process.Own() - began
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before, took
}

// peakOf measures the maximum of additional memory in use while f runs, bytes, with
// little garbage included.
func peakOf(f func()) (peak uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	done, ended := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for highest := before; ; {
			select {
			case <-done:
				ended <- highest - before
				return
			case <-tick.C:
				metrics.Read(sample)
				highest = max(highest, sample[0].Value.Uint64())
			}
		}
	}()
	f()
	close(done)
	return <-ended
}

// slowdown is how much longer everything may take: where processors are shared the same
// work takes up to some three times as long. What is not proportional takes far longer.
const slowdown = 4

// measures leaves a test to make guard, which finds it by this call: large requests take minutes,
// and costs are not measured beside other tests, nor with the race detector.
func measures(tb testing.TB) {
	tb.Helper()
	if testlength.RaceDetector || os.Getenv("GUARD") == "" && !testlength.Full() {
		tb.Skip("takes long and measures: make guard runs it, as GUARD=1 does")
	}
}

// tries is how often a cost is measured that is too high: other processes disturb.
const tries = 5

// refusedSlack is how much longer a refusal may take: describing errors takes longer than
// deciding, and the limit is that of accepted requests.
const refusedSlack = 2

// coverageSlowdown is how much longer code takes that counts its branches for a fuzzer,
// on processors that its workers share.
const coverageSlowdown = 5

// checkCost fails where f, which sends a message of that size and says whether it was
// accepted, costs more than it may.
func checkCost(t *testing.T, size int, send func() (accepted bool)) {
	t.Helper()
	mayTake := slowdown * (timeFloor + timePerMessage*time.Duration(size)/(16<<20))
	if fuzzed := flag.Lookup("test.fuzz"); fuzzed != nil && fuzzed.Value.String() != "" {
		mayTake *= coverageSlowdown
	}
	mayUse := uint64(memoryFloor + memoryPerByte*size)
	accepted := true
	f := func() { accepted = send() }
	runtime.GC()
	used, took := spentBy(f) // the total of allocations is never less than the peak
	if !accepted {
		mayTake *= refusedSlack
	}
	for n := 1; n < tries && took > mayTake; n++ {
		runtime.GC()
		_, again := spentBy(f)
		took = min(took, again)
	}
	for n := 1; n < tries && used > mayUse; n++ {
		used = peakOf(f)
	}
	if took > mayTake || used > mayUse {
		t.Errorf("%d bytes take %v, may take %v; use %d bytes of memory, may use %d", size, took, mayTake, used, mayUse)
	}
}

// postRaw posts a body and drops the answer.
func postRaw(tb testing.TB, s *servertest.Service, path string, body []byte) (code int) {
	resp, err := s.HTTP.Post(s.URL+path, "application/json", bytes.NewReader(body))
	fatal.If(tb, err)
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		tb.Fatal(err)
	}
	return resp.StatusCode
}
