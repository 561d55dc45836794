package recommender

import (
	"slices"
	"testing"
	"time"
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
	random := newRandom(8)
	compared, compacted := 0, 0
	for range 250 {
		c := newComparison(random)
		limit := c.between(5, 14)
		c.in.Options.HistoryLimit = limit
		unbounded := &target{in: clone(c.in)}
		unbounded.in.Options.HistoryLimit = 1 << 30
		for range 120 {
			now := c.now.UnixNano()
			if c.needed(now) >= limit || recent(c.plain.ups, now) >= limit || recent(c.plain.downs, now) >= limit {
				break // one more may be too many
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
	for _, limit := range []int{1, 2, 3, 10} {
		in := wanting(100)
		in.Spec.MaxReplicas, in.Spec.Behavior = 1000, behavior(nil, nil)
		in.Spec.Behavior.ScaleUp.Policies[0].PeriodSeconds = 1800
		in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = ptr(int32(3600))
		in.Options.HistoryLimit = limit
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
	replicas := func(slots []TimedRecommendation) (n []int32) {
		for _, r := range slots {
			n = append(n, r.Replicas)
		}
		return n
	}
	for _, tt := range []struct {
		name   string
		slots  []TimedRecommendation
		cutoff int64
		limit  int
		want   []int32
	}{
		{"equal ones: the newest", slots(5, 5, 5, 5), 0, 3, []int32{5}},
		{"rising: the newest is highest, older ones are lower and lower", slots(1, 2, 3, 4), 0, 4, []int32{1, 2, 3, 4}},
		{"what lies between newer ones goes", slots(9, 5, 7, 1, 8, 6), 0, 5, []int32{9, 1, 8, 6}},
		{"an older equal one goes", slots(8, 1, 8, 1), 0, 3, []int32{8, 1}},
		{"past the cutoff next", slots(1, 2, 3, 4, 5), 2, 4, []int32{3, 4, 5}},
		{"the oldest in the end", slots(1, 2, 3, 4, 5), 0, 2, []int32{4, 5}},
		{
			"age is by instant, not by slot",
			[]TimedRecommendation{{6, 50}, {9, 10}, {7, 30}, {8, 20}, {7, 40}}, 0, 4, []int32{6, 9, 8, 7},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.slots)
			equal(t, "kept", replicas(compactRecommendations(tt.slots, tt.cutoff, tt.limit)), tt.want)
			equal(t, "the slots given", tt.slots, before)
		})
	}
}

func TestCompactionOfEvents(t *testing.T) {
	events := []ScaleEvent{{Change: 1, At: 30}, {Change: 2, At: 10, Outdated: true}, {Change: 4, At: 20}, {Change: 8, At: 40}}
	before := slices.Clone(events)
	equal(t, "past any period first", compactEvents(events, 20, 3), []ScaleEvent{{Change: 1, At: 30}, {Change: 4, At: 20}, {Change: 8, At: 40}})
	equal(t, "then the oldest count as newer than they are", compactEvents(events, 0, 2), []ScaleEvent{{Change: 7, At: 30}, {Change: 8, At: 40}})
	equal(t, "the events given", events, before)
}
