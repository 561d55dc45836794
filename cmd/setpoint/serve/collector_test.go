package serve

import "testing"

func TestTheHeapGrowsByAboutAsMuch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		live uint64
		want int
	}{
		{0, 1000}, {10 << 20, 1000}, {24 << 20, 533}, {48 << 20, 266}, {96 << 20, 133}, {320 << 20, 50}, {2 << 30, 50},
	} {
		if got := percentFor(test.live); got != test.want {
			t.Errorf("of %d MiB: %d %%, want %d %%", test.live>>20, got, test.want)
		}
	}
	if liveBytes() == 0 {
		t.Error("it is not known how much lives")
	}
}
