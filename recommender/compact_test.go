package recommender

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// needed is how many recommendations of the longest window can decide anything:
// those that are, from the newest back, higher or lower than all before.
func (c *comparison) needed(now int64) int {
	window := c.in.Options.DownscaleStabilization
	if b := c.in.Spec.Behavior; b != nil {
		window = time.Duration(max(*b.ScaleUp.StabilizationWindowSeconds, *b.ScaleDown.StabilizationWindowSeconds)) * time.Second
	}
	n, highest, lowest := 0, int32(-1), int32(1000)
	for _, r := range slices.Backward(c.plain.recommended) {
		if r.At < now-int64(window) {
			break
		}
		if r.Replicas > highest || r.Replicas < lowest {
			n++
		}
		highest, lowest = max(highest, r.Replicas), min(lowest, r.Replicas)
	}
	return n
}

// recent is how many events of a list are not older than the longest period.
func recent(events []ScaleEvent, now int64) (n int) {
	for _, e := range events {
		if e.At >= now-int64(90*time.Second) {
			n++
		}
	}
	return n
}

// A bounded history answers as an unbounded one as long as the limit has room for
// what can decide anything: recommendations of the longest window that are higher
// or lower than all since, and the events of the longest period. Beyond that it
// still keeps the newest.
func TestPropertyCompactionChangesNoAnswer(t *testing.T) {
	testlength.SkipUnderRace(t)
	random := newRandom(8)
	compared, compacted := 0, 0
	for range 250 {
		c := newComparison(random)
		limit := c.between(8, 14)
		c.in.Options.HistoryLimit = limit
		unbounded := &target{in: clone(c.in)}
		unbounded.in.Options.HistoryLimit = 1 << 30
		for range 120 {
			now := c.now.UnixNano()
			if c.needed(now) >= limit-2 || recent(c.plain.ups, now) >= limit || recent(c.plain.downs, now) >= limit {
				break // one more, and two that are in no window, may be too many
			}
			at, scale := c.now, c.in.Scale
			c.step(t) // compares with everything that happened
			if len(c.history.Recommendations) > limit || len(c.history.ScaleUps) > limit || len(c.history.ScaleDowns) > limit {
				t.Fatalf("%d recommendations, %d and %d events; the limit is %d",
					len(c.history.Recommendations), len(c.history.ScaleUps), len(c.history.ScaleDowns), limit)
			}
			unbounded.in.Scale, unbounded.in.Readings, unbounded.in.ID = scale, c.in.Readings, c.in.ID
			d, next := Recommend(at, unbounded.in, &unbounded.history)
			if d.Changes() {
				_, next, _ = Settle(next, "ns", d.ID, Applied, "")
			}
			unbounded.history = next
			equal(t, "the status", c.history.Status, next.Status)
			compared++
			if len(next.Recommendations) > limit {
				compacted++
			}
		}
	}
	if compared < 5000 || compacted < 2000 {
		t.Errorf("%d evaluations compared, %d of them beyond the limit", compared, compacted)
	}
}

// Whatever comes, the limit bounds the history.
func TestTheLimitBoundsTheHistory(t *testing.T) {
	random := newRandom(9)
	for _, asked := range []int{1, 8, 9, 10} {
		limit := max(8, asked)
		in := wanting(100)
		in.Spec.MaxReplicas, in.Spec.Behavior = 1000, behavior(nil, nil)
		in.Spec.Behavior.ScaleUp.Policies[0].PeriodSeconds = 1800
		in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(3600))
		in.Options.HistoryLimit = asked
		x := &target{in: in}
		for i := range 300 {
			wants := int64(50 + random.IntN(100))
			if i%2 == 0 {
				wants = int64(100 + i) // up and up, so that none can be dropped for another
			}
			in.Scale.SpecReplicas = int32(40 + random.IntN(120)) // so that it changes each time
			read(in, 0, wants*unit)
			d := x.recommend(t, time.Duration(i)*time.Second)
			h := &x.history
			if len(h.Recommendations) > limit || len(h.ScaleUps) > limit || len(h.ScaleDowns) > limit {
				t.Fatalf("%d recommendations, %d and %d events; the limit is %d", len(h.Recommendations), len(h.ScaleUps), len(h.ScaleDowns), limit)
			}
			if newest := (TimedRecommendation{int32(wants), d.At.UnixNano()}); !slices.Contains(h.Recommendations, newest) {
				t.Fatalf("the newest recommendation, %+v, is not among %+v", newest, h.Recommendations)
			}
			if d.Changes() {
				x.settle(t, d)
			}
		}
	}
}

func TestCompactionOfRecommendations(t *testing.T) {
	slots := func(replicas ...int32) []TimedRecommendation {
		s := make([]TimedRecommendation, len(replicas))
		for i, n := range replicas {
			s[i] = TimedRecommendation{n, int64(i)}
		}
		return s
	}
	for _, tt := range []struct {
		name     string
		slots    []TimedRecommendation
		cutoff   int64
		limit    int
		want     []TimedRecommendation
		thinned  int64
		obsolete int64
	}{
		{"equal ones: the newest", slots(5, 5, 5, 5), 0, 8, []TimedRecommendation{{5, 3}}, 0, 0},
		{"rising: older ones are lower and lower", slots(1, 2, 3, 4), 0, 8, slots(1, 2, 3, 4), 0, 0},
		{"what lies between newer ones goes", slots(9, 5, 7, 1, 8, 6), 0, 8, []TimedRecommendation{{9, 0}, {1, 3}, {8, 4}, {6, 5}}, 0, 0},
		{"an older equal one goes", slots(8, 1, 8, 1), 0, 8, []TimedRecommendation{{8, 2}, {1, 3}}, 0, 0},
		{"past the cutoff too", slots(1, 2, 3, 4, 5), 2, 8, []TimedRecommendation{{3, 2}, {4, 3}, {5, 4}}, 0, 0},
		{"but not the newest", slots(1, 2), 9, 8, []TimedRecommendation{{2, 1}}, 0, 0},
		{
			"age is by instant, not by slot",
			[]TimedRecommendation{{6, 50}, {9, 10}, {7, 30}, {8, 20}, {7, 40}}, 0, 8,
			[]TimedRecommendation{{9, 10}, {8, 20}, {7, 40}, {6, 50}}, 0, 0,
		},
		{
			"falling, thinned: the older of two lasts as long as the newer",
			slots(19, 18, 17, 16, 15, 14, 13, 12, 11, 10), 0, 8,
			[]TimedRecommendation{{19, 1}, {17, 3}, {15, 5}, {13, 7}, {11, 8}, {10, 9}}, 7, 0,
		},
		{
			"low ones and high ones apart",
			[]TimedRecommendation{{19, 0}, {1, 1}, {18, 2}, {2, 3}, {17, 4}, {3, 5}, {16, 6}, {4, 7}, {10, 9}}, 0, 8,
			[]TimedRecommendation{{19, 2}, {1, 3}, {17, 6}, {3, 7}, {10, 9}}, 7, 0,
		},
		{
			"what is in no window now is thinned first",
			slots(19, 18, 17, 16, 15, 14, 13, 12, 11, 10), 0, 8,
			[]TimedRecommendation{{19, 3}, {15, 4}, {14, 5}, {13, 6}, {12, 7}, {11, 8}, {10, 9}}, 3, 5,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.slots)
			kept, thinned := compactRecommendations(tt.slots, tt.cutoff, tt.obsolete, tt.limit)
			equal(t, "kept", kept, tt.want)
			equal(t, "thinned", thinned, tt.thinned)
			equal(t, "the slots given", tt.slots, before)
		})
	}
}

// extremes are the highest and the lowest of the recommendations after an instant.
func extremes(slots []TimedRecommendation, after int64) (highest, lowest int32) {
	highest, lowest = math.MinInt32, math.MaxInt32
	for _, r := range slots {
		if r.At > after {
			highest, lowest = max(highest, r.Replicas), min(lowest, r.Replicas)
		}
	}
	return highest, lowest
}

// For every window, the kept recommendations include the highest and the lowest of all,
// unless some were thinned. Then, the highest and the lowest are those of that window
// or of one longer by at most the span of the thinning.
func TestPropertyCompactionKeepsTheExtremesOfEveryWindow(t *testing.T) {
	random, exact, thinned := newRandom(17), 0, 0
	for range 4000 {
		n, limit := random.between(1, 60), random.between(8, 24)
		slots := make([]TimedRecommendation, n)
		trend := random.between(-2, 2)
		for i := range slots {
			slots[i] = TimedRecommendation{int32(500 + trend*i*3 + random.IntN(20)), int64(i*8 + random.IntN(8))}
		}
		random.Shuffle(n*random.IntN(2), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
		kept, until := compactRecommendations(slots, -1, -1, limit)
		if len(kept) > limit {
			t.Fatalf("%d of %d kept, the limit is %d", len(kept), n, limit)
		}
		span := int64(0)
		if until > 0 {
			thinned++
			// Each span keeps two at most: the least that can be too long for the limit.
			span = 4 * (int64(n)*8 + 8) / int64(limit/4)
		} else {
			exact++
		}
		for after := int64(-1); after < int64(n*8); after++ {
			high, low := extremes(slots, after)
			highOfLonger, lowOfLonger := extremes(slots, after-span)
			keptHigh, keptLow := extremes(kept, after)
			if keptHigh < high || keptLow > low || keptHigh > highOfLonger || keptLow < lowOfLonger {
				t.Fatalf("after %d: %d to %d kept of %d to %d (%d to %d in %d more)\n%v\n%v", after, keptLow, keptHigh, low, high, lowOfLonger, highOfLonger, span, slots, kept)
			}
			if after >= until && (keptHigh != high || keptLow != low) {
				t.Fatalf("after %d, and nothing thinned after %d: %d to %d of %d to %d", after, until, keptLow, keptHigh, low, high)
			}
		}
	}
	if exact < 1000 || thinned < 300 {
		t.Errorf("%d compactions exact, %d thinned", exact, thinned)
	}
}

func TestCompactionOfEvents(t *testing.T) {
	events := []ScaleEvent{{Change: 1, At: 30}, {Change: 2, At: 10, Outdated: true}, {Change: 4, At: 20}, {Change: 8, At: 40}}
	before := slices.Clone(events)
	equal(t, "past any period first", compactEvents(events, 20, 3), []ScaleEvent{{Change: 4, At: 20}, {Change: 1, At: 30}, {Change: 8, At: 40}})
	equal(t, "then neighbors are added up", compactEvents(events, 0, 2), []ScaleEvent{{Change: 7, At: 30, Span: 20, Outdated: true}, {Change: 8, At: 40}})
	equal(t, "a sum with an outdated one is outdated",
		compactEvents([]ScaleEvent{{Change: 1, At: 1, Outdated: true}, {Change: 2, At: 3, Span: 3}}, 0, 1),
		[]ScaleEvent{{Change: 3, At: 3, Span: 3, Outdated: true}})
	equal(t, "the events given", events, before)
}
