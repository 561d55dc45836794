// Package testlength says how long tests are. FULL=1, which make nightly sets, has all of them go
// through all that they can; without it some are shorter, and say so by a skipped test or a line in
// the log, with how to have the rest: FULL=1.
//
// Most of these are shorter only in the race detector's run: what proves no more with it, and takes
// some ten times as long. That is arithmetic of one goroutine over thousands of cases, and longer
// runs of what other tests run, too. make test runs it whole, without the detector, in each CI.
package testlength

import (
	"os"
	"testing"
)

// Full says whether everything is to run at full length: FULL=1.
func Full() bool { return os.Getenv("FULL") != "" }

// leavesOut says whether tests are to be shorter.
func leavesOut() bool { return RaceDetector && !Full() }

// SkipUnderRace leaves a test out of the race detector's run. What of its goroutines may race has to
// run in other tests.
func SkipUnderRace(tb testing.TB) {
	tb.Helper()
	if leavesOut() {
		tb.Skip("proves no more with the race detector: make test runs it without, FULL=1 with it")
	}
}

// FirstUnderRace returns those of all cases that a test goes through: all of them, or in the race
// detector's run the first n.
func FirstUnderRace[E any](tb testing.TB, n int, all []E) []E {
	tb.Helper()
	if !leavesOut() || n >= len(all) {
		return all
	}
	tb.Logf("the first %d of %d cases, for more prove no more with the race detector: make test runs all without, FULL=1 with it", n, len(all))
	return all[:n]
}
