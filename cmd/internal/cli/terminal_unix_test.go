//go:build unix

package cli_test

import (
	"os"
	"testing"

	"golang.org/x/term"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
)

// A terminal that knows no colors, or whose owner wants none, gets none.
func TestColorsAreForTerminalsThatHaveThem(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil || !term.IsTerminal(int(terminal.Fd())) {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI has no terminal: %v", err)
		}
		t.Skipf("no terminal here: %v", err)
	}
	defer func() { _ = terminal.Close() }()
	for _, tt := range []struct {
		term, none string
		want       bool
	}{{"xterm", "", true}, {"xterm", "1", false}, {"dumb", "", false}} {
		t.Setenv("TERM", tt.term)
		t.Setenv("NO_COLOR", tt.none)
		if got := cli.Terminal(terminal).Color; got != tt.want {
			t.Errorf("TERM=%s NO_COLOR=%s: colors %t", tt.term, tt.none, got)
		}
	}
}
