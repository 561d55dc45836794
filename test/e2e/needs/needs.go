// Package needs skips tests that take what is not there, or fails them in CI, where all of it
// is: a check that was left out must not look passed.
package needs

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Cannot skips a test, or fails it in CI.
func Cannot(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s (fails instead of being skipped because CI is set)", why)
	}
	t.Skip("NOT CHECKED: " + why)
}

// Docker needs root, and the programs.
func Docker(t testing.TB, programs ...string) {
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
