package recommender

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// merge merges, and checks what holds for any two histories: nothing given is
// written to, the encoding keeps the result, and merging local in again changes
// nothing.
func merge(t *testing.T, stored, local History) History {
	t.Helper()
	storedBefore, localBefore := clone(&stored), clone(&local)
	merged := Merge(stored, local)
	unwritten(t, "the stored history", &stored, storedBefore)
	unwritten(t, "the local history", &local, localBefore)
	decoded, err := Decode(Encode(&merged))
	if err != nil || !reflect.DeepEqual(decoded, merged) {
		t.Fatalf("the encoding loses something (%v):\n got %+v\nwant %+v", err, decoded, merged)
	}
	mergedBefore := clone(&merged)
	unwritten(t, "the history merged again", Merge(merged, local), *mergedBefore)
	unwritten(t, "the history merged with itself", Merge(merged, merged), *mergedBefore)
	unwritten(t, "the merged history", &merged, mergedBefore)
	return merged
}

// seen is a history of a target that was evaluated, last at that second.
func seen(second int, change func(*History)) History {
	h := History{Seen: true, Initialized: true, Updated: t0.Add(time.Duration(second) * time.Second)}
	change(&h)
	return h
}

func nothing(*History) {}

// Each rule by itself: what part of the merged history is after it.
func TestMergingRules(t *testing.T) {
	second := func(n int) int64 { return t0.Add(time.Duration(n) * time.Second).UnixNano() }
	at := func(n int) time.Time { return t0.Add(time.Duration(n) * time.Second) }
	recs := func(r ...TimedRecommendation) func(*History) { return func(h *History) { h.Recommendations = r } }
	ups := func(e ...ScaleEvent) func(*History) { return func(h *History) { h.ScaleUps = e } }
	downs := func(e ...ScaleEvent) func(*History) { return func(h *History) { h.ScaleDowns = e } }
	settled := func(s ...Settled) func(*History) { return func(h *History) { h.Settled = s } }
	pending := func(id byte, second int, from, to int32) func(*History) {
		return func(h *History) {
			h.Pending = &Pending{ID: ID{id}, At: t0.Add(time.Duration(second) * time.Second).UnixNano(), From: from, To: to, PreviousDesired: from, RecordsEvent: true, LongestPeriod: 60}
			h.Status.DesiredReplicas = to
			h.Last = LastDecision{ID: ID{id}, Outcome: Undecided}
		}
	}
	scaled := func(second int, zero ...Condition) func(*History) {
		return func(h *History) {
			h.Status.LastScaleTime = t0.Add(time.Duration(second) * time.Second)
			h.Status.Conditions = append([]Condition{gotScale}, zero...)
		}
	}
	toZero := Condition{ScaledToZero, ConditionTrue, "ScaledToZero", "x", t0}
	notToZero := Condition{ScaledToZero, ConditionFalse, "NotScaledToZero", "x", t0}
	all := func(changes ...func(*History)) func(*History) {
		return func(h *History) {
			for _, change := range changes {
				change(h)
			}
		}
	}
	recommendations := func(h *History) any { return h.Recommendations }
	scaleUps := func(h *History) any { return h.ScaleUps }
	scaleDowns := func(h *History) any { return h.ScaleDowns }
	outcomes := func(h *History) any { return h.Settled }
	pendingID := func(h *History) any {
		if h.Pending == nil {
			return ID{}
		}
		return h.Pending.ID
	}
	lastChange := func(h *History) any {
		return fmt.Sprintf("%v %s", h.Status.LastScaleTime.Sub(t0), reasonOf(h.Status.Conditions, ScaledToZero))
	}
	type list = []TimedRecommendation
	type events = []ScaleEvent
	for _, tt := range []struct {
		name          string
		stored, local History
		of            func(*History) any
		want          any
	}{
		{
			"recommendations: stored's order, then what only local has, in its order",
			seen(9, recs(TimedRecommendation{5, second(3)}, TimedRecommendation{6, second(1)})),
			seen(9, recs(TimedRecommendation{9, second(4)}, TimedRecommendation{6, second(1)}, TimedRecommendation{8, second(2)})),
			recommendations,
			list{{5, second(3)}, {6, second(1)}, {9, second(4)}, {8, second(2)}},
		},
		{
			"recommendations: another count or another instant is another one",
			seen(9, recs(TimedRecommendation{5, second(1)})), seen(9, recs(TimedRecommendation{6, second(1)}, TimedRecommendation{5, second(2)})),
			recommendations, list{{5, second(1)}, {6, second(1)}, {5, second(2)}},
		},
		{
			"recommendations: the first sight and the first proposal may be the same twice",
			seen(9, recs(TimedRecommendation{5, second(1)})), seen(9, recs(TimedRecommendation{5, second(1)}, TimedRecommendation{5, second(1)})),
			recommendations, list{{5, second(1)}, {5, second(1)}},
		},
		{
			"events: those of both sides, each once",
			seen(9, ups(ScaleEvent{Change: 3, Outdated: false, At: second(1)}, ScaleEvent{Change: 1, Outdated: false, At: second(2)})), seen(9, ups(ScaleEvent{Change: 3, Outdated: false, At: second(1)}, ScaleEvent{Change: 2, Outdated: false, At: second(2)})),
			scaleUps, events{{Change: 3, Outdated: false, At: second(1)}, {Change: 1, Outdated: false, At: second(2)}, {Change: 2, Outdated: false, At: second(2)}},
		},
		{
			"events: two changes by 1 at one instant are two",
			seen(9, downs(ScaleEvent{Change: 1, Outdated: false, At: second(1)})), seen(9, downs(ScaleEvent{Change: 1, Outdated: false, At: second(1)}, ScaleEvent{Change: 1, Outdated: false, At: second(1)})),
			scaleDowns, events{{Change: 1, Outdated: false, At: second(1)}, {Change: 1, Outdated: false, At: second(1)}},
		},
		{
			"events: a slot may be reused if both say so",
			seen(9, downs(ScaleEvent{Change: 1, Outdated: true, At: second(1)}, ScaleEvent{Change: 2, Outdated: true, At: second(2)}, ScaleEvent{Change: 3, Outdated: false, At: second(3)}, ScaleEvent{Change: 4, Outdated: false, At: second(4)})),
			seen(9, downs(ScaleEvent{Change: 1, Outdated: true, At: second(1)}, ScaleEvent{Change: 2, Outdated: false, At: second(2)}, ScaleEvent{Change: 3, Outdated: true, At: second(3)}, ScaleEvent{Change: 4, Outdated: false, At: second(4)}, ScaleEvent{Change: 5, Outdated: true, At: second(5)})),
			scaleDowns, events{{Change: 1, Outdated: true, At: second(1)}, {Change: 2, Outdated: false, At: second(2)}, {Change: 3, Outdated: false, At: second(3)}, {Change: 4, Outdated: false, At: second(4)}, {Change: 5, Outdated: true, At: second(5)}},
		},
		{
			"the earlier first sight",
			seen(9, func(h *History) { h.Since = 7 }), seen(9, func(h *History) { h.Since = 3 }),
			func(h *History) any { return h.Since }, int64(3),
		},
		{
			"the only first sight, of local",
			seen(9, func(h *History) { h.Initialized = false }), seen(9, func(h *History) { h.Since = 3 }),
			func(h *History) any { return [2]any{h.Initialized, h.Since} }, [2]any{true, int64(3)},
		},
		{
			"the only first sight, of stored",
			seen(9, func(h *History) { h.Since = 3 }), seen(9, func(h *History) { h.Initialized = false }),
			func(h *History) any { return [2]any{h.Initialized, h.Since} }, [2]any{true, int64(3)},
		},
		{
			"the later one's status, target and last decision",
			seen(1, func(h *History) { h.Status.DesiredReplicas, h.Target.Name, h.Last.To = 1, "stored", 1 }),
			seen(2, func(h *History) { h.Status.DesiredReplicas, h.Target.Name, h.Last.To = 2, "local", 2 }),
			func(h *History) any {
				return []any{h.Status.DesiredReplicas, h.Target.Name, h.Last.To, h.Updated}
			}, []any{int32(2), "local", int32(2), at(2)},
		},
		{
			"stored's where it is later",
			seen(3, func(h *History) { h.Status.DesiredReplicas, h.Target.Name, h.Last.To = 1, "stored", 1 }),
			seen(2, func(h *History) { h.Status.DesiredReplicas, h.Target.Name, h.Last.To = 2, "local", 2 }),
			func(h *History) any {
				return []any{h.Status.DesiredReplicas, h.Target.Name, h.Last.To, h.Updated}
			}, []any{int32(1), "stored", int32(1), at(3)},
		},
		{
			"stored's of two of one instant",
			seen(2, func(h *History) { h.Status.DesiredReplicas, h.Target.Name, h.Last.To = 1, "stored", 1 }),
			seen(2, func(h *History) { h.Status.DesiredReplicas, h.Target.Name, h.Last.To = 2, "local", 2 }),
			func(h *History) any { return []any{h.Status.DesiredReplicas, h.Target.Name, h.Last.To} }, []any{int32(1), "stored", int32(1)},
		},
		{
			"the last change and whether it was to zero, of the earlier status",
			seen(1, scaled(1, toZero)), seen(2, scaled(0, notToZero)), lastChange, "1s True ScaledToZero",
		},
		{
			"the same of local",
			seen(2, scaled(0, notToZero)), seen(1, scaled(1, toZero)), lastChange, "1s True ScaledToZero",
		},
		{"a last change to zero where the later status knows of none", seen(1, scaled(1, toZero)), seen(2, nothing), lastChange, "1s True ScaledToZero"},
		{"a last change that removed the condition", seen(1, scaled(1)), seen(2, scaled(0, toZero)), lastChange, "1s "},
		{"the later status' own last change", seen(1, scaled(0, toZero)), seen(2, scaled(1, notToZero)), lastChange, "1s False NotScaledToZero"},
		{"pending: what only stored knows stays", seen(1, pending(1, 1, 5, 8)), seen(2, nothing), pendingID, ID{1}},
		{"pending: what only local knows stays", seen(1, nothing), seen(2, pending(1, 2, 5, 8)), pendingID, ID{1}},
		{"pending: the same on both stays", seen(2, pending(1, 1, 5, 8)), seen(3, pending(1, 1, 5, 8)), pendingID, ID{1}},
		{"pending: what local has settled is gone", seen(1, pending(1, 1, 5, 8)), seen(2, settled(Settled{ID{1}, Failed})), pendingID, ID{}},
		{"pending: what stored has settled is gone", seen(1, settled(Settled{ID{1}, Failed})), seen(2, pending(1, 1, 5, 8)), pendingID, ID{}},
		{"pending: of two the later stays", seen(1, pending(1, 1, 5, 8)), seen(2, pending(2, 2, 5, 6)), pendingID, ID{2}},
		{"pending: also where that is stored's", seen(2, pending(2, 2, 5, 6)), seen(1, pending(1, 1, 5, 8)), pendingID, ID{2}},
		{"pending: of two of one instant stored's", seen(2, pending(2, 2, 5, 6)), seen(2, pending(1, 2, 5, 8)), pendingID, ID{2}},
		{
			"pending: the earlier is dropped where the later did not begin at its count",
			seen(1, pending(1, 1, 5, 8)), seen(2, pending(2, 2, 5, 6)), outcomes, []Settled{{ID{1}, Dropped}},
		},
		{
			"pending: it is applied where the later did, and is an event",
			seen(1, pending(1, 1, 5, 8)), seen(2, pending(2, 2, 8, 9)),
			func(h *History) any { return []any{h.Settled, h.ScaleUps, h.Status.LastScaleTime} },
			[]any{[]Settled{{ID{1}, Applied}}, events{{Change: 3, Outdated: false, At: second(1)}}, at(1)},
		},
		{
			"pending: also where the earlier is local's",
			seen(2, pending(2, 2, 8, 9)), seen(1, pending(1, 1, 5, 8)),
			func(h *History) any { return []any{h.Settled, h.ScaleUps, h.Status.LastScaleTime} },
			[]any{[]Settled{{ID{1}, Applied}}, events{{Change: 3, Outdated: false, At: second(1)}}, at(1)},
		},
		{
			"pending: what local knows as applied is applied",
			seen(2, pending(1, 1, 5, 8)), seen(1, settled(Settled{ID{1}, Applied})),
			func(h *History) any { return []any{h.Settled, h.ScaleUps, h.Last.Outcome, h.Status.LastScaleTime} },
			[]any{[]Settled{{ID{1}, Applied}}, events{{Change: 3, Outdated: false, At: second(1)}}, Applied, at(1)},
		},
		{
			"pending: what the other side knows as applied is one event",
			seen(2, all(settled(Settled{ID{1}, Applied}), ups(ScaleEvent{Change: 3, Outdated: false, At: second(1)}))), seen(1, pending(1, 1, 5, 8)),
			func(h *History) any { return []any{h.Settled, h.ScaleUps} },
			[]any{[]Settled{{ID{1}, Applied}}, events{{Change: 3, Outdated: false, At: second(1)}}},
		},
		{
			"pending: a status that awaits what the other side has dropped goes back",
			seen(2, pending(1, 1, 5, 8)), seen(1, settled(Settled{ID{1}, Dropped})),
			func(h *History) any { return []any{h.Status.DesiredReplicas, h.Last.Outcome} }, []any{int32(5), Dropped},
		},
		{
			"settled: stored's, then local's own",
			seen(1, settled(Settled{ID{1}, Applied}, Settled{ID{2}, Failed})), seen(2, settled(Settled{ID{1}, Applied}, Settled{ID{3}, Applied})),
			outcomes, []Settled{{ID{1}, Applied}, {ID{2}, Failed}, {ID{3}, Applied}},
		},
		{
			"settled: stored's outcome",
			seen(1, settled(Settled{ID{1}, Applied})), seen(2, settled(Settled{ID{1}, Failed})), outcomes, []Settled{{ID{1}, Applied}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			merged := merge(t, tt.stored, tt.local)
			equal(t, "it", tt.of(&merged), tt.want)
		})
	}
}

// Who sees a target at zero without knowing who scaled it there takes it for
// disabled; that does not outlive the merge.
func TestMergingDoesNotDisableWhatWasScaledToZero(t *testing.T) {
	in := wants(3, 3)
	in.Options.ScaleToZero, in.Spec.MinReplicas = true, 0
	stored := &target{in: in, history: *longKnown()}
	stored.recommend(t, 0)
	local := &target{in: in, history: stored.history}
	read(in, 0, 0)
	stored.settle(t, stored.recommend(t, time.Minute)) // 3 to 0
	in.HoldDown = true
	read(in, 0, 2*unit)
	equal(t, "the path of local", local.recommend(t, 2*time.Minute).Path, PathScalingDisabled)

	in.HoldDown = false
	x := &target{in: in, history: merge(t, stored.history, local.history)}
	equal(t, "desired of 0 that want 2", x.recommend(t, 3*time.Minute).Desired, int32(2))
}

func TestMergingWithAHistoryThatWasNeverSeen(t *testing.T) {
	random := newRandom(21)
	for range 500 {
		h := random.history()
		h.Seen = true
		unwritten(t, "nothing stored", Merge(History{}, h), h)
		unwritten(t, "nothing local", Merge(h, History{}), h)
	}
	equal(t, "nothing at all", Merge(History{}, History{}), History{})
}

// At most MaxSettled, the newest: what one side has forgotten does not come back.
func TestMergingBoundsSettledChanges(t *testing.T) {
	settled := func(ids ...int) func(*History) {
		return func(h *History) {
			for _, id := range ids {
				h.Settled = append(h.Settled, Settled{ID{byte(id)}, Applied})
			}
		}
	}
	count := func(from, to int) (ids []int) {
		for id := from; id <= to; id++ {
			ids = append(ids, id)
		}
		return ids
	}
	for _, tt := range []struct {
		name          string
		stored, local []int
		want          []int
	}{
		{"the newest of both", count(1, 16), []int{16, 17, 18}, count(3, 18)},
		{"local has forgotten what stored knows", count(1, 3), count(3, 18), count(3, 18)},
		{"stored has forgotten what local knows", count(3, 18), count(1, 3), count(3, 18)},
		{"as long as there is room it is kept", []int{3, 4}, []int{1, 3}, []int{1, 3, 4}},
		{"nothing in common: local's are the newest", count(1, 16), count(21, 24), slices.Concat(count(5, 16), count(21, 24))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := seen(0, settled(tt.want...))
			equal(t, "settled", merge(t, seen(0, settled(tt.stored...)), seen(0, settled(tt.local...))).Settled, want.Settled)
		})
	}
}

// Histories that no trace leaves behind, and that have nothing in common.
func TestPropertyAnyHistoriesMerge(t *testing.T) {
	testlength.SkipUnderRace(t)
	random := newRandom(22)
	for range 1500 {
		a, b := random.history(), random.history()
		a.Seen, b.Seen = true, true
		if random.chance(30) {
			b.ScaleUps, b.Recommendations = append(b.ScaleUps, a.ScaleUps...), append(a.Recommendations[:0:0], a.Recommendations...)
			b.Updated = a.Updated
		}
		merged := merge(t, a, b)
		if len(merged.Settled) > MaxSettled {
			t.Fatalf("%d settled", len(merged.Settled))
		}
	}
}

// parting is one target in two histories that descend from one: two instances
// that evaluate the same workload, each seeing what the other made of it.
type parting struct {
	random
	in            *Input
	now           time.Time
	ids           uint16
	replicas      int32
	stored, local History
}

// part makes histories that differ. Changes are applied, failed or neither, and
// that is reported or not; the scale cannot be read at times.
func (r random) part(evaluations int) *parting {
	c := newComparison(r)
	p := &parting{random: r, in: c.in, now: t0, replicas: c.in.Scale.SpecReplicas}
	p.in.Spec.MaxReplicas = 60
	for range r.IntN(8) {
		p.stored = p.evaluate(p.stored)
	}
	p.local = p.stored
	for range evaluations {
		if p.in.HoldDown = r.chance(50); p.in.HoldDown {
			p.local = p.evaluate(p.local)
		} else {
			p.stored = p.evaluate(p.stored)
		}
	}
	p.in.HoldDown = false
	return p
}

func (p *parting) evaluate(h History) History {
	p.now = p.now.Add(1 + time.Duration(p.between(0, 40))*time.Second/2)
	p.ids++
	in := *p.in
	in.ID = ID{14: byte(p.ids >> 8), 15: byte(p.ids)}
	in.Scale = Scale{p.replicas, p.replicas}
	read(&in, 0, int64(p.between(0, 70))*unit)
	if p.chance(5) {
		in.ScaleError = &ScaleError{Message: "x"}
	}
	d, next := Recommend(p.now, &in, &h)
	switch {
	case !d.Changes():
	case p.chance(80):
		p.replicas = d.Desired
		if p.chance(60) {
			_, next, _ = Settle(next, "ns", d.ID, Applied, "")
		}
	case p.chance(30):
		_, next, _ = Settle(next, "ns", d.ID, Failed, "conflict")
	}
	return next
}

// lacks is what a list has of another one's entries too few.
func lacks[T comparable](list, entries []T) (missing []T) {
	left := slices.Clone(list)
	for _, e := range entries {
		if i := slices.Index(left, e); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			missing = append(missing, e)
		}
	}
	return missing
}

// fresh are events as they count: without the mark of their slot.
func fresh(events []ScaleEvent) []ScaleEvent {
	events = slices.Clone(events)
	for i := range events {
		events[i].Outdated = false
	}
	return events
}

// Histories as they come about: the encoding, the inputs and merging again, also
// once the merged history has gone on; and nothing that either side counts is lost.
func TestPropertyMergingLosesNothing(t *testing.T) {
	testlength.SkipUnderRace(t)
	random := newRandom(23)
	differing, pendings := 0, 0
	for range 400 {
		p := random.part(random.IntN(30))
		if random.chance(20) {
			p.in.Options.HistoryLimit = 3 // neither list holds all
		}
		for range 3 {
			merged := merge(t, p.stored, p.local)
			merge(t, p.local, p.stored)
			if p.stored.Pending != nil && p.local.Pending != nil && p.stored.Pending.ID != p.local.Pending.ID {
				pendings++
			}
			for _, side := range []*History{&p.stored, &p.local} {
				if missing := lacks(merged.Recommendations, side.Recommendations); missing != nil {
					t.Fatalf("recommendations %+v are lost", missing)
				}
				if side.Pending == nil || merged.Pending != nil && merged.Pending.ID == side.Pending.ID {
					// Otherwise a change that is settled takes the slot of one that no longer counts.
					ups, downs := lacks(fresh(merged.ScaleUps), fresh(side.ScaleUps)), lacks(fresh(merged.ScaleDowns), fresh(side.ScaleDowns))
					if ups != nil || downs != nil {
						t.Fatalf("changes %+v and %+v are lost", ups, downs)
					}
				}
				if merged.Updated.Before(side.Updated) || merged.Since > side.Since && side.Since != 0 {
					t.Fatalf("updated %v, since %d of %v, %d", merged.Updated, merged.Since, side.Updated, side.Since)
				}
			}
			if n := len(p.stored.Recommendations) + len(p.local.Recommendations); len(merged.Recommendations) > n {
				t.Fatalf("%d recommendations of %d", len(merged.Recommendations), n)
			}
			if lacks(p.stored.Recommendations, p.local.Recommendations) != nil && lacks(p.local.Recommendations, p.stored.Recommendations) != nil {
				differing++
			}
			p.stored = merged // the other instance may go on with what it knew
			for range random.IntN(6) {
				if random.chance(50) {
					p.stored = p.evaluate(p.stored)
				} else {
					p.local = p.evaluate(p.local)
				}
			}
		}
	}
	if differing < 500 || pendings < 30 {
		t.Errorf("%d pairs differ in both directions, %d have two changes pending", differing, pendings)
	}
}

// counted adds up the changes that a policy counts.
func counted(events []ScaleEvent, now time.Time, policy ScalingPolicy) int32 {
	var released int64
	length := int64(policy.PeriodSeconds) * int64(time.Second)
	return changeWithin(events, now.UnixNano()-length, length, &released)
}

// compareDecisions decides on a side alone and on the merged history, and reports
// whether a scale-down or a scale-up of the merged one must not be laxer: all
// policies of the direction count as much of it, and no more of the other one.
func (p *parting) compareDecisions(t *testing.T, side, merged *History) (down, up bool) {
	in := *p.in
	in.ID = ID{1}
	in.Scale = Scale{p.replicas, p.replicas}
	read(&in, 0, int64(p.between(0, 70))*unit)
	alone, aloneNext := Recommend(p.now, &in, side)
	both, bothNext := Recommend(p.now, &in, merged)
	if in.Spec.Behavior == nil {
		if both.Desired < alone.Desired {
			t.Fatalf("without behavior: %d of %d, alone %d", both.Desired, p.replicas, alone.Desired)
		}
		return true, false
	}
	// The lists after a decision have the change that it settled, and not its own.
	down, up = true, true
	for _, policy := range in.Spec.Behavior.ScaleDown.Policies {
		down = down && counted(bothNext.ScaleUps, p.now, policy) <= counted(aloneNext.ScaleUps, p.now, policy) &&
			counted(bothNext.ScaleDowns, p.now, policy) >= counted(aloneNext.ScaleDowns, p.now, policy)
	}
	for _, policy := range in.Spec.Behavior.ScaleUp.Policies {
		up = up && counted(bothNext.ScaleDowns, p.now, policy) <= counted(aloneNext.ScaleDowns, p.now, policy) &&
			counted(bothNext.ScaleUps, p.now, policy) >= counted(aloneNext.ScaleUps, p.now, policy)
	}
	if down && both.Desired < min(alone.Desired, p.replicas) {
		t.Fatalf("%d of %d, alone %d: %+v %+v", both.Desired, p.replicas, alone.Desired, merged, side)
	}
	if up && both.Desired > max(alone.Desired, p.replicas) {
		t.Fatalf("%d of %d, alone %d: %+v %+v", both.Desired, p.replicas, alone.Desired, merged, side)
	}
	return down, up
}

// A merged history is never laxer than either side, as far as Merge says: exactly
// so for stabilization, and for policies unless the other direction's changes give
// room or a change was dropped.
func TestPropertyAMergedHistoryIsNotLaxer(t *testing.T) {
	random := newRandom(24)
	var compared, down, up int
	for range 600 {
		p := random.part(random.IntN(20))
		merged := merge(t, p.stored, p.local)
		p.now = p.now.Add(time.Duration(p.between(0, 30)) * time.Second)
		for _, side := range []*History{&p.stored, &p.local} {
			if !side.Initialized {
				continue // alone it would hold the count that it sees first
			}
			for range 5 {
				compared++
				downToo, upToo := p.compareDecisions(t, side, &merged)
				if downToo {
					down++
				}
				if upToo {
					up++
				}
			}
		}
	}
	t.Logf("of %d comparisons %d must not scale down further, %d not up further", compared, down, up)
	if down < compared/2 || up < compared/4 {
		t.Errorf("of %d comparisons only %d and %d say anything", compared, down, up)
	}
}

// What the windows make of a proposal is nearer to the current count with more
// recommendations, and without behavior it is not lower.
func TestPropertyStabilizationOfAMergedHistory(t *testing.T) {
	random := newRandom(25)
	for range 3000 {
		slots := func() (s []TimedRecommendation) {
			for range random.IntN(8) {
				s = append(s, TimedRecommendation{int32(random.IntN(12)), random.Int64N(200)})
			}
			return s
		}
		a, b := seen(0, nothing), seen(0, nothing)
		a.Recommendations, b.Recommendations = slots(), slots()
		merged := Merge(a, b)
		up, down := time.Duration(random.IntN(150)), time.Duration(random.IntN(150))
		current, proposed := int32(random.IntN(12)), int32(random.IntN(12))
		for _, side := range []History{a, b} {
			alone := stabilizeWithBehavior(200, &History{Recommendations: side.Recommendations}, up, down, current, proposed).Stabilized
			both := stabilizeWithBehavior(200, &History{Recommendations: merged.Recommendations}, up, down, current, proposed).Stabilized
			if both < min(alone, current) || both > max(alone, current) {
				t.Fatalf("from %d: %d merged, %d alone", current, both, alone)
			}
			alone = stabilizeWithoutBehavior(200, &History{Recommendations: side.Recommendations}, down, proposed).Stabilized
			if both := stabilizeWithoutBehavior(200, &History{Recommendations: merged.Recommendations}, down, proposed).Stabilized; both < alone {
				t.Fatalf("without behavior: %d merged, %d alone", both, alone)
			}
		}
	}
}

// The exceptions that Merge names.
func TestWhereAMergedHistoryIsLaxer(t *testing.T) {
	minute := policies(ScalingPolicy{PodsPolicy, 2, 60})
	event := func(second int, change int32) []ScaleEvent {
		return []ScaleEvent{{Change: change, At: t0.Add(time.Duration(second) * time.Second).UnixNano()}}
	}
	decided := func(in *Input, h History) int32 {
		d, _ := Recommend(t0.Add(30*time.Second), in, &h)
		return d.Desired
	}

	in := wants(10, 1)
	in.Spec.Behavior = behavior(nil, minute)
	stored, local := seen(0, nothing), seen(0, func(h *History) { h.ScaleUps = event(0, 4) })
	equal(t, "4 of the 10 came within the minute: stored alone, local alone, merged",
		[]int32{decided(in, stored), decided(in, local), decided(in, merge(t, stored, local))}, []int32{8, 4, 4})

	in = wants(5, 5)
	in.Spec.Behavior = nil
	local = seen(0, func(h *History) { h.Recommendations = []TimedRecommendation{{9, t0.UnixNano()}} })
	equal(t, "9 were recommended, without behavior: stored alone, local alone, merged",
		[]int32{decided(in, stored), decided(in, local), decided(in, merge(t, stored, local))}, []int32{5, 9, 9})

	in = wants(5, 1)
	in.Spec.Behavior = behavior(nil, minute)
	pending := func(id byte, second int, from, to int32) func(*History) {
		return func(h *History) {
			h.Pending = &Pending{ID: ID{id}, At: t0.Add(time.Duration(second) * time.Second).UnixNano(), From: from, To: to, RecordsEvent: true, LongestPeriod: 60}
		}
	}
	stored, local = seen(0, pending(1, 0, 7, 5)), seen(1, pending(2, 1, 7, 8))
	equal(t, "7 to 5, applied after 7 to 8 was decided: stored alone, local alone, merged",
		[]int32{decided(in, stored), decided(in, local), decided(in, merge(t, stored, local))}, []int32{5, 3, 3})
}

// As long as windows and periods stay as they are a merged history answers as a
// full record of what happened on both sides, whatever went on on which.
func TestPropertyAMergedHistoryAnswersAsAFullRecord(t *testing.T) {
	random, changes := newRandom(26), 0
	for range 300 {
		c := newComparison(random)
		for range random.between(1, 9) { // so that the first sight is common
			c.step(t)
		}
		c.now = c.now.Add(time.Second) // apart from the last step
		stored, local := c.history, c.history
		for range random.between(1, 30) {
			if random.chance(50) {
				stored = c.apart(stored, false)
			} else {
				local = c.apart(local, random.chance(50))
			}
		}
		changes += min(len(lacks(stored.ScaleUps, local.ScaleUps)), len(lacks(local.ScaleUps, stored.ScaleUps)))
		c.history = merge(t, stored, local)
		for range 15 {
			c.step(t)
		}
	}
	if changes < 100 {
		t.Errorf("only %d changes on one side", changes)
	}
}

// apart evaluates with a history that does not know all; the change is applied.
func (c *comparison) apart(h History, holdDown bool) History {
	in := *c.in
	current, wants := in.Scale.SpecReplicas, int32(c.between(0, 70))
	read(&in, 0, int64(wants)*unit)
	in.HoldDown = holdDown
	c.in.ID[1]++
	in.ID = c.in.ID
	d, next := Recommend(c.now, &in, &h)
	at := d.At.UnixNano()
	if d.Path == PathMetrics {
		c.plain.recommended = append(c.plain.recommended, TimedRecommendation{wants, at})
	}
	if d.Changes() {
		change := int32(math.Abs(float64(d.Desired - current)))
		switch {
		case in.Spec.Behavior == nil:
		case d.Desired > current:
			c.plain.ups = append(c.plain.ups, ScaleEvent{Change: change, At: at})
		default:
			c.plain.downs = append(c.plain.downs, ScaleEvent{Change: change, At: at})
		}
		_, next, _ = Settle(next, "ns", d.ID, Applied, "")
	}
	c.in.Scale = Scale{d.Desired, d.Desired}
	c.now = c.now.Add(1 + time.Duration(c.between(0, 40))*time.Second/2)
	return next
}

// A swap succeeded and its reply was lost; the decision was repeated without the store,
// which withheld the scale-down. The caller got the latter.
func TestADecisionReportedAsWithheldIsMergedAsReported(t *testing.T) {
	t.Parallel()
	id := ID{1}
	base := History{Seen: true, Initialized: true, Updated: t0, Status: Status{DesiredReplicas: 5}}
	stored, local := base, base
	stored.Updated, local.Updated = t0.Add(time.Second), t0.Add(time.Second)
	stored.Pending = &Pending{ID: id, At: stored.Updated.UnixNano(), From: 5, To: 3, PreviousDesired: 5}
	stored.Last = LastDecision{ID: id, At: stored.Updated.UnixNano(), From: 5, To: 3, Outcome: Undecided}
	stored.Status.DesiredReplicas = 3
	local.Last = LastDecision{ID: id, At: local.Updated.UnixNano(), From: 5, To: 5, Outcome: NotChanged}
	merged := Merge(stored, local)
	if merged.Pending != nil {
		t.Errorf("pending is %+v, which no caller received", merged.Pending)
	}
	if merged.Status.DesiredReplicas != 5 {
		t.Errorf("desired are %d", merged.Status.DesiredReplicas)
	}
	if again := Merge(merged, local); !reflect.DeepEqual(again, merged) {
		t.Error("merged once more it is another")
	}
	if stored.Pending == nil {
		t.Error("the stored history was written to")
	}
}
