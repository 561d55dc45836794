package stages

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// What is encoded is decoded, also for a spec with more metrics, and anything else counts as nothing.
func TestStateSurvives(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"External:queue", "Resource:cpu", "ContainerResource:cpu:app", "Object:rps"}
	some := func() int64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return r.Int64()
	}
	for range 20_000 {
		s := decoded(nil, names)
		for i := range s.Metrics {
			m := &s.Metrics[i]
			if r.IntN(2) == 0 {
				continue
			}
			m.FailingSince, m.Proposal, m.ProposedAt = some(), int32(some()), some()
			if m.HasBelieved = r.IntN(2) == 0; m.HasBelieved {
				m.Believed, m.SuspectSince = some(), some()
			}
		}
		if r.IntN(2) == 0 {
			s.InactiveSince, s.AtOneSince, s.Begun = some(), some(), some()
		}
		for range r.IntN(mostSeen + 1) {
			at := r.Int64N(1 << 42)
			s.overrides = append(s.overrides, seen{Level(1 + r.IntN(3)), "freeze", "hold", "alice", strings.Repeat("é", r.IntN(40)), at, at - 5, at + r.Int64N(1<<40)})
		}
		b := s.encode(nil)
		if got := decoded(b, names); !reflect.DeepEqual(got, s) {
			t.Fatalf("%+v, want %+v", got, s)
		}
		if got := decoded(b, append([]string{"Pods:pps"}, names...)); !reflect.DeepEqual(got.Metrics[1:], s.Metrics) {
			t.Fatalf("with one more metric %+v, want %+v", got.Metrics[1:], s.Metrics)
		}
		if len(b) > 0 {
			b[r.IntN(len(b))] = byte(r.Uint32())
			decoded(b[:r.IntN(len(b)+1)], names)
		}
	}
	none := decoded(nil, names)
	if b := none.encode(nil); b != nil {
		t.Errorf("no state takes %d bytes", len(b))
	}
}

// Past is that of the last decision with a forecast.
func (k *Kept) Past() *Past { return &k.past.past }

func decoded(b []byte, names []string) (s State) {
	s.decode(b, names)
	return s
}
