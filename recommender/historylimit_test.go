package recommender

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// slots is upstream's algorithm with its slot lists, as it is written there, for a
// spec with behavior or without. It has no limit.
type slots struct {
	recs       []TimedRecommendation
	ups, downs []ScaleEvent
}

// stabilize is stabilizeRecommendation and stabilizeRecommendationWithBehaviors.
func (u *slots) stabilize(now int64, in *Input, current, wants int32) int32 {
	if u.recs == nil {
		u.recs = []TimedRecommendation{{current, now}}
	}
	up, down, slot := wants, wants, -1
	upCutoff, downCutoff := now-int64(in.Options.DownscaleStabilization), now-int64(in.Options.DownscaleStabilization)
	if b := in.Spec.Behavior; b != nil {
		upCutoff = now - int64(*b.ScaleUp.StabilizationWindowSeconds)*int64(time.Second)
		downCutoff = now - int64(*b.ScaleDown.StabilizationWindowSeconds)*int64(time.Second)
	}
	for i, r := range u.recs {
		if in.Spec.Behavior == nil {
			if r.At < downCutoff {
				slot = i
			} else {
				down = max(down, r.Replicas)
			}
			continue
		}
		if r.At > upCutoff {
			up = min(up, r.Replicas)
		}
		if r.At > downCutoff {
			down = max(down, r.Replicas)
		}
		if r.At < upCutoff && r.At < downCutoff {
			slot = i
		}
	}
	if slot < 0 {
		u.recs = append(u.recs, TimedRecommendation{wants, now})
	} else {
		u.recs[slot] = TimedRecommendation{wants, now}
	}
	if in.Spec.Behavior == nil {
		return down
	}
	return min(max(current, up), down)
}

func (u *slots) desired(now int64, in *Input, current, wants int32) int32 {
	if bounded := min(max(current, in.Spec.MinReplicas), in.Spec.MaxReplicas); bounded != current {
		return bounded
	}
	counts := plain{ups: u.ups, downs: u.downs}
	return counts.bounded(now, in, current, u.stabilize(now, in, current, wants))
}

// changed is storeScaleEvent.
func (u *slots) changed(now int64, in *Input, from, to int32) {
	if in.Spec.Behavior == nil || from == to {
		return
	}
	list, rules := &u.ups, &in.Spec.Behavior.ScaleUp
	if to < from {
		list, rules = &u.downs, &in.Spec.Behavior.ScaleDown
	}
	slot, cutoff := -1, now-int64(longestPeriod(rules))*int64(time.Second)
	for i := range *list {
		if e := &(*list)[i]; e.At < cutoff {
			e.Outdated = true
		}
		if (*list)[i].Outdated {
			slot = i
		}
	}
	e := ScaleEvent{Change: max(to-from, from-to), At: now}
	if slot < 0 {
		*list = append(*list, e)
	} else {
		(*list)[slot] = e
	}
}

// The first recommendation of 20 holds a count although 4,000 are wanted, then 3,999 and
// so on, for as long as the window of half an hour has it.
func TestTheOldestRecommendationOfALongWindowDecides(t *testing.T) {
	t.Parallel()
	in := wanting(20)
	in.Spec.MaxReplicas, in.Spec.Behavior = 5000, behavior(nil, nil)
	in.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = new(int32(1800))
	x := &target{in: in}
	for i := range 1800 {
		want := int32(20)
		read(in, 0, int64(4000-i)*unit)
		if i == 0 {
			read(in, 0, 20*unit)
		}
		if d := x.recommend(t, time.Duration(i)*time.Second); d.Desired != want || d.HistoryLimited {
			t.Fatalf("after %d s: %d replicas, want %d", i, d.Desired, want)
		}
	}
	read(in, 0, 2000*unit)
	if d := x.recommend(t, 1801*time.Second); d.Desired <= 20 {
		t.Errorf("when the window has left it behind: %d replicas", d.Desired)
	}
}

// A target that is evaluated once a second for hours, whose windows and policies change
// now and then, and which someone else scales at times, is decided as upstream decides.
func TestOnceASecondForHoursUnderTheLongestWindows(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	for seed := range uint64(3) {
		random := newRandom(100 + seed)
		in := wanting(10)
		in.Spec.MaxReplicas = 2000
		edit := func() {
			in.Options.DownscaleStabilization = time.Duration(oneOf(random, 3600, 1800, 300)) * time.Second
			in.Spec.Behavior = nil
			if random.chance(75) {
				in.Spec.Behavior = random.behavior()
				in.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = new(oneOf(random, int32(3600), 1800, 0))
				in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(oneOf(random, int32(3600), 1800, 300))
				for _, rules := range []*ScalingRules{&in.Spec.Behavior.ScaleUp, &in.Spec.Behavior.ScaleDown} {
					rules.Tolerance = nil
					rules.Policies[0].PeriodSeconds = oneOf(random, int32(1800), 600, 15)
				}
			}
		}
		in.Options.DownscaleStabilization = time.Hour
		if seed > 0 {
			edit()
			in.Spec.Behavior = behavior(nil, nil)
			in.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = new(int32(300 * seed))
			in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(3600))
		}
		var history History
		var upstream slots
		current, level, changes := int32(10), 500.0, 0
		for i := range 3*3600 + 1800 {
			if i > 3700 && random.IntN(2000) == 0 {
				edit()
			}
			if random.IntN(500) == 0 {
				current = int32(random.between(1, 1500)) // someone else
			}
			level = min(max(level+random.NormFloat64()*8+100*math.Sin(float64(i)/700)/50, 0), 1900)
			wants := int32(level)
			at := t0.Add(time.Duration(i)*time.Second + time.Duration(random.Int64N(int64(20*time.Millisecond))))
			read(in, 0, int64(wants)*unit)
			in.Scale, in.ID = Scale{current, current}, ID{1, byte(i), byte(i >> 8)}
			d, next := Recommend(at, in, &history)
			if d.HistoryLimited || (next.RecommendationsLimited || next.EventsLimited) {
				t.Fatalf("seed %d, after %d s: %d recommendations passed the limit", seed, i, len(history.Recommendations))
			}
			want := upstream.desired(at.UnixNano(), in, current, wants)
			if d.Desired != want {
				t.Fatalf("seed %d, after %d s: %d to %d replicas, want %d", seed, i, current, d.Desired, want)
			}
			if d.Changes() {
				changes++
				upstream.changed(at.UnixNano(), in, current, want)
				_, next, _ = Settle(next, "ns", d.ID, Applied, "")
				current = want
			}
			if i%1000 == 0 { // the way through the store
				var err error
				next, err = Decode(Encode(&next))
				fatal.If(t, err)
			}
			history = next
		}
		if len(upstream.recs) < 3600 || changes < 20 {
			t.Errorf("seed %d: %d slots, %d changes", seed, len(upstream.recs), changes)
		}
		if !slices.Equal(history.Recommendations, upstream.recs) {
			t.Errorf("seed %d: the slots are not upstream's", seed)
		}
	}
}

// Beyond the limit the count goes at most as far as without it, in the same direction:
// also when windows grow after they shrank. Where it does not go as far, the decision
// says that the limit may be why.
func TestPropertyBeyondTheLimitTheCountIsOnlyHeldLonger(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	random := newRandom(31)
	held, compared := 0, 0
	for range 60 {
		in := wanting(10)
		in.Spec.MaxReplicas, in.Explain = 100_000, true
		in.Spec.Behavior = behavior(nil, nil)
		up, down := &in.Spec.Behavior.ScaleUp, &in.Spec.Behavior.ScaleDown
		for _, rules := range []*ScalingRules{up, down} {
			rules.Policies = []ScalingPolicy{{PercentPolicy, 900, 1}}
		}
		in.Spec.MinReplicas = 1
		in.Options.HistoryLimit = random.between(8, 40)
		unlimited := *in
		unlimited.Options.HistoryLimit = math.MaxInt
		var limitedHistory, history History
		level, trend := 5000.0, 0.0
		for i := range 800 {
			if i%100 == 0 {
				trend = float64(random.between(-20, 20))
				up.StabilizationWindowSeconds = new(oneOf(random, int32(0), 30, 120, 3600))
				down.StabilizationWindowSeconds = new(oneOf(random, int32(0), 30, 120, 3600))
			}
			level = min(max(level+trend+float64(random.between(-15, 15)), 1), 90_000)
			read(in, 0, int64(level)*unit)
			unlimited.Readings = in.Readings
			current := int32(random.between(1000, 9000))
			in.Scale = Scale{current, current}
			unlimited.Scale = in.Scale
			at := t0.Add(time.Duration(i) * time.Second)
			limited, nextLimited := Recommend(at, in, &limitedHistory)
			free, next := Recommend(at, &unlimited, &history)
			compared++
			if len(nextLimited.Recommendations) > in.Options.HistoryLimit {
				t.Fatalf("%d recommendations, the limit is %d", len(nextLimited.Recommendations), in.Options.HistoryLimit)
			}
			far, asFar := limited.Desired-current, free.Desired-current
			if far != asFar {
				held++
				if far > 0 && far > asFar || far < 0 && far < asFar {
					t.Fatalf("%d replicas become %d, without the limit %d", current, limited.Desired, free.Desired)
				}
				if !limited.HistoryLimited || !slices.ContainsFunc(limited.Explanation.Warnings, func(w string) bool { return strings.Contains(w, "history's limit of") }) {
					t.Fatalf("%d replicas become %d, without the limit %d, and nothing says why: %v", current, limited.Desired, free.Desired, limited.Explanation.Warnings)
				}
			}
			if free.HistoryLimited {
				t.Fatal("an unlimited history says that a limit decided")
			}
			decoded, err := Decode(Encode(&nextLimited))
			fatal.If(t, err)
			equal(t, "decoded", decoded, nextLimited)
			// No change is made: what both remember is the same, but for the limit.
			decoded.Pending, next.Pending = nil, nil
			limitedHistory, history = decoded, next
		}
		if !limitedHistory.RecommendationsLimited {
			t.Error("the limit was not reached")
		}
	}
	if held < 100 || held > compared/2 {
		t.Errorf("held in %d of %d evaluations", held, compared)
	}
}

// Beyond the limit a policy allows what it would allow without it, or less.
func TestPropertyBeyondTheLimitPoliciesAllowNoMore(t *testing.T) {
	t.Parallel()
	random := newRandom(32)
	less, compared := 0, 0
	for range 40 {
		in := wanting(10)
		in.Spec.MaxReplicas, in.Spec.Behavior, in.Options.HistoryLimit = 1_000_000, behavior(nil, nil), random.between(8, 30)
		up, down := &in.Spec.Behavior.ScaleUp, &in.Spec.Behavior.ScaleDown
		unlimited := *in
		unlimited.Options.HistoryLimit = math.MaxInt
		limitedHistory, history := *longKnown(), *longKnown()
		for i := range 400 {
			if i%80 == 0 {
				for _, rules := range []*ScalingRules{up, down} {
					rules.SelectPolicy = oneOf(random, MaxChange, MinChange)
					rules.Policies = []ScalingPolicy{
						{PodsPolicy, int32(random.between(1, 400)), oneOf(random, int32(15), 60, 300, 1800)},
						{PercentPolicy, int32(random.between(1, 99)), oneOf(random, int32(15), 60, 300, 1800)},
					}
				}
			}
			now := t0.Add(time.Duration(i) * 2 * time.Second)
			// The same change on both sides, whatever was recommended.
			from, to := int32(5000), int32(5000+random.between(-9, 9))
			if to == from {
				to++
			}
			for _, side := range []struct {
				in *Input
				h  *History
			}{{in, &limitedHistory}, {&unlimited, &history}} {
				rules := down
				if to > from {
					rules = up
				}
				side.h.recordChange(&Pending{At: now.UnixNano(), From: from, To: to, LongestPeriod: longestPeriod(rules)})
				d := &decider{in: side.in, profile: &v136, behavior: in.Spec.Behavior, nowNanos: now.UnixNano(), next: *side.h}
				d.compact()
				*side.h = d.next
			}
			later := now.Add(time.Second).UnixNano()
			for _, direction := range []Direction{Up, Down} {
				rules := up
				if direction == Down {
					rules = down
				}
				limit := func(in *Input, h History) (int32, bool) {
					d := &decider{in: in, profile: &v136, behavior: in.Spec.Behavior, nowNanos: later, next: h, current: 5000}
					return d.limitRate(direction, rules).Limit, d.changesLast
				}
				got, says := limit(in, limitedHistory)
				want, _ := limit(&unlimited, history)
				compared++
				if direction == Up && got > want || direction == Down && got < want {
					t.Fatalf("direction %d from 5000: %d allowed, without the limit %d", direction, got, want)
				}
				if got != want {
					less++
					if !says {
						t.Fatalf("direction %d from 5000: %d allowed, without the limit %d, and nothing says so", direction, got, want)
					}
				}
			}
		}
		if !limitedHistory.EventsLimited {
			t.Error("the limit was not reached")
		}
	}
	if less < 100 || less > compared*3/4 {
		t.Errorf("less was allowed in %d of %d cases", less, compared)
	}
}
