// Package kit has what tests of whole processes have in common: see also service, which runs
// setpoint serve, and internal/process, which runs any program.
package kit

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

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

// Cannot skips a test with a missing requirement, or fails it in CI, which has all: a skipped check
// must not look like a pass.
func Cannot(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s (fails instead of being skipped because CI is set)", why)
	}
	t.Skip("NOT CHECKED: " + why)
}

// NeedsDocker needs root, and the programs.
func NeedsDocker(t testing.TB, programs ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		Cannot(t, "dockerd needs root")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			Cannot(t, fmt.Sprintf("%v; run scripts/docker.sh", err))
		}
	}
}

// leftWithin is how long goroutines may take to end; goleak alone waits for less than a second.
const leftWithin = time.Minute

// RunWithoutLeaks runs the tests and returns the exit code: not 0 if they failed or leaked goroutines other
// than those in the options, also on a busy machine.
func RunWithoutLeaks(m interface{ Run() int }, options ...goleak.Option) int {
	code := m.Run()
	if code != 0 {
		return code
	}
	for began := time.Now(); ; {
		err := goleak.Find(options...)
		if err == nil {
			return 0
		}
		if time.Since(began) > leftWithin {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}
