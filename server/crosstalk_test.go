package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/server"
	servercalls "github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
)

// troubled makes swaps late, lost, failed although they happened, or a panic; and has the store be
// away from time to time.
func troubled(su *servertest.Setup) {
	var swaps, all atomic.Int64 // all: loads and swaps, so that the store comes back even if none is swapped
	away := func(n int64) bool { return n%400 > 300 }
	su.Store.OnLoad = func(ctx context.Context, key store.Key, load servertest.LoadFunc) (store.Record, error) {
		if away(all.Add(1)) {
			return store.Record{}, store.ErrUnavailable
		}
		return load(ctx, key)
	}
	spurious := servertest.Spuriously(4)
	su.Store.OnSwap = func(ctx context.Context, swap store.Swap, compareAndSwap servertest.SwapFunc) (store.SwapResult, error) {
		n := swaps.Add(1)
		switch {
		case away(all.Add(1)):
			return store.SwapResult{}, store.ErrUnavailable
		case n%97 == 0 && servercalls.Of(ctx) != nil: // outside of a call it would end the process
			panic("injected")
		case n%53 == 0:
			_, _ = compareAndSwap(ctx, swap)
			return store.SwapResult{}, store.ErrUnavailable
		case n%11 == 0:
			select {
			case <-ctx.Done():
				return store.SwapResult{}, fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
			case <-time.After(rand.N(2 * time.Millisecond)):
			}
		}
		return spurious(ctx, swap, compareAndSwap)
	}
}

// owned fails the test if a text about a target has a mark of another one's caller.
func owned(t *testing.T, what, target, text string) {
	t.Helper()
	for _, mark := range marks(text) {
		if !strings.Contains(target, mark) {
			t.Errorf("%s of %s has %s:\n%s", what, target, mark, text)
			return
		}
	}
}

// watchesOwn checks what a watcher of a parent gets until the service stops.
func watchesOwn(t *testing.T, stream grpc.ServerStreamingClient[setpointv1.WatchDecisionsResponse], cluster string, got *atomic.Int64) {
	for {
		resp, err := stream.Recv()
		if err != nil {
			return
		}
		decisions := resp.GetDecisions()
		if resp.GetDecision() != nil {
			decisions = append(decisions, &setpointv1.WatchedDecision{Target: resp.GetTarget(), Decision: resp.GetDecision()})
		}
		for _, d := range decisions {
			got.Add(1)
			if !strings.HasPrefix(d.GetTarget(), cluster) {
				t.Errorf("the watcher of %q gets a decision of %q", cluster, d.GetTarget())
			}
			owned(t, "a decision that is watched", d.GetTarget(), prototext.Format(d.GetDecision()))
		}
	}
}

// The memory of calls is used again by the next ones, of whatever tenant. However calls end,
// nothing of one is in the answer, the error, the history, the log, the feed, the log lines or the
// trace of another.
func TestNothingOfACallReachesAnother(t *testing.T) {
	t.Parallel()
	const callers, watched = 24, 4
	callsOfEach := 40
	if testlength.Full() {
		callsOfEach = 400
	}
	core, logs := observer.New(zap.DebugLevel)
	s, traces := servertest.Traced(t, 1, servertest.HoldingDown, troubled, func(su *servertest.Setup) {
		su.Options.Log, su.Options.LogCalls = zap.New(core), server.LogAllCalls
		su.Options.MaxAttempts, su.Options.LoggedRepeats = 20, 1<<20
	})
	all := make([]*soloist, callers)
	for i := range all {
		all[i] = newSoloist(t, &stage{Service: s}, i)
		all[i].hasty = true
	}
	var watching, calling sync.WaitGroup
	var decisions atomic.Int64
	for i := range watched {
		cluster, req := "clusters/", &setpointv1.WatchDecisionsRequest{Parent: servertest.Everything, MaxDecisions: int32(20 * i)}
		if i > 0 {
			cluster += all[i].mark + "/"
			req.Parent = cluster + "namespaces/-/targets/-"
		}
		w := openWatch(t, s, req)
		watching.Go(func() { watchesOwn(t, w, cluster, &decisions) })
	}
	var made atomic.Int64
	for i, c := range all {
		way := []func(){c.unary, func() { c.batch() }, c.stream, c.rest}[i%4]
		calling.Go(func() {
			for range callsOfEach {
				way()
				if made.Add(1) == int64(callers*callsOfEach*9/10) {
					s.Stop() // the rest is refused, or finished by the drain
				}
			}
		})
	}
	calling.Wait()
	spans := traces.Received(t, s)
	watching.Wait()

	if decisions.Load() == 0 {
		t.Error("the watchers got no decisions")
	}
	for _, c := range all {
		for _, name := range c.targets {
			stored := s.Stored(t, name)
			if stored == nil {
				continue // each of its first calls failed
			}
			if _, err := record.Decode(stored); err != nil {
				t.Errorf("the history of %s: %v", name, err)
			}
			owned(t, "the history", name, string(stored))
			values, _, err := s.Memory.ReadLog(t.Context(), servertest.KeyOf(name), "", 1000)
			if err != nil {
				t.Error(err)
			}
			for _, value := range values {
				owned(t, "a logged decision", name, prototext.Format(decisionlog.Read(value)))
			}
		}
	}
	for _, line := range logs.All() {
		if text := fmt.Sprint(line.ContextMap()); len(marks(text)) > 1 {
			t.Errorf("the line %q names several callers: %s", line.Message, text)
		}
	}
	for _, span := range spans {
		if text := prototext.Format(span); len(marks(text)) > 1 {
			t.Errorf("a span names several callers: %s", text)
		}
	}
}
