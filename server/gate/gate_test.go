package gate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/gate"
)

const mebi = 1 << 20

// enter starts a message in its own goroutine and returns whether it was admitted.
func enter(t *testing.T, ctx context.Context, g *gate.Gate, large bool) (p *gate.Pass, in func() bool, result func() error) {
	t.Helper()
	return enterAs(t, ctx, g, "", large)
}

func enterAs(t *testing.T, ctx context.Context, g *gate.Gate, caller string, large bool) (p *gate.Pass, in func() bool, result func() error) {
	t.Helper()
	p = new(gate.Pass)
	var entered atomic.Bool
	done := make(chan error, 1)
	go func() {
		err := g.Enter(ctx, p, caller, large)
		entered.Store(err == nil)
		done <- err
	}()
	synctest.Wait()
	return p, func() bool { synctest.Wait(); return entered.Load() }, func() error { return <-done }
}

func TestFewAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Options{Bytes: mebi, Readers: 2, Waiting: 10})
		var passes []*gate.Pass
		var ins []func() bool
		for range 4 {
			p, in, _ := enter(t, t.Context(), g, true)
			passes, ins = append(passes, p), append(ins, in)
		}
		small, in, _ := enter(t, t.Context(), g, false)
		if !ins[0]() || !ins[1]() || ins[2]() || ins[3]() {
			t.Fatal("want the first two to be read, and the others to wait")
		}
		if !in() {
			t.Fatal("a small one waits for large ones")
		}
		small.Leave()
		if !passes[1].Read(gate.Free+1) || !ins[2]() || ins[3]() {
			t.Fatal("want the third to be read once the second was, in the order they came")
		}
		for _, p := range passes[:3] {
			p.Leave()
		}
		if !ins[3]() {
			t.Fatal("the last one waits though none is read")
		}
		passes[3].Leave()
		passes[3].Leave()
		new(gate.Pass).Leave()
		if g.Held() != 0 {
			t.Errorf("%d bytes are held of none", g.Held())
		}
		for range 3 {
			p, in, _ := enter(t, t.Context(), g, true)
			passes, ins = append(passes, p), append(ins, in)
		}
		if !ins[4]() || !ins[5]() || ins[6]() {
			t.Error("what was read, and has left twice, gave more than its place")
		}
		passes[4].Leave()
	})
}

func TestLargeOnesWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Options{Bytes: mebi, Readers: 8, Waiting: 10})
		first, _, _ := enter(t, t.Context(), g, true)
		second, in, _ := enter(t, t.Context(), g, true)
		if !in() || !second.Read(3*mebi) || !first.Read(mebi) {
			t.Fatal("what is being read is never refused")
		}
		third, in, _ := enter(t, t.Context(), g, true)
		if second.Leave(); in() {
			t.Fatal("a third is begun while there is no room")
		}
		small, smallIn, _ := enter(t, t.Context(), g, false)
		if !smallIn() || !small.Read(gate.Free) || g.Held() != mebi {
			t.Fatal("small ones pass, and what takes little is not counted")
		}
		first.Leave()
		if !in() {
			t.Fatal("the third waits though there is room")
		}
		third.Leave()
	})
}

func TestSmallOnesThatTakeMuchAreRefusedForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Options{Bytes: mebi, Readers: 8, Waiting: 10})
		var first, second, third gate.Pass
		for _, p := range []*gate.Pass{&first, &second, &third} {
			fatal.If(t, g.Enter(t.Context(), p, "", false))
		}
		if !first.Read(mebi) || !second.Read(mebi) {
			t.Fatal("refused, though there is room")
		}
		if third.Read(gate.Free + 1) {
			t.Fatal("there is room without end")
		}
		if g.Held() != 2*mebi { // it has left
			t.Errorf("%d bytes are held, want those of two", g.Held())
		}
	})
}

func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Options{Bytes: mebi, Readers: 1, Waiting: 2})
		first, _, _ := enter(t, t.Context(), g, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, in, result := enter(t, ctx, g, true)
		var p gate.Pass
		if err := g.Enter(t.Context(), &p, "", true); !errors.Is(err, gate.ErrFull) {
			t.Fatalf("one more than may wait: %v", err)
		}
		p.Leave()
		if err := result(); !errors.Is(err, context.DeadlineExceeded) || in() {
			t.Fatalf("who gave up: %v", err)
		}
		for range 100 { // some give up at their very turn
			ctx, cancel := context.WithCancel(t.Context())
			second, _, _ := enter(t, ctx, g, true)
			next, in, _ := enterAs(t, t.Context(), g, "other", true)
			cancel()
			first.Leave()
			synctest.Wait()
			if second.Leave(); !in() {
				t.Fatal("one that gave up keeps its turn")
			}
			first = next
		}
		first.Leave()
		var small []*gate.Pass
		var results []func() error
		for range 3 { // more small ones may wait
			p, _, result := enter(t, t.Context(), g, false)
			small, results = append(small, p), append(results, result)
		}
		for i, p := range small {
			if err := results[i](); err != nil {
				t.Error(err)
			}
			p.Leave()
		}
	})
}

func TestCallersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Options{Bytes: mebi, Readers: 1, Waiting: 8})
		first, _, _ := enter(t, t.Context(), g, true)
		var order []string
		var waiting sync.WaitGroup
		for _, caller := range []string{"a", "a", "a", "a", "b", "b", "c"} {
			waiting.Go(func() {
				var p gate.Pass
				defer p.Leave()
				if err := g.Enter(t.Context(), &p, caller, true); err != nil {
					t.Error(caller, err)
				}
				order = append(order, caller)
			})
			synctest.Wait()
			if caller == "a" && len(order) > 0 {
				t.Fatal("read before its turn")
			}
		}
		first.Leave()
		waiting.Wait()
		if want := []string{"a", "b", "c", "a", "b", "a", "a"}; !slices.Equal(order, want) {
			t.Errorf("read in the order %v, want %v", order, want)
		}
	})
}

func TestNoCallerTakesAllPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(gate.Options{Bytes: mebi, Readers: 1, Waiting: 8})
		first, _, _ := enter(t, t.Context(), g, true)
		ctx, cancel := context.WithCancel(t.Context())
		var results []func() error
		for _, test := range []struct {
			caller string
			places int
		}{{"a", 4}, {"b", 2}, {"a", 0}, {"c", 1}, {"d", 1}, {"e", 0}} {
			for range test.places {
				_, _, result := enterAs(t, ctx, g, test.caller, true)
				results = append(results, result)
			}
			if err := g.Enter(t.Context(), new(gate.Pass), test.caller, true); !errors.Is(err, gate.ErrFull) {
				t.Fatalf("%s has more than %d places: %v", test.caller, test.places, err)
			}
		}
		cancel()
		for _, result := range results {
			if err := result(); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		first.Leave()
		if next, in, _ := enterAs(t, t.Context(), g, "a", true); !in() {
			t.Error("a place was lost")
		} else {
			next.Leave()
		}
	})
}

// A message that holds memory gets more without waiting, up to twice what there is, and gives all back.
func TestMoreForWhoHoldsMemory(t *testing.T) {
	t.Parallel()
	g := gate.New(gate.Options{Bytes: mebi, Readers: 3, Waiting: 50})
	var p, other gate.Pass
	for _, pass := range []*gate.Pass{&p, &other} {
		if !g.TryEnter(pass, true) || pass.Holds() || !pass.Read(mebi*3/4) || !pass.Holds() {
			t.Fatal("not entered, or what it holds is not told")
		}
	}
	if !p.More(mebi) || other.More(1) {
		t.Error("want more than there is, and no more than twice that")
	}
	p.Leave()
	if !other.More(1) || g.Held() != mebi*3/4+1 {
		t.Errorf("%d bytes are held", g.Held())
	}
	if other.Leave(); g.Held() != 0 || other.Holds() {
		t.Errorf("%d bytes are held of none", g.Held())
	}
	if gate.Of(t.Context()) != nil || gate.Of(gate.With(t.Context(), &p)) != &p {
		t.Error("a context does not have its pass")
	}
}

// Whatever happens to messages, all memory is released in the end and none waits for
// ever.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	g := gate.New(gate.Options{Bytes: mebi, Readers: 3, Waiting: 50})
	var callers sync.WaitGroup
	for i := range 100 {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		callers.Go(func() {
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(2000))*time.Microsecond)
				var p gate.Pass
				if err := g.Enter(ctx, &p, strconv.Itoa(i%7), random.IntN(2) == 0); err == nil && random.IntN(10) > 0 {
					p.Read(int64(random.IntN(mebi)))
				}
				p.Leave()
				cancel()
			}
		})
	}
	callers.Wait()
	if g.Held() != 0 {
		t.Errorf("%d bytes are held", g.Held())
	}
	for range 3 {
		for _, large := range []bool{false, true} {
			if err := g.Enter(t.Context(), new(gate.Pass), "", large); err != nil {
				t.Errorf("a place was lost: %v", err)
			}
		}
	}
}
