// The command draw writes the pictures of the documentation. Its argument is the root of the
// repository: go run ./docs/pictures/draw .
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/setpoint-dev/setpoint/docs/pictures"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: draw ROOT")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

// write compiles the command, and draws all pictures below root.
func write(root string) error {
	folder, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	program := filepath.Join(folder, "setpoint")
	if _, err := output(root, "go", "build", "-o", program, "./cmd/setpoint"); err != nil {
		return err
	}
	drawn, err := pictures.Draw(func(folder string, args ...string) (string, error) {
		return output(filepath.Join(root, folder), program, args...)
	})
	if err != nil {
		return err
	}
	for name, content := range drawn {
		if err := os.WriteFile(filepath.Join(root, pictures.Folder, name), []byte(content), 0o644); err != nil { //nolint:gosec // a picture, for everybody
			return err
		}
	}
	return nil
}

func output(folder, name string, args ...string) (string, error) {
	command := exec.Command(name, args...) //nolint:gosec // go, and what it built
	command.Dir = folder
	out, err := command.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return string(out), err
}
