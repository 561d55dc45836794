package recommender

import (
	"testing"
	"time"
)

// A decision that is repeated for its instant is the same, whatever was decided since, and
// later records stay.
func TestWhatCameLaterPlaysNoPartInADecisionMadeAgain(t *testing.T) {
	t.Parallel()
	const at = 10 * time.Second
	for name, c := range map[string]struct {
		later    []TimedRecommendation
		ups      []ScaleEvent
		behavior func(*Behavior)
	}{
		"nothing later":      {},
		"a lower one":        {later: []TimedRecommendation{{14, t0.Add(11 * time.Second).UnixNano()}}},
		"lower ones, window": {later: []TimedRecommendation{{14, t0.Add(11 * time.Second).UnixNano()}, {15, t0.Add(12 * time.Second).UnixNano()}}, behavior: func(b *Behavior) { b.ScaleUp.StabilizationWindowSeconds = new(int32(5)) }},
		"a scale-up":         {ups: []ScaleEvent{{Change: 12, At: t0.Add(11 * time.Second).UnixNano()}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := wanting(10)
			in.Spec.MaxReplicas = 100
			in.Spec.Behavior = defaultBehavior()
			if c.behavior != nil {
				c.behavior(in.Spec.Behavior)
			}
			read(in, 0, 17*unit)
			history := History{Seen: true, Initialized: true, Updated: t0, Recommendations: []TimedRecommendation{{10, t0.UnixNano()}}}
			once, _ := Recommend(t0.Add(at), in, &history)

			since := history
			since.Recommendations = append(since.Recommendations[:1:1], c.later...)
			since.ScaleUps = append(since.ScaleUps[:0:0], c.ups...)
			since.Updated = t0.Add(12 * time.Second)
			before := Encode(&since)
			in.Again = true
			again, next := Recommend(t0.Add(at), in, &since)
			equal(t, "the count", again.Desired, once.Desired)
			equal(t, "the instant", again.At, once.At)
			equal(t, "what is recommended in all", len(next.Recommendations), 2+len(c.later))
			equal(t, "scale-ups", len(next.ScaleUps), len(c.ups))
			equal(t, "the newest record", next.Updated, since.Updated)
			equal(t, "the history given", string(Encode(&since)), string(before))
		})
	}
}
