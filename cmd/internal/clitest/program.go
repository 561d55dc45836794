package clitest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// AsProgram is the variable that makes a test's program run as the program that it tests.
const AsProgram = "SETPOINT_TEST_MAIN"

// Main is a TestMain; program runs with AsProgram.
func Main(m *testing.M, program func()) {
	if os.Getenv(AsProgram) != "" {
		program()
	}
	os.Exit(m.Run())
}

// Setpoint copies the test's program to a folder as setpoint.
func Setpoint(t *testing.T, folder string) string {
	t.Helper()
	self, err := os.Executable()
	fatal.If(t, err)
	program := filepath.Join(folder, "setpoint")
	if err := os.Link(self, program); err == nil {
		return program
	}
	text, err := os.ReadFile(self)
	fatal.If(t, err)
	fatal.If(t, os.WriteFile(program, text, 0o700))
	return program
}
