package decisionlog

import (
	"fmt"
	"math"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/store"
)

func TestRepeatsAreLoggedAllOrNone(t *testing.T) {
	t.Parallel()
	const most = 30
	for _, tc := range []struct {
		name string
		most int
		// asked are repeats by period, want those that are logged; 0 is a period without
		// calls.
		asked, want []int
	}{
		{"few are all taken", most, []int{30, 30, 1, 0, 30}, []int{30, 30, 1, 0, 30}},
		{"of many none, but of the first", most, []int{31, 300, 300, 31}, []int{30, 0, 0, 0}},
		{"a period with few is only known afterwards", most, []int{300, 30, 30}, []int{30, 0, 30}},
		{"a pause tells nothing", most, []int{300, 0, 300, 300}, []int{30, 0, 30, 0}},
		{"no room", 0, []int{1, 1}, []int{0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := repeatsRoom{most: tc.most}
			now := time.Now()
			for period, asked := range tc.asked {
				taken := 0
				for n := range asked {
					at := now.Add(time.Duration(n) * repeatsPeriod / time.Duration(asked))
					if r.takes(store.Key{Cluster: "c", Namespace: "n"}, at) {
						taken++
					}
				}
				if taken != tc.want[period] {
					t.Errorf("period %d: %d of %d are taken, want %d", period, taken, asked, tc.want[period])
				}
				now = now.Add(repeatsPeriod)
			}
		})
	}
}

// The burst of a namespace leaves out its own unchanged decisions only, from its first period on.
func TestABurstLeavesOutItsOwnRepeats(t *testing.T) {
	t.Parallel()
	const most, honest, each = 1000, 10, 20
	r := repeatsRoom{most: most}
	now := time.Now()
	for period := range 4 {
		taken := make(map[string]int)
		ask := func(namespace string, n int) {
			for range n {
				if r.takes(store.Key{Cluster: "c", Namespace: namespace}, now) {
					taken[namespace]++
				}
			}
		}
		if period > 0 {
			ask("burst", 100*most) // first in the period
		}
		for i := range honest {
			ask(string(rune('a'+i)), each)
		}
		for i := range honest {
			if who := string(rune('a' + i)); taken[who] != each {
				t.Errorf("period %d: %d of %d of %s are logged", period, taken[who], each, who)
			}
		}
		if most := []int{0, most, 0, 0}[period]; taken["burst"] > most {
			t.Errorf("period %d: %d of the burst are logged, want %d at most", period, taken["burst"], most)
		}
		now = now.Add(repeatsPeriod)
	}
}

// However many namespaces there are, few are counted apart.
func TestRepeatsOfManyNamespaces(t *testing.T) {
	t.Parallel()
	r := repeatsRoom{most: 100}
	now := time.Now()
	taken := 0
	for i := range 10 * maxRepeating {
		if r.takes(store.Key{Cluster: "c", Namespace: fmt.Sprint(i)}, now) {
			taken++
		}
	}
	if len(r.of) > maxRepeating+1 || taken > 2*r.most {
		t.Errorf("%d are counted, %d taken", len(r.of), taken)
	}
}

// A rate that nobody reaches takes everything, however it overflows.
func TestAHugeRateTakesRepeats(t *testing.T) {
	t.Parallel()
	l := New(nil, nil, zap.NewNop(), math.MaxInt/8)
	defer l.Close()
	if before := (&recommender.History{Last: recommender.LastDecision{At: 1}}); !l.Takes(store.Key{Cluster: "c"}, before, true) {
		t.Error("a repeat is not logged")
	}
}
