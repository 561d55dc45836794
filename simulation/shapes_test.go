package simulation_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/simulation"
)

func TestTraceBetweenPointsAndAtJumps(t *testing.T) {
	t.Parallel()
	load := trace(t, 10, 0, 20, 100, 20, 50, 40, 10)
	for _, tt := range []struct {
		at   float64
		want float64
	}{{0, 0}, {10, 0}, {12.5, 25}, {20, 50}, {30, 30}, {40, 10}, {1000, 10}} {
		if got := load.At(time.Duration(tt.at * float64(time.Second))); got != tt.want {
			t.Errorf("at %g s: %g, want %g", tt.at, got, tt.want)
		}
	}
	// 0 + 500 + 600 + 100
	if got := load.Volume(0, 50*time.Second); got != 1200 {
		t.Errorf("volume %g, want 1200", got)
	}
}

func TestInvalidTraces(t *testing.T) {
	t.Parallel()
	for name, points := range map[string][]simulation.Point{
		"empty":                      nil,
		"negative":                   {{At: 0, Value: -1}},
		"not a number":               {{At: 0, Value: math.NaN()}},
		"infinite":                   {{At: 0, Value: math.Inf(1)}},
		"going back":                 {{At: 5, Value: 1}, {At: 4, Value: 1}},
		"three points at an instant": {{At: 5, Value: 1}, {At: 5, Value: 2}, {At: 5, Value: 3}},
	} {
		if _, err := simulation.NewTrace(points); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSumsAddUp(t *testing.T) {
	t.Parallel()
	sum, err := simulation.Sum(trace(t, 0, 1, 10, 11), trace(t, 5, 0, 5, 100), trace(t, 0, 1))
	fatal.If(t, err)
	want := []simulation.Point{{At: 0, Value: 2}, {At: 5 * time.Second, Value: 7}, {At: 5 * time.Second, Value: 107}, {At: 10 * time.Second, Value: 112}}
	if !slices.Equal(sum.Points(), want) {
		t.Errorf("got %v, want %v", sum.Points(), want)
	}
}

// A day is what users mean: on 29 March 2026 it has 23 hours in Berlin, and the peak is at
// 14:00 by the clock, which is an hour earlier than a day after the last one.
func TestADailyLoadFollowsTheClock(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	fatal.If(t, err)
	from := time.Date(2026, 3, 28, 0, 0, 0, 0, berlin)
	load, err := simulation.Daily(10, 110, 14*time.Hour, 0.5, simulation.Span{Start: from, Duration: 72 * time.Hour})
	fatal.If(t, err)
	for _, tt := range []struct {
		at   time.Duration
		want float64
	}{
		{14 * time.Hour, 60}, // Saturday: half of the rise
		{2 * time.Hour, 10},
		{20 * time.Hour, 35},
		{24*time.Hour + 13*time.Hour, 60}, // Sunday, 14:00
		{47*time.Hour + 14*time.Hour, 110},
	} {
		if got := load.At(tt.at); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("at %s: %g, want %g", from.Add(tt.at), got, tt.want)
		}
	}
}

func TestShapes(t *testing.T) {
	t.Parallel()
	span := simulation.Span{Start: start, Duration: time.Minute}
	must := func(load *simulation.Trace, err error) *simulation.Trace {
		t.Helper()
		fatal.If(t, err)
		return load
	}
	for _, tt := range []struct {
		name string
		load *simulation.Trace
		// at 0, 9, 10, 15, 20, 35 s
		want [6]float64
	}{
		{"constant", must(simulation.Constant(3)), [6]float64{3, 3, 3, 3, 3, 3}},
		{"jump", must(simulation.Jump(1, 5, 10*time.Second)), [6]float64{1, 1, 5, 5, 5, 5}},
		{"ramp", must(simulation.Ramp(0, 10, 10*time.Second, 10*time.Second)), [6]float64{0, 0, 0, 5, 10, 10}},
		{"spike", must(simulation.Spike(7, 10*time.Second, 10*time.Second)), [6]float64{0, 0, 7, 7, 0, 0}},
		{"sawtooth", must(simulation.Sawtooth(0, 10, 10*time.Second, span)), [6]float64{0, 9, 0, 5, 0, 5}},
		{"on and off", must(simulation.OnOff(1, 2, 10*time.Second, 10*time.Second, span)), [6]float64{2, 2, 1, 1, 2, 1}},
		{"flash crowd", must(simulation.FlashCrowd(64, 5*time.Second, 5*time.Second, 10*time.Second)), [6]float64{0, 51.2, 64, 64 / math.Sqrt2, 32, 32 / math.Sqrt2 / 2}},
	} {
		for i, at := range []time.Duration{0, 9, 10, 15, 20, 35} {
			if got := tt.load.At(at * time.Second); math.Abs(got-tt.want[i]) > 1e-9 {
				t.Errorf("%s, at %d s: %g, want %g", tt.name, at, got, tt.want[i])
			}
		}
	}
}

// Noise that would make too many points is refused before any is drawn between others.
func TestNoiseOfTooManyPoints(t *testing.T) {
	t.Parallel()
	load, err := simulation.Sawtooth(0, 1, 70*time.Second, simulation.Span{Duration: simulation.MaxDuration})
	fatal.If(t, err)
	_, err = load.Noise(1, 0.1, 16*time.Second, simulation.MaxDuration)
	if err == nil || !strings.Contains(err.Error(), "with noise every 16s the load has more than 2000000 points") {
		t.Errorf("got %v", err)
	}
}

// Noise has the variation asked for, and a mean of nearly the load.
func TestNoiseVariesAsMuchAsAskedFor(t *testing.T) {
	t.Parallel()
	load, err := trace(t, 0, 100).Noise(7, 0.1, time.Second, 20_000*time.Second)
	fatal.If(t, err)
	sum, squares := 0.0, 0.0
	points := load.Points()[:20_000]
	for _, p := range points {
		sum += p.Value
		squares += (p.Value - 100) * (p.Value - 100)
	}
	n := float64(len(points))
	if mean, deviation := sum/n, math.Sqrt(squares/n); math.Abs(mean-100) > 0.3 || math.Abs(deviation-10) > 0.3 {
		t.Errorf("mean %g, deviation %g, want 100 and 10", mean, deviation)
	}
}
