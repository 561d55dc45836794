//go:build linux

package kubetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// programs is the folder of a cluster's programs: etcd, kube-apiserver,
// kube-controller-manager and kubectl.
type programs string

// findPrograms has them built where they are missing.
var findPrograms = sync.OnceValues(func() (programs, error) {
	root, err := process.Repository()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(root, "scripts", "control-plane.sh"))
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("scripts/control-plane.sh: %w", err)
	}
	return programs(strings.TrimSpace(string(output))), nil
})

func (p programs) path(name string) string { return filepath.Join(string(p), name) }

// Require skips the test if a cluster's programs can't be had here. Where CI is set
// it fails.
func Require(t testing.TB) {
	t.Helper()
	if _, err := findPrograms(); err != nil {
		kit.Cannot(t, err.Error())
	}
}

// ControllerManagerHelp returns the controller manager's help on flags, one a line. Without the
// program the test is skipped, as by Require.
func ControllerManagerHelp(t testing.TB) string {
	t.Helper()
	Require(t)
	found, err := findPrograms()
	fatal.If(t, err)
	cmd := exec.Command(found.path("kube-controller-manager"), "--help")
	help, err := cmd.Output()
	fatal.If(t, err)
	return string(help)
}
