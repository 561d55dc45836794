//go:build linux

package service

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// Program returns a path to setpoint, built from the working tree once for each test
// binary. It works for as long as this process lives.
func Program() (string, error) { return setpoint() }

// Kubernetes returns a path to setpoint-kubernetes in the same way.
func Kubernetes() (string, error) { return kubernetes() }

var (
	setpoint   = sync.OnceValues(func() (string, error) { return build("setpoint") })
	kubernetes = sync.OnceValues(func() (string, error) { return build("setpoint-kubernetes") })
)

// programs keeps the files open that were built. They have no names any more, so that
// nothing needs to be removed: a path is that of a file which this process keeps open.
var programs sync.Map

func build(name string) (path string, err error) {
	// The directory of the module that this one replaces: the repository.
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/setpoint-dev/setpoint").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	file, err := os.CreateTemp("", "setpoint-e2e-")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	if err := file.Close(); err != nil {
		return "", err
	}
	args := []string{"build", "-tags=grpcnotrace", "-o", file.Name()}
	if os.Getenv("SETPOINT_E2E_RACE") != "" {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/"+name)...)
	cmd.Dir = strings.TrimSpace(string(root))
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(cmd.Args[1:], " "), err, bytes.TrimSpace(output))
	}
	program, err := os.Open(file.Name())
	if err != nil {
		return "", err
	}
	programs.Store(name, program)
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), program.Fd()), nil
}
