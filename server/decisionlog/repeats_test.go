package decisionlog

import (
	"testing"
	"time"
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
					if r.takes(at) {
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
