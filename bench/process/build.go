package process

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Root returns the folder of the service's module.
func Root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/setpoint-dev/setpoint").Output()
	if err != nil {
		return "", fmt.Errorf("find the service's module (run this in bench/): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Build builds the service into the folder, as make build does.
func Build(root, folder string) (string, error) {
	program := filepath.Join(folder, "setpoint")
	cmd := exec.Command(filepath.Join(root, "scripts", "build.sh"), folder)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the service: %w\n%s", err, bytes.TrimSpace(out))
	}
	return program, nil
}
