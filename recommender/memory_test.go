package recommender

import (
	"reflect"
	"testing"
	"time"
)

// Reused memory changes no decision and no history: those of a batch stay as they are made, whatever is
// decided and decoded afterwards in the same memory.
func TestReusedMemoryChangesNoDecision(t *testing.T) {
	t.Parallel()
	const targets = 8
	for seed := range uint64(150) {
		r, reused, decode := newRandom(seed), new(memory), NewDecode()
		var values [targets][]byte
		now := t0
		for range 8 {
			now = now.Add(time.Duration(r.between(1, 90)) * time.Second)
			// Fewer than are decided: the others have their own memory.
			kept := oneOf(r, targets, targets, targets-3, 0)
			reused.Keep(kept)
			var got, want [targets]Decision
			for i := range targets {
				in := r.input()
				var theirs, own *History
				if values[i] != nil {
					shared, err := decode(values[i])
					alone, _ := Decode(values[i])
					if theirs, own = &shared, &alone; err != nil {
						t.Fatal(err)
					}
				}
				var next, wantNext History
				got[i], next = RecommendIn(reused, now, in, theirs)
				want[i], wantNext = Recommend(now, in, own)
				if kept == 0 && !reflect.DeepEqual(got[i], want[i]) {
					t.Fatalf("seed %d: the decision is\n%+v, want\n%+v", seed, got[i], want[i])
				}
				if values[i] = Encode(&next); string(values[i]) != string(Encode(&wantNext)) {
					t.Fatalf("seed %d: the next history is\n%+v, want\n%+v", seed, next, wantNext)
				}
			}
			if kept > 0 && !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: the decisions of a batch are\n%+v, want\n%+v", seed, got, want)
			}
		}
	}
}
