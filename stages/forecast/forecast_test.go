package forecast_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/stages/forecast"
)

var cpu = &forecast.Basis{Shape: 7, Targets: []int64{60}}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	fatal.If(t, err)
	return z
}

func settings(z *time.Location) *forecast.Settings {
	return &forecast.Settings{Quantile: 90, Lead: 5 * time.Minute, Zone: z}
}

// add adds one bucket.
func add(r *forecast.Ring, at time.Time, replicas int32, s *forecast.Settings) {
	r.Add(forecast.Closed{Bucket: forecast.BucketOf(at), Replicas: replicas, Of: cpu.Hash()}, cpu, s.Season)
}

// fill adds the buckets from an instant up to another one; below 0 there is none.
func fill(r *forecast.Ring, from, to time.Time, s *forecast.Settings, need func(time.Time) int32) {
	for at := from; at.Before(to); at = at.Add(forecast.Length) {
		add(r, at, need(at), s)
	}
}

func ask(r *forecast.Ring, s *forecast.Settings, at time.Time) (int32, int) {
	o := r.Outlook(s, forecast.BucketOf(at))
	return o.At(s, at)
}

// TestQuantile is Q1, and the ranks of other lists.
func TestQuantile(t *testing.T) {
	q1 := []int32{8, 9, 9, 10, 10, 11, 11, 12, 12, 12, 13, 13, 14, 30}
	for _, c := range []struct {
		percent int
		values  []int32
		want    int32
	}{
		{90, q1, 14}, {100, q1, 30}, {50, q1, 11}, {90, q1[:13], 13}, {90, []int32{5}, 5}, {50, []int32{1, 2}, 1}, {51, []int32{1, 2}, 2}, {1, q1, 8},
	} {
		if got := forecast.Quantile(append([]int32(nil), c.values...), c.percent); got != c.want {
			t.Errorf("%d %% of %v: %d, want %d", c.percent, c.values, got, c.want)
		}
	}
}

// TestOneOutlierDayIsIgnored is Q1 in a ring: the one 30 of 14 days does not count at 90 %, and does at 100 %.
func TestOneOutlierDayIsIgnored(t *testing.T) {
	s, r := settings(time.UTC), &forecast.Ring{}
	start := time.Date(2026, 3, 2, 8, 15, 0, 0, time.UTC)
	for day, v := range []int32{8, 9, 9, 30, 10, 11, 11, 12, 12, 12, 13, 13, 14, 10} {
		add(r, start.AddDate(0, 0, day), v, s)
	}
	at := start.AddDate(0, 0, 14)
	if got, days := ask(r, s, at); got != 14 || days != 14 {
		t.Errorf("%d of %d days, want 14 of 14", got, days)
	}
	s.Quantile = 100
	if got, _ := ask(r, s, at); got != 30 {
		t.Errorf("100 %%: %d, want 30", got)
	}
}

// TestClocksAreSet is Q4, both ways, in two zones: of the hour that exists twice the larger value counts, and the day
// without the hour leaves its value out.
func TestClocksAreSet(t *testing.T) {
	for _, c := range []struct {
		zone        string
		back, ahead time.Time // the days, at the wall time that exists twice or not at all
	}{
		{"Europe/Berlin", time.Date(2026, 10, 25, 2, 15, 0, 0, time.UTC), time.Date(2026, 3, 29, 2, 15, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2026, 11, 1, 1, 15, 0, 0, time.UTC), time.Date(2026, 3, 8, 2, 15, 0, 0, time.UTC)},
	} {
		t.Run(c.zone, func(t *testing.T) {
			z := zone(t, c.zone)
			s := settings(z)
			s.Quantile = 100
			on := func(day time.Time, n int) time.Time {
				return time.Date(day.Year(), day.Month(), day.Day()+n, day.Hour(), day.Minute(), 0, 0, z)
			}
			// need is 5, but 20 and 30 at the wall time that exists twice, and 9 at its time on other days.
			r, seen := &forecast.Ring{}, 0
			fill(r, on(c.back, -10), on(c.back, 4), s, func(at time.Time) int32 {
				l := at.In(z)
				switch {
				case l.Hour() != c.back.Hour() || l.Minute() != c.back.Minute():
					return 5
				case l.Day() != c.back.Day():
					return 9
				}
				seen++
				return []int32{0, 30, 20}[seen]
			})
			if seen != 2 {
				t.Fatalf("the wall time was there %d times", seen)
			}
			if got, days := ask(r, s, on(c.back, 4)); got != 30 || days != 14 {
				t.Errorf("after clocks were set back: %d of %d days, want 30 of 14", got, days)
			}
			// One more day: the quantile of 13 nines and the larger of both.
			s.Quantile = 90
			if got, _ := ask(r, s, on(c.back, 4)); got != 9 {
				t.Errorf("after clocks were set back, 90 %%: %d, want 9", got)
			}

			r = &forecast.Ring{}
			fill(r, on(c.ahead, -10), on(c.ahead, 4), s, func(at time.Time) int32 {
				if l := at.In(z); l.Hour() == c.ahead.Hour() && l.Minute() == c.ahead.Minute() {
					return 9
				}
				return 5
			})
			if got, days := ask(r, s, on(c.ahead, 4)); got != 9 || days != 13 {
				t.Errorf("after clocks were set forward: %d of %d days, want 9 of 13", got, days)
			}
			// The same wall time counts on both sides of the change, not the same time in UTC.
			for _, change := range []time.Time{c.back, c.ahead} {
				r = &forecast.Ring{}
				fill(r, on(change, -10), on(change, 4), s, func(at time.Time) int32 {
					if l := at.In(z); l.Hour() >= 8 && l.Hour() < 20 {
						return 20
					}
					return 2
				})
				for _, minute := range []int{7*60 + 45, 8 * 60, 19*60 + 45, 20 * 60} {
					want := int32(2)
					if minute >= 8*60 && minute < 20*60 {
						want = 20
					}
					at := time.Date(change.Year(), change.Month(), change.Day()+5, 0, minute, 0, 0, z)
					if got, _ := ask(r, s, at); got != want {
						t.Errorf("%s: %d, want %d", at, got, want)
					}
				}
			}
		})
	}
}

// TestKnownSeries are series whose forecasts and errors are known.
func TestKnownSeries(t *testing.T) {
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC) // a Monday
	square := func(at time.Time) int32 {
		if h := at.Hour(); h >= 8 && h < 20 {
			return 20
		}
		return 4
	}
	week := func(at time.Time) int32 {
		if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
			return 2
		}
		return square(at)
	}
	day := func(at time.Time) int { return int(at.Sub(start) / (24 * time.Hour)) }
	for _, c := range []struct {
		name    string
		season  forecast.Season
		need    func(time.Time) int32
		days    int
		at      time.Duration // of the day
		want    int32
		missed  int // per cent
		excess  int64
		problem bool
	}{
		{"constant", forecast.Daily, func(time.Time) int32 { return 7 }, 15, 12 * time.Hour, 7, 0, 0, false},
		{"square, just before its rise", forecast.Daily, square, 15, 7*time.Hour + 45*time.Minute, 4, 0, 0, false},
		{"square, within the lead", forecast.Daily, square, 15, 7*time.Hour + 55*time.Minute, 20, 0, 0, false},
		{"square, its last bucket", forecast.Daily, square, 15, 19*time.Hour + 54*time.Minute, 20, 0, 0, false},
		// At weekends 2 are needed, and days say 20 and 4: 2 × (48 × 18 + 48 × 2) of 5 × 1,152 + 2 × 192.
		{"weekly by day", forecast.Daily, week, 14, 12 * time.Hour, 20, 0, 32, false},
		{"weekly by week", forecast.Weekly, week, 28, 12 * time.Hour, 20, 0, 0, false},
		{"weekly by week, at the weekend", forecast.Weekly, week, 26, 12 * time.Hour, 2, 0, 0, false},
		// A tenth of the first day more each day: no day was as large as the next one.
		{"growth", forecast.Daily, func(at time.Time) int32 { return int32(100 + 10*day(at)) }, 15, 12 * time.Hour, 100 + 10*13, 100, 0, true},
		{"an outlier day", forecast.Daily, func(at time.Time) int32 {
			if day(at) == 11 {
				return 3 * square(at)
			}
			return square(at)
		}, 15, 12 * time.Hour, 20, 15, 0, false},
		// The values of 7 days, of which one is missing, are 6: the day after it has no forecast to compare.
		{"a missing day", forecast.Daily, func(at time.Time) int32 {
			if day(at) == 3 {
				return -1
			}
			return square(at)
		}, 15, 12 * time.Hour, 20, 0, 0, false},
		{"too short", forecast.Daily, square, 6, 12 * time.Hour, -1, 0, 0, true},
		{"long enough to tell, not to act", forecast.Daily, square, 7, 12 * time.Hour, 20, 0, 0, true},
		{"two weeks", forecast.Weekly, week, 14, 12 * time.Hour, -1, 0, 0, true},
		// Each other day 8 and 40: 90 % of the days is 40, and on 3 or 4 of 7 days 8 were enough.
		{"by turns", forecast.Daily, func(at time.Time) int32 { return []int32{8, 40}[day(at)%2] }, 16, 12 * time.Hour, 40, 0, 67, true},
		{"nothing needed", forecast.Daily, func(time.Time) int32 { return 0 }, 15, 12 * time.Hour, 0, 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, r := settings(time.UTC), &forecast.Ring{}
			s.Season = c.season
			at := start.AddDate(0, 0, c.days).Add(c.at)
			fill(r, start, at.Truncate(forecast.Length), s, c.need)
			o := r.Outlook(s, forecast.BucketOf(at))
			if got, _ := o.At(s, at); got != c.want {
				t.Errorf("forecast %d, want %d", got, c.want)
			}
			if o.Back.MissedPercent() != c.missed || o.Back.ExcessPercent() != c.excess {
				t.Errorf("missed %d %%, excess %d %% (%+v), want %d and %d", o.Back.MissedPercent(), o.Back.ExcessPercent(), o.Back, c.missed, c.excess)
			}
			if problem := o.Back.Problem(); (problem != "") != c.problem {
				t.Errorf("problem %q, want one: %t", problem, c.problem)
			}
		})
	}
}

// TestGate opens and closes exactly at its numbers.
func TestGate(t *testing.T) {
	for _, c := range []struct {
		back forecast.Backtest
		want string
	}{
		{forecast.Backtest{Tested: 95}, "it is compared with 95 quarters of an hour of the last 7 days, of at least 96"},
		{forecast.Backtest{Tested: 96}, ""},
		{forecast.Backtest{Tested: 100, Missed: 25, Excess: 50, Actual: 100}, ""},
		{forecast.Backtest{Tested: 100, Missed: 26, Excess: 50, Actual: 100}, "missed 26 % in 7 days"},
		{forecast.Backtest{Tested: 100, Missed: 25, Excess: 62, Actual: 100}, "excess 62 % in 7 days"},
		{forecast.Backtest{Tested: 400, Missed: 101, Excess: 5001, Actual: 10000}, "missed 26 %, excess 51 % in 7 days"},
		{forecast.Backtest{Tested: 100, Excess: 1}, "excess 100 % in 7 days"},
	} {
		if got := c.back.Problem(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.back, got, c.want)
		}
	}
}

// TestLead is that the largest of the buckets up to the lead counts, and none after it.
func TestLead(t *testing.T) {
	s, r := settings(time.UTC), &forecast.Ring{}
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	fill(r, start, start.AddDate(0, 0, 14), s, func(at time.Time) int32 { return int32(at.Hour()*60 + at.Minute()) })
	at := start.AddDate(0, 0, 14).Add(10*time.Hour + 7*time.Minute)
	for lead, want := range map[time.Duration]int32{
		0: 600, 5 * time.Minute: 600, 7*time.Minute + 59*time.Second: 600, 8 * time.Minute: 615, 23 * time.Minute: 630, time.Hour: 660,
	} {
		s.Lead = lead
		if got, _ := ask(r, s, at); got != want {
			t.Errorf("lead %s: %d, want %d", lead, got, want)
		}
	}
}

// TestCovers is that an outlook that covers a bucket has the whole lead of each instant of it.
func TestCovers(t *testing.T) {
	s, r := settings(time.UTC), &forecast.Ring{}
	s.Lead = forecast.MaxLead
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	fill(r, start, start.AddDate(0, 0, 10), s, func(at time.Time) int32 { return int32(at.Hour()*60 + at.Minute()) })
	first := forecast.BucketOf(start.AddDate(0, 0, 10))
	o := r.Outlook(s, first)
	n := 0
	for b := first - 3; b < first+40; b++ {
		if !o.Covers(b) {
			continue
		}
		n++
		at := forecast.StartOf(b).Add(forecast.Length - 1)
		want, _ := ask(r, s, at)
		if got, _ := o.At(s, at); got != want {
			t.Errorf("bucket %d: %d, alone %d", b-first, got, want)
		}
	}
	if n < 4 || o.Covers(first-1) {
		t.Errorf("covers %d buckets, the one before: %t", n, o.Covers(first-1))
	}
}

// TestTargetsChange is that numbers scale the values, and anything else begins anew.
func TestTargetsChange(t *testing.T) {
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	two := &forecast.Basis{Shape: 7, Targets: []int64{60, 100}}
	for _, c := range []struct {
		name     string
		from, to *forecast.Basis
		want     int32
	}{
		{"same", cpu, cpu, 12},
		{"half the target", cpu, &forecast.Basis{Shape: 7, Targets: []int64{30}}, 24},
		{"rounded to the nearest", cpu, &forecast.Basis{Shape: 7, Targets: []int64{80}}, 9},
		{"never to nothing", cpu, &forecast.Basis{Shape: 7, Targets: []int64{60_000}}, 1},
		{"another metric", cpu, &forecast.Basis{Shape: 8, Targets: []int64{60}}, -1},
		{"one more metric", cpu, two, -1},
		{"of two metrics the larger factor", two, &forecast.Basis{Shape: 7, Targets: []int64{120, 50}}, 24},
		{"one of two lowered demand", two, &forecast.Basis{Shape: 7, Targets: []int64{120, 100}}, 12},
		{"no target", cpu, &forecast.Basis{Shape: 7, Targets: []int64{0}}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, r := settings(time.UTC), &forecast.Ring{}
			for day := range 14 {
				r.Add(forecast.Closed{Bucket: forecast.BucketOf(start.AddDate(0, 0, day)), Replicas: 12, Of: c.from.Hash()}, c.from, s.Season)
			}
			r.Rebase(c.to)
			if got, _ := ask(r, s, start.AddDate(0, 0, 14)); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
	// A bucket that was measured before the change counts as the others, and one of a third basis not at all.
	s, r := settings(time.UTC), &forecast.Ring{}
	s.Quantile = 100
	half := &forecast.Basis{Shape: 7, Targets: []int64{30}}
	for day := range 13 {
		add(r, start.AddDate(0, 0, day), 12, s)
	}
	r.Add(forecast.Closed{Bucket: forecast.BucketOf(start.AddDate(0, 0, 13)), Replicas: 15, Of: cpu.Hash()}, half, s.Season)
	r.Add(forecast.Closed{Bucket: forecast.BucketOf(start.AddDate(0, 0, 13)), Replicas: 99, Of: 12345}, half, s.Season)
	if got, days := ask(r, s, start.AddDate(0, 0, 14)); got != 30 || days != 14 {
		t.Errorf("%d of %d days, want 30 of 14", got, days)
	}
	// What was said is scaled as the values are, which end at the largest count.
	huge := forecast.Said{Replicas: math.MaxInt32, Back: forecast.Backtest{Tested: 600, Excess: 600 * math.MaxInt32, Actual: 600 * math.MaxInt32}}
	if got, ok := huge.Under(&forecast.Basis{Targets: []int64{math.MaxInt64}}, &forecast.Basis{Targets: []int64{1}}); !ok || got.Replicas != math.MaxInt32 || got.Back.Problem() != "excess 100 % in 7 days" {
		t.Errorf("%+v, %q", got, got.Back.Problem())
	}
	if a, b := cpu.For(1), cpu.For(2); a.Shape == b.Shape || cpu.For(0).Shape != cpu.Shape {
		t.Error("incarnations share a basis, or none has another one")
	}
}

// TestTargetsAreTakenBack is that values are what they were measured as once their targets are back, also of two metrics, whose
// factor there and the one back are not 1 together, and however often.
func TestTargetsAreTakenBack(t *testing.T) {
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	basis := func(cpu, queue int64) *forecast.Basis {
		return &forecast.Basis{Shape: 7, Targets: []int64{cpu, queue}}
	}
	is := basis(60, 100)
	for name, c := range map[string]struct {
		of   func(day, quarter int) *forecast.Basis
		want int32
	}{
		"an edit for an hour":       {func(day, quarter int) *forecast.Basis { return basis(60-30*in(day == 9 && quarter < 4), 100) }, 12},
		"another target each night": {func(_, quarter int) *forecast.Basis { return basis(60, 100-50*in(quarter < 32)) }, 12},
		// Those of the first days are of too many bases ago, and rather too high.
		"another target each day": {func(day, _ int) *forecast.Basis { return basis(60, 100-int64(day%14)) }, 15},
	} {
		s, r := settings(time.UTC), &forecast.Ring{}
		for day := range 14 {
			for quarter := range 96 {
				at := forecast.BucketOf(start.AddDate(0, 0, day)) + int64(quarter)
				of := c.of(day, quarter)
				r.Add(forecast.Closed{Bucket: at, Replicas: 12, Of: of.Hash()}, of, s.Season)
				back, err := forecast.Decode(r.Append(nil))
				if err != nil || string(back.Append(nil)) != string(r.Append(nil)) {
					t.Fatalf("%s: another ring came back (%v)", name, err)
				}
				r = back
			}
		}
		r.Rebase(is)
		if got, days := ask(r, s, start.AddDate(0, 0, 14).Add(12*time.Hour)); got != c.want || days != 14 {
			t.Errorf("%s: %d of %d days, want %d of 14", name, got, days, c.want)
		}
	}
}

func in(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// TestOrderDoesNotCount is that two instances that add the same buckets in any order, and some twice, make the same ring.
func TestOrderDoesNotCount(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, season := range []forecast.Season{forecast.Daily, forecast.Weekly} {
		s := settings(time.UTC)
		s.Season = season
		var all []forecast.Closed
		first := forecast.BucketOf(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
		for b := range int64(900) {
			for range 1 + rng.IntN(2) {
				all = append(all, forecast.Closed{Bucket: first + b, Replicas: int32(rng.IntN(50)), Of: cpu.Hash()})
			}
		}
		var want []byte
		for i := range 20 {
			r := &forecast.Ring{}
			for _, c := range all {
				r.Add(c, cpu, season)
			}
			if got := r.Append(nil); i == 0 {
				want = got
			} else if string(got) != string(want) {
				t.Fatalf("%s: another ring by another order", season)
			}
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
	}
}

// TestWrongClock is that a bucket of the far future, and a return from it, begin a new ring, and cost no more memory.
func TestWrongClock(t *testing.T) {
	s, r := settings(time.UTC), &forecast.Ring{}
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	fill(r, start, start.AddDate(0, 0, 14), s, func(time.Time) int32 { return 9 })
	add(r, start.AddDate(50, 0, 0), 1000, s)
	if got, _ := ask(r, s, start.AddDate(0, 0, 14)); got != -1 {
		t.Errorf("after a wrong clock: %d", got)
	}
	fill(r, start, start.AddDate(0, 0, 14), s, func(time.Time) int32 { return 9 })
	if got, _ := ask(r, s, start.AddDate(0, 0, 14)); got != 9 {
		t.Errorf("after the clock was right again: %d", got)
	}
	for _, b := range []int64{math.MinInt64, -1, 0, math.MaxInt32 + 1, math.MaxInt64} {
		before := string(r.Append(nil))
		r.Add(forecast.Closed{Bucket: b, Replicas: 9, Of: cpu.Hash()}, cpu, s.Season)
		if string(r.Append(nil)) != before {
			t.Errorf("bucket %d was taken", b)
		}
	}
}

// TestRoundTrip is that a ring comes back as it was, and that it takes the bytes that are promised.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		season forecast.Season
		most   int // bytes
		need   func(time.Time) int32
	}{
		{"empty", forecast.Daily, 16, func(time.Time) int32 { return -1 }},
		{"constant", forecast.Weekly, 32, func(time.Time) int32 { return 7 }},
		{"day and night, with noise", forecast.Daily, 1500, func(at time.Time) int32 {
			return int32(20 + 15*math.Sin(float64(at.Hour())/24*2*math.Pi) + 3*rng.Float64())
		}},
		{"hundreds", forecast.Weekly, 5400, func(at time.Time) int32 { return int32(500 + rng.IntN(200)) }},
		{"the largest", forecast.Weekly, forecast.MaxBytes, func(at time.Time) int32 { return int32(at.Minute() % 2 * math.MaxInt32) }},
		{"every other missing", forecast.Weekly, forecast.MaxBytes, func(at time.Time) int32 { return int32(at.Hour()%2)*math.MaxInt32 - 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, r := settings(time.UTC), &forecast.Ring{}
			s.Season = c.season
			fill(r, start, start.AddDate(0, 0, 30), s, c.need)
			b := r.Append(nil)
			t.Logf("%d bytes", len(b))
			if len(b) > c.most {
				t.Errorf("%d bytes, want at most %d", len(b), c.most)
			}
			back, err := forecast.Decode(b)
			fatal.If(t, err)
			if string(back.Append(nil)) != string(b) {
				t.Error("another ring came back")
			}
			at := start.AddDate(0, 0, 30)
			if x, y := back.Outlook(s, forecast.BucketOf(at)), r.Outlook(s, forecast.BucketOf(at)); x != y {
				t.Errorf("another outlook: %+v, want %+v", x, y)
			}
		})
	}
}

// FuzzDecode is that no bytes panic, take much memory, or come back as another ring than they were read as.
func FuzzDecode(f *testing.F) {
	s, r := settings(time.UTC), &forecast.Ring{}
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	fill(r, start, start.AddDate(0, 0, 15), s, func(at time.Time) int32 { return int32(at.Hour()/3*7 - 1) })
	f.Add(r.Append(nil))
	for i, targets := range []int64{60, 50, 40} {
		of := &forecast.Basis{Shape: 7, Targets: []int64{targets}}
		r.Add(forecast.Closed{Bucket: forecast.BucketOf(start.AddDate(0, 0, 15)) + 2*int64(i), Replicas: 4, Of: of.Hash()}, of, s.Season)
	}
	f.Add(r.Append(nil))
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0})
	f.Add(binary.AppendUvarint([]byte{1, 1, 2, 3, 4, 1, 60, 5, 0}, math.MaxUint64))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := forecast.Decode(b)
		if err != nil {
			return
		}
		again, err := forecast.Decode(r.Append(nil))
		if err != nil || string(again.Append(nil)) != string(r.Append(nil)) {
			t.Fatalf("another ring: %v", err)
		}
		for _, season := range []forecast.Season{forecast.Daily, forecast.Weekly} {
			s := settings(time.UTC)
			s.Season = season
			for _, at := range []time.Time{start, start.AddDate(0, 0, 15), {}} {
				o := r.Outlook(s, forecast.BucketOf(at))
				_, _ = o.At(s, at)
			}
			r.Add(forecast.Closed{Bucket: 5, Replicas: 3, Of: cpu.Hash()}, cpu, season)
			add(r, start, 9, s)
			if len(r.Append(nil)) > forecast.MaxBytes {
				t.Fatal("grows")
			}
		}
	})
}
