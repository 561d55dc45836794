package limit

import (
	"testing"
	"time"
)

// The limit follows the wait of calls: down by a fifth where they wait too long, up by an eighth where they wait less
// than they may, twice as high where they hardly wait; up only if calls were refused.
func TestTheLimitFollowsTheWait(t *testing.T) {
	const target = 1000 // ns
	for _, tt := range []struct {
		what    string
		mayRun  int64
		wait    float64
		refused bool
		want    int64
		stale   bool
	}{
		{"far too long", 100, 10 * target, true, 80, true},
		{"too long, even if none is refused", 100, 1.26 * target, false, 80, true},
		{"a little too long", 100, 1.25 * target, true, 100, false},
		{"as long as they may", 100, target, true, 100, false},
		{"less", 100, .99 * target, true, 112, false},
		{"less, of few", 4, .99 * target, true, 5, false},
		{"less, and none is refused", 100, .99 * target, false, 100, false},
		{"a quarter", 100, target / 4, true, 112, false},
		{"hardly", 100, target/4 - 1, true, 200, false},
		{"hardly, and none is refused", 100, target/4 - 1, false, 100, false},
		{"never below the minimum", 3, 10 * target, true, 3, true},
		{"never above all that may run", 900, 0, true, 1000, false},
	} {
		s := &shedder{options: &Options{InFlight: 1000}, peak: 1e12}
		s.options.Shedding.Processors, s.options.Shedding.TargetWait, s.options.Shedding.MinRunning = 1, target*time.Nanosecond, 3
		s.mayRun.Store(tt.mayRun)
		s.correct(measured{wait: tt.wait, refused: tt.refused})
		if got := s.mayRun.Load(); got != tt.want || s.stale != tt.stale {
			t.Errorf("%s: %d may run, stale %v; want %d, %v", tt.what, got, s.stale, tt.want, tt.stale)
		}
	}
}

// Overload is some windows in a row in which calls waited too long, unless fewer and fewer run.
func TestOverloadIsSeveralWindowsInARow(t *testing.T) {
	const target = 1000 // ns
	s := &shedder{options: &Options{InFlight: 1000}, peak: 1e12}
	s.options.Shedding.Processors, s.options.Shedding.TargetWait = 1, target*time.Nanosecond
	over := func(wait, running, before float64) bool {
		s.lastRunning = before
		return s.isOverloaded(measured{wait: wait, running: running})
	}
	const long = overloadFactor*target + 1
	for _, breaks := range []struct {
		what                  string
		wait, running, before float64
	}{
		{"calls that waited just as long as is no overload", long - 1, 100, 100},
		{"a burst that is worked off", long, 96, 100},
	} {
		s.overloaded = 0
		for range overloadedWindows - 1 {
			if over(long, 97, 100) {
				t.Fatal("too early")
			}
		}
		if over(breaks.wait, breaks.running, breaks.before) {
			t.Errorf("overload in spite of %s", breaks.what)
		}
		for i := range overloadedWindows {
			if got := over(long, 97, 100); got != (i == overloadedWindows-1) {
				t.Errorf("after %s, window %d: overload is %v", breaks.what, i, got)
			}
		}
	}
}

// Overload is over once nothing was refused, or hardly anything of no more calls than can be served, for a while.
func TestOverloadIsOverAfterAWhile(t *testing.T) {
	const peak = 1000
	for _, tt := range []struct {
		what              string
		refused           bool
		offered, refusing float64
		quiet             bool
	}{
		{"nothing refused", false, 10 * peak, 1, true},
		{"a little refused, of few", true, fits * peak, seldom, true},
		{"a little refused, of many", true, fits*peak + 1, seldom, false},
		{"much refused, of few", true, fits * peak, seldom + .01, false},
	} {
		s := &shedder{options: &Options{}, peak: peak, offered: tt.offered, refusing: tt.refusing, began: 7}
		if s.isOver(7, measured{refused: tt.refused}) {
			t.Errorf("%s: over at once", tt.what)
		}
		if s.isOver(6+int64(quietTime), measured{refused: tt.refused}) {
			t.Errorf("%s: over too early", tt.what)
		}
		if got := s.isOver(7+int64(quietTime), measured{refused: tt.refused}); got != tt.quiet {
			t.Errorf("%s: over after a while is %v", tt.what, got)
		}
	}
}
