package lint

import (
	"testing"

	"github.com/setpoint-dev/setpoint/simulation"
)

// A surge is a number of pods, whatever a manifest has in its place.
func TestShareOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int32{
		"": 2, "25%": 2, "100%": 5, "3": 3, "0": 0, "0%": 0,
		"NaN%": 0, "-50%": 0, "-3": 0, "x": 0, "1e9%": 0, "2147483647%": simulation.MaxPods, "2147483647": simulation.MaxPods,
	} {
		if got, _ := shareOf(text, 5); got != want {
			t.Errorf("%q of 5 pods: %d, want %d", text, got, want)
		}
	}
}
