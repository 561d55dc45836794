// Package testlength decides how long tests are. FULL=1, which make nightly sets, runs all of them
// at full length; without it some are shorter, and say so, with a hint at FULL=1, by a skipped test
// or a line in the log.
//
// Most of these are shorter only with the race detector, where they prove no more and take some ten
// times as long: arithmetic of one goroutine over thousands of cases, and longer runs of what other
// tests run, too. make test runs them entirely, without the detector, in each CI.
package testlength

import (
	"os"
	"testing"
)

// Full reports whether everything runs at full length: FULL=1.
func Full() bool { return os.Getenv("FULL") != "" }

// leavesOut reports whether tests are shorter.
func leavesOut() bool { return RaceDetector && !Full() }

// SkipUnderRace skips a test under the race detector. Other tests must run the code of its
// goroutines that may race.
func SkipUnderRace(tb testing.TB) {
	tb.Helper()
	if leavesOut() {
		tb.Skip("proves no more with the race detector: make test runs it without, FULL=1 with it")
	}
}

// FirstUnderRace returns the cases for a test: all of them, or under the race detector the first
// n.
func FirstUnderRace[E any](tb testing.TB, n int, all []E) []E {
	tb.Helper()
	if !leavesOut() || n >= len(all) {
		return all
	}
	tb.Logf("the first %d of %d cases, for more prove no more with the race detector: make test runs all without, FULL=1 with it", n, len(all))
	return all[:n]
}
