package simulation

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestFunctionsAgreeWithMath(t *testing.T) {
	t.Parallel()
	for i := range 2000 {
		x := float64(i)/100 - 10
		if got, want := exp(x), math.Exp(x); math.Abs(got-want) > 1e-14*want {
			t.Errorf("exp(%g) = %g, want %g", x, got, want)
		}
		if got, want := cosine(x), math.Cos(2*math.Pi*x); math.Abs(got-want) > 1e-13 {
			t.Errorf("cosine(%g) = %g, want %g", x, got, want)
		}
		if y := math.Exp(x); math.Abs(log(y)-x) > 1e-13 {
			t.Errorf("log(%g) = %g, want %g", y, log(y), x)
		}
	}
}

// 95 % of start-ups take at most what was said, and half of them at most the median.
func TestStartupTimesAreDistributedAsAskedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		startup     Startup
		median, p95 time.Duration
	}{
		{Startup{LogNormalStartup, 20 * time.Second, time.Minute}, 20 * time.Second, time.Minute},
		{Startup{UniformStartup, 10 * time.Second, 30 * time.Second}, 20 * time.Second, 29 * time.Second},
		{Startup{FixedStartup, 10 * time.Second, 0}, 10 * time.Second, 10 * time.Second},
	} {
		var drawn []time.Duration
		for i := range uint64(20_000) {
			drawn = append(drawn, tt.startup.draw(1, i))
		}
		slices.Sort(drawn)
		within := func(got, want time.Duration) bool {
			return math.Abs(float64(got-want)) < 0.03*float64(want)
		}
		if median, p95 := drawn[10_000], drawn[19_000]; !within(median, tt.median) || !within(p95, tt.p95) {
			t.Errorf("%+v: median %s, 95 %% %s, want %s and %s", tt.startup, median, p95, tt.median, tt.p95)
		}
	}
}

// The order of upstream's ActivePodsWithRanks.
func TestPodsAreDeletedInTheReplicaSetsOrder(t *testing.T) {
	t.Parallel()
	w := &world{now: 1000 * time.Second}
	at := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
	pods := map[string]*pod{
		"unstarted":          {running: at(2000), created: at(900), uid: 1},
		"not ready, younger": {running: at(999), created: at(999), uid: 9},
		"not ready, older":   {running: at(10), created: at(10), uid: 1},
		"restarted":          {running: at(10), created: at(10), restarts: 1, uid: 5},
		"ready for 1 s":      {ready: true, readyChanged: at(999), uid: 9},
		// 600 s and 990 s are both 2^39 to 2^40 ns ago: the UID decides.
		"ready for 600 s": {ready: true, readyChanged: at(400), uid: 3},
		"ready for 990 s": {ready: true, readyChanged: at(10), uid: 2},
		"ready for 100 h": {ready: true, readyChanged: -at(359_000), uid: 1},
	}
	want := []string{"unstarted", "restarted", "not ready, younger", "not ready, older", "ready for 1 s", "ready for 990 s", "ready for 600 s", "ready for 100 h"}
	var list []*pod
	for name, p := range pods {
		p.name = name
		list = append(list, p)
	}
	w.rank(list)
	for i, p := range list {
		if p.name != want[i] {
			t.Errorf("place %d: %s, want %s", i+1, p.name, want[i])
		}
	}
}

// Noise is the product of the load and of the factors' trace, at each instant of either.
func TestNoiseIsAProduct(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		points   []Point
		every    time.Duration
		duration time.Duration
	}{
		{[]Point{{0, 5}}, time.Second, 100 * time.Second},
		{[]Point{{-30 * time.Second, 1}, {-5 * time.Second, 9}, {7 * time.Second, 2}, {7 * time.Second, 40}, {500 * time.Second, 3}}, 7 * time.Second, 90 * time.Second},
		{[]Point{{10 * time.Second, 1}, {10 * time.Second, 6}, {11 * time.Second, 6}, {11 * time.Second, 0}}, 1500 * time.Millisecond, 30 * time.Second},
	} {
		load, err := NewTrace(tt.points)
		fatal.If(t, err)
		got, err := load.Noise(3, 0.7, tt.every, tt.duration)
		fatal.If(t, err)
		var grid []Point
		var offsets []time.Duration
		for i := range uint64(tt.duration/tt.every) + 2 {
			grid = append(grid, Point{time.Duration(i) * tt.every, max(0, 1+mul(0.7, normal(3, noiseStream, i)))})
			offsets = append(offsets, grid[i].At)
		}
		for _, p := range tt.points {
			offsets = append(offsets, p.At)
		}
		slices.Sort(offsets)
		var want []Point
		for _, at := range slices.Compact(offsets) {
			f := (&Trace{grid}).At(at)
			left, right := mul(load.before(at), f), mul(load.At(at), f)
			if left != right {
				want = append(want, Point{at, left})
			}
			want = append(want, Point{at, right})
		}
		if !slices.Equal(got.Points(), want) {
			t.Errorf("noise every %s:\n%v, want\n%v", tt.every, got.Points(), want)
		}
	}
}
