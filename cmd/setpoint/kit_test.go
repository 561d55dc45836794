package main

import (
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
)

// run runs the command as main does.
func run(t *testing.T, stdin string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, newRoot(), stdin, args...)
}
