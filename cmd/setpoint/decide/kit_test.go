package decide

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
)

// newRoot is a program of this package's commands only.
func newRoot() *cobra.Command {
	return cli.Root(&cobra.Command{Use: "setpoint"}, Commands()...)
}

// run runs the command as main does.
func run(t *testing.T, stdin string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, newRoot(), stdin, args...)
}
