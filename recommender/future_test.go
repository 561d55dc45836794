package recommender

import (
	"testing"
	"time"
)

// A clock that was years ahead has made records: scale-ups go on after one window, and no
// scale-down comes before one.
func TestRecordsFromTheFutureHoldNothingForLong(t *testing.T) {
	in := wanting(5)
	up, down := int32(60), int32(120)
	in.Spec.Behavior = behavior(nil, nil)
	in.Spec.Behavior.ScaleUp.StabilizationWindowSeconds, in.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = &up, &down
	ahead := t0.AddDate(3, 0, 0)
	_, h := Recommend(ahead, in, nil)
	in.Scale.SpecReplicas = 5
	ask := func(at time.Time, wanted int64) int32 {
		in.Readings[0] = Readings{}
		read(in, 0, wanted*unit)
		d, next := Recommend(at, in, &h)
		h = next
		return d.Desired
	}
	h.Pending = nil
	h = h.WithoutFuture(t0)
	equal(t, "the newest record", h.Updated, t0)
	equal(t, "a scale-down at once", ask(t0.Add(time.Second), 2), int32(5))
	equal(t, "a scale-up after its window", ask(t0.Add(121*time.Second), 9) > 2, true)
	for i := range 62 {
		ask(t0.Add(time.Duration(122+i)*time.Second), 9)
	}
	equal(t, "in the end", ask(t0.Add(200*time.Second), 9), int32(9))
}

func TestWhatBecomesOfRecordsFromTheFuture(t *testing.T) {
	now, before, after := t0.UnixNano(), t0.Add(-time.Minute).UnixNano(), t0.Add(time.Hour).UnixNano()
	h := History{
		Seen: true, Initialized: true, Since: after, Updated: t0.Add(time.Hour),
		Recommendations: []TimedRecommendation{{4, before}, {7, after}, {9, after}, {2, after}},
		ScaleUps:        []ScaleEvent{{Change: 1, At: before}, {Change: 2, At: after}},
		ScaleDowns:      []ScaleEvent{{Change: 3, At: after}},
		Pending:         &Pending{At: after},
		Last:            LastDecision{At: after},
		Status:          Status{LastScaleTime: t0.Add(time.Hour), Conditions: []Condition{{Type: AbleToScale, LastTransitionTime: t0.Add(time.Hour)}}},
	}
	untouched := clone(&h)
	got := h.WithoutFuture(t0)
	equal(t, "the history before", &h, untouched)
	want := *clone(&h)
	want.Since, want.Updated = now, t0
	want.Recommendations = []TimedRecommendation{{4, before}, {9, now}}
	want.ScaleUps[1].At, want.ScaleDowns[0].At, want.Pending.At, want.Last.At = now, now, now, now
	want.Status.LastScaleTime, want.Status.Conditions[0].LastTransitionTime = t0, t0
	equal(t, "what it becomes", string(Encode(&got)), string(Encode(&want)))
	for at, want := range map[int64]int64{before: before, after: now} {
		limited := h
		limited.LastingUntil = at
		equal(t, "until when a thinned list lasts", limited.WithoutFuture(t0).LastingUntil, want)
	}
	equal(t, "once more", string(func() []byte { g := got.WithoutFuture(t0); return Encode(&g) }()), string(Encode(&want)))
}
