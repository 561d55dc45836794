package pace

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestNextReconcile(t *testing.T) {
	t.Parallel()
	for range 2000 {
		period := time.Duration(1+rand.IntN(3600)) * time.Second
		settled := time.Unix(1_700_000_000+rand.Int64N(1e8), rand.Int64N(1e9))
		namespace := fmt.Sprint("ns-", rand.IntN(50))
		slack := Slack(period)
		next, stray := Next(settled, settled.Add(period), period, namespace, false)
		if wait := next.Sub(settled); wait < period || wait > period+slack || stray {
			t.Fatalf("%s after %s, period %s, out of turn: %v", wait, settled, period, stray)
		}
		next, stray = Next(settled, settled.Add(period), period, namespace, true)
		if wait := next.Sub(settled); wait < period || wait > period+max(period/8, slack) {
			t.Fatalf("%s after %s, period %s, where it is out of turn", wait, settled, period)
		}
		if onBeat := UntilBeat(next, period+slack, namespace) == 0; onBeat == stray {
			t.Fatalf("on the beat: %v, out of turn: %v, %s after %s, period %s", onBeat, stray, next, settled, period)
		}
	}
}

// next is Next after a change of the count.
func next(settled time.Time, period time.Duration, outOfTurn bool) (time.Time, bool) {
	return Next(settled, settled.Add(period), period, "shop", outOfTurn)
}

// Objects that start at any instants meet the beat, and stay on it while their reconciles take
// less than the slack.
func TestObjectsMeetTheBeat(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(14, 1))
	for _, period := range []time.Duration{time.Second, 3 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 10 * time.Minute, time.Hour} {
		slack := Slack(period)
		start := time.Unix(1_700_000_000, 0)
		for object := range 200 {
			at, stray := start.Add(time.Duration(random.Int64N(int64(period)))), true
			took := func() time.Duration { return time.Duration(random.Int64N(int64(slack) * 3 / 4)) }
			for reconcile := 0; ; reconcile++ {
				if !stray && UntilBeat(at, period+slack, "shop") == 0 {
					break
				}
				// From an eighth of a period after the beat each reconcile catches up by at
				// least a quarter of the slack.
				if reconcile > 8+int(period/8/(slack/4)) {
					t.Fatalf("period %s, object %d: not on the beat after %d reconciles", period, object, reconcile)
				}
				at, stray = next(at.Add(took()), period, stray)
			}
			for range 100 {
				before := at
				if at, stray = next(at.Add(took()), period, stray); at.Sub(before) != period+slack || stray {
					t.Fatalf("period %s, object %d: off the beat again, %s after the reconcile before", period, object, at.Sub(before))
				}
			}
			// A single slow reconcile is caught up with and costs no further time.
			before := at
			if at, stray = next(at.Add(slack+slack/2), period, stray); at.Sub(before) != period+slack+slack/2 || stray {
				t.Fatalf("period %s, object %d: %s after a reconcile that took %s", period, object, at.Sub(before), slack+slack/2)
			}
			for range 2 {
				at, stray = next(at.Add(slack/8), period, stray)
			}
			if off := UntilBeat(at, period+slack, "shop"); off != 0 {
				t.Fatalf("period %s, object %d: %s before the beat after a reconcile that took long", period, object, off)
			}
		}
	}
}

// Objects at rest are on the beat from their second reconcile on, and stay on it while a
// reconcile takes at most seven eighths of a period.
func TestObjectsAtRestMeetTheBeat(t *testing.T) {
	t.Parallel()
	for range 2000 {
		period := time.Duration(1+rand.IntN(3600)) * time.Second
		slack := Slack(period)
		first := time.Unix(1_700_000_000+rand.Int64N(1e8), rand.Int64N(1e9))
		took := func() time.Duration { return time.Duration(rand.Int64N(int64(period * 7 / 8))) }
		settled := first.Add(took())
		at, stray := Next(settled, time.Time{}, period, "shop", true)
		if wait := at.Sub(settled); stray || wait < period/8-slack || wait > period+max(period/8, slack) {
			t.Fatalf("the second reconcile %s after the answer of the first one, period %s", wait, period)
		}
		if off := UntilBeat(at, period+slack, "shop"); off != 0 {
			t.Fatalf("the second reconcile %s before the beat, period %s", off, period)
		}
		if next, stray := Next(at.Add(took()), time.Time{}, period, "shop", stray); next.Sub(at) != period+slack || stray {
			t.Fatalf("the third reconcile %s after the second one, period %s", next.Sub(at), period)
		}
	}
}

// The n-th reconcile after a change starts at least n periods after it, however long reconciles
// take, and eventually objects are on the beat.
func TestWhatWasLostIsMadeUp(t *testing.T) {
	t.Parallel()
	const period = 15 * time.Second
	for range 500 {
		changed := time.Unix(1_700_000_000+rand.Int64N(1e8), rand.Int64N(1e9))
		settled, stray, off := changed, true, 0
		for n := 1; n <= 100; n++ {
			soonest := changed.Add(time.Duration(n) * period)
			at, outOfTurn := Next(settled, soonest, period, "shop", stray)
			if at.Before(soonest) || at.Before(settled) {
				t.Fatalf("reconcile %d is %s too early", n, soonest.Sub(at))
			}
			if most := settled.Add(period + period/8); at.After(most) {
				t.Fatalf("reconcile %d is %s late", n, at.Sub(most))
			}
			if n > 30 && UntilBeat(at, period+Slack(period), "shop") != 0 {
				off++
			}
			// Longer than the slack, but too short to make a reconcile late by itself.
			settled, stray = at.Add(time.Duration(rand.Int64N(int64(time.Second)))), outOfTurn
		}
		if off > 0 {
			t.Fatalf("%d of 70 reconciles are not with the beat", off)
		}
	}
}

func TestNamespacesAreSpread(t *testing.T) {
	t.Parallel()
	const period = 10 * time.Second
	const tenths = 10
	var in [tenths]int
	for i := range 1000 {
		in[int64(shiftOf(fmt.Sprint("namespace-", i), period))*tenths/int64(period)]++
	}
	for i, n := range in {
		if n < 50 || n > 200 {
			t.Errorf("%d of 1000 namespaces in tenth %d of the period", n, i)
		}
	}
}

func TestRetryAt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for failures, want := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 4: 8, 5: 16} {
		if got := RetryAt(now, failures, time.Hour, "shop").Sub(now); got != want*time.Second {
			t.Errorf("after %d failures: %s, want %ds", failures, got, want)
		}
	}
	for _, failures := range []int{6, 60, 6000} {
		next, _ := next(now, 20*time.Second, false)
		if got := RetryAt(now, failures, 20*time.Second, "shop"); got.After(next) {
			t.Errorf("after %d failures at %s, later than the next reconcile at %s", failures, got, next)
		}
	}
}
