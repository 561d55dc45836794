// Package needs skips tests with a missing requirement, or fails them in CI, which has all: a
// skipped check must not look like a pass.
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
