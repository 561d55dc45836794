package daemon

import "testing"

func TestTheCollectorKeepsToAShareOfTheLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ limit, percent, want int64 }{
		{512 << 20, 75, 384 << 20},
		{199, 90, 179},
		{1 << 62, 75, 3 << 60},
	} {
		if got := shareOf(test.limit, test.percent); got != test.want {
			t.Errorf("%d %% of %d: %d, want %d", test.percent, test.limit, got, test.want)
		}
	}
}
