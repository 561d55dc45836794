// Package clitest runs commands in tests as programs do.
package clitest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Result is the result of a command.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Run runs a program's command.
func Run(t *testing.T, root *cobra.Command, stdin string, args ...string) Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err := cli.Execute(t.Context(), root)
	if message := cli.Failure(err); message != "" {
		stderr.WriteString(message + "\n")
	}
	return Result{stdout.String(), stderr.String(), cli.ExitCode(err)}
}

// File writes a file of the test's and returns its path.
func File(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
