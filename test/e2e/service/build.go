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
func Program() (string, error) { return built() }

// built returns a path to the service's program, for as long as this process lives.
// The file has no name any more, so that nothing needs to be removed: the path is
// that of a file which this process keeps open.
var built = sync.OnceValues(build)

// program keeps the file open.
var program *os.File

func build() (path string, err error) {
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
	cmd := exec.Command("go", append(args, "./cmd/setpoint")...)
	cmd.Dir = strings.TrimSpace(string(root))
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(cmd.Args[1:], " "), err, bytes.TrimSpace(output))
	}
	if program, err = os.Open(file.Name()); err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), program.Fd()), nil
}
