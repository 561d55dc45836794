package recommender

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/packed"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// longList is a list of slots as one may become: a ring of instants at some pace, with what pauses, other windows,
// merges and clocks have left of others, and counts that stay, wander or jump.
func (r random) longList(end time.Time) (list []TimedRecommendation) {
	n := oneOf(r, packed.Least, packed.Least+packed.PerBlock, r.between(packed.Least, 3*packed.Least))
	pace, jitter := time.Duration(oneOf(r, 1, 1, r.between(1, 20)))*time.Second, oneOf(r, time.Nanosecond, time.Millisecond, time.Second)
	count, lowest, spread := int32(r.between(0, 40)), int32(r.between(0, 20)), r.between(1, 30)
	how := r.IntN(4)
	at := end.Add(-time.Duration(r.IntN(600)) * time.Second)
	for range n {
		switch how {
		case 0: // stays, mostly
			if r.chance(2) {
				count = lowest + int32(r.IntN(spread))
			}
		case 1:
			count = max(0, count+int32(r.between(-1, 1)))
		case 2:
			count = lowest + int32(r.IntN(spread))
		default:
			if count = lowest; r.chance(1) {
				count = oneOf[int32](r, 0, math.MaxInt32, math.MinInt32)
			}
		}
		list = append(list, TimedRecommendation{count, at.UnixNano()})
		at = at.Add(-pace - time.Duration(r.Int64N(int64(jitter))))
		if r.chance(1) {
			at = at.Add(-time.Duration(r.IntN(3000)) * time.Second)
		}
	}
	slices.Reverse(list)
	newest := r.IntN(n) // where the ring has its newest slot
	list = slices.Concat(list[newest:], list[:newest])
	for range oneOf(r, 0, 0, 3, n) { // slots that others have used again
		i, j := r.IntN(n), r.IntN(n)
		list[i], list[j] = list[j], list[i]
	}
	if r.chance(20) {
		i := r.IntN(n)
		list[i].At = list[r.IntN(n)].At
	}
	return list
}

// longInput decides with windows that may be shorter or longer than those before.
func (r random) longInput(proposal int32) *Input {
	in := &Input{Namespace: "ns", Options: DefaultOptions(), Explain: r.chance(70), HoldDown: r.chance(5)}
	for i := range in.ID {
		in.ID[i] = byte(r.between(1, 255))
	}
	in.proposals = proposals{proposal}
	if r.chance(5) {
		in.proposals = proposals{failed}
	}
	in.Options.Profile = oneOf(r, nil, nil, &v119, &v115)
	in.Options.DownscaleStabilization = time.Duration(oneOf(r, 300, 3600, 3600, r.IntN(4000))) * time.Second
	in.Options.HistoryLimit = oneOf(r, 0, 0, 0, 300)
	in.Spec = Spec{ScaleTargetRef: ObjectReference{Kind: "Deployment", Name: "web"}, MinReplicas: 1, MaxReplicas: oneOf(r, int32(50), math.MaxInt32), Metrics: []MetricSpec{cpuUtilization(60)}}
	if r.chance(70) {
		in.Spec.Behavior = r.behavior()
		up, down := int32(oneOf(r, 0, 300, r.IntN(3601))), int32(oneOf(r, 300, 3600, 3600, r.IntN(3601)))
		in.Spec.Behavior.ScaleUp.StabilizationWindowSeconds, in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = &up, &down
	}
	current := int32(r.between(1, 45))
	in.Scale = Scale{current, current}
	return in
}

// A long list of which a decision reads few blocks decides as the whole list does, and leaves the same bytes,
// whatever came before: pauses, other windows, outages, clocks set back, and the limit.
func TestPropertyPackedHistoriesDecideAsListsDo(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	want := 20_000
	if testlength.Full() {
		want = 1_000_000
	} else {
		t.Logf("%d histories: FULL=1 decides on 1000000", want)
	}
	decode, encode := NewPacked()
	decodeOther, _ := NewPacked()
	read := func(decode func([]byte) (History, error), value []byte) History {
		h, err := decode(value)
		fatal.If(t, err)
		return h
	}
	stayed, reused, appended, held := 0, 0, 0, 0
	for histories, seed := 0, uint64(0); histories < want; seed++ {
		r := newRandom(seed)
		updated := t0.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
		h := History{Seen: true, Initialized: true, Updated: updated, Recommendations: r.longList(updated)}
		h.Status.DesiredReplicas = 3
		value, older := Encode(&h), []byte(nil)
		now := updated
		for range r.between(1, 8) {
			histories++
			now = now.Add(oneOf(r, 0, time.Second, 15*time.Second, 15*time.Second, time.Duration(r.IntN(4000))*time.Second, -time.Duration(r.IntN(100))*time.Second))
			h, p := read(Decode, value), read(decode, value)
			if whole := len(h.Recommendations) >= packed.Least && !h.RecommendationsLimited; (p.Packed != nil) != whole || p.Packed != nil && p.Packed.Len() != len(h.Recommendations) {
				t.Fatalf("seed %d: packed: %v, of %d slots", seed, p.Packed != nil, len(h.Recommendations))
			}
			if string(encode(nil, &p)) != string(value) {
				t.Fatalf("seed %d: unchanged, it is written in other bytes", seed)
			}
			in := r.longInput(int32(oneOf(r, r.between(0, 45), 0, math.MaxInt32)))
			switch r.IntN(20) {
			case 0:
				in.Again = true
			case 1:
				h, p = h.WithoutFuture(now), p.WithoutFuture(now)
			case 2:
				if older != nil {
					side := read(decodeOther, older)
					h, p = Merge(h, read(Decode, older)), Merge(p, side)
				}
			case 3:
				got, known := p.Retrace(in, &Basis{})
				want, wantKnown := h.Retrace(in, &Basis{})
				if known != wantKnown || !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: retraced\n%+v, want\n%+v", seed, got, want)
				}
			case 4:
				got, _ := p.Outlook(in, &Basis{}, now, 15*time.Second)
				if want, _ := h.Outlook(in, &Basis{}, now, 15*time.Second); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d: the outlook is\n%+v, want\n%+v", seed, got, want)
				}
			}
			got, next := Recommend(now, in, &p)
			want, wantNext := Recommend(now, in, &h)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: the decision is\n%+v\n%+v, want\n%+v\n%+v", seed, got, got.Explanation, want, want.Explanation)
			}
			if r.chance(50) && got.Changes() {
				_, next, _ = Settle(next, "ns", in.ID, Applied, "")
				_, wantNext, _ = Settle(wantNext, "ns", in.ID, Applied, "")
			}
			if next.Packed != nil {
				stayed++
				if next.Packed.Len() == p.Packed.Len() {
					reused++
				} else {
					appended++
				}
			}
			if want.Explanation != nil && want.Explanation.Stabilization.Windows[0].Held {
				held++
			}
			if older = value; r.chance(50) {
				older = nil
			}
			value = Encode(&wantNext)
			if string(encode(nil, &next)) != string(value) {
				t.Fatalf("seed %d: the next history is written in other bytes", seed)
			}
			if read(Decode, value).Updated.After(now) {
				now = wantNext.Updated
			}
		}
	}
	if stayed < want/3 || reused < want/10 || appended < want/20 || held < want/20 {
		t.Errorf("of %d histories %d stayed packed, %d used a slot again, %d got one more, and %d were held: too few", want, stayed, reused, appended, held)
	}
}

// A decision on an hour of seconds reads few of its blocks, whatever is proposed: those at the edge of a window, the
// one that holds, and the newest.
func TestADecisionReadsFewBlocksOfALongHistory(t *testing.T) {
	t.Parallel()
	r := newRandom(5)
	decode, encode := NewPacked()
	hour := int32(3600)
	for name, count := range map[string]func(i int) int32{
		"noise":        func(int) int32 { return int32(10 + r.IntN(20)) },
		"a steady one": func(int) int32 { return 20 },
		"it falls":     func(i int) int32 { return int32(4000 - i) },
		"it rises":     func(i int) int32 { return int32(1 + i) },
		"it swings":    func(i int) int32 { return int32(20 + 10*math.Sin(float64(i)/100)) },
	} {
		h := History{Seen: true, Initialized: true, Updated: t0}
		at := func(i int) time.Time { return t0.Add(time.Duration(i-3600)*time.Second + time.Duration(r.IntN(5e6))) }
		for i := range 3600 {
			h.Recommendations = append(h.Recommendations, TimedRecommendation{count(i), at(i).UnixNano()})
		}
		value, reads, most := Encode(&h), 0, 0
		const decisions = 1000
		for i := range decisions {
			known, err := decode(value)
			fatal.If(t, err)
			in := r.longInput(count(3600 + i))
			in.HoldDown, in.Options = false, DefaultOptions()
			in.proposals = proposals{count(3600 + i)}
			in.Spec.Behavior = defaultBehavior()
			in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = &hour
			in.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = oneOf(r, nil, &hour)
			_, next := Recommend(at(3600+i), in, &known)
			value = encode(nil, &next)
			reads, most = reads+known.Packed.Reads(), max(most, known.Packed.Reads())
		}
		t.Logf("%s: %.2f of %d blocks read on average, %d at most", name, float64(reads)/decisions, 3600/packed.PerBlock+1, most)
		if reads > 4*decisions || most > 10 {
			t.Errorf("%s: %d blocks read in %d decisions, %d in one, want 4 on average and 10 at most", name, reads, decisions, most)
		}
	}
}
