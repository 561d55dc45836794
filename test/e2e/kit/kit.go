// Package kit has what tests of whole processes have in common: see also service, which runs
// setpoint serve, and internal/process, which runs any program.
package kit

import (
	"testing"
	"time"
)

// Must fails the test for an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually calls f until it returns nil, and returns how long that took. The test ends with f's
// last error if it takes longer than the bound.
func Eventually(t testing.TB, bound time.Duration, what string, f func() error) time.Duration {
	t.Helper()
	for began := time.Now(); ; {
		err := f()
		waited := time.Since(began)
		switch {
		case err == nil:
			return waited
		case waited > bound:
			t.Fatalf("%s: not within %v: %v", what, bound, err)
		}
		time.Sleep(max(2*time.Millisecond, min(waited/20, 50*time.Millisecond)))
	}
}
