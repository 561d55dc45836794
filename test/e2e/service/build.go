//go:build linux

package service

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// Program returns a path to setpoint, built from the working tree, which works for as long as
// this process lives.
func Program() (string, error) { return process.Build("setpoint", race()) }

// Kubernetes returns a path to setpoint-kubernetes in the same way.
func Kubernetes() (string, error) { return process.Build("setpoint-kubernetes", race()) }

// Swarm returns a path to setpoint-swarm in the same way.
func Swarm() (string, error) { return process.Build("setpoint-swarm", race()) }

// Previous returns the folder with the version before the working tree's: setpoint,
// setpoint-kubernetes and the Helm chart, chart. scripts/previous.sh selects that version, and
// builds it if necessary. If that is impossible, for example without the repository's history,
// the test is skipped, or fails in CI.
func Previous(t testing.TB) string {
	t.Helper()
	root, err := process.Repository()
	fatal.If(t, err)
	output, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts", "previous.sh")).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		kit.Cannot(t, "scripts/previous.sh: "+strings.TrimSpace(string(failed.Stderr)))
	}
	fatal.If(t, err)
	return strings.TrimSpace(string(output))
}

func race() bool { return os.Getenv("SETPOINT_E2E_RACE") != "" }
