package main

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// docs/reference/commands.md has a row for each command that people call.
func TestEveryCommandIsDocumented(t *testing.T) {
	t.Parallel()
	page := testpages.Read(t, "../../docs/reference/commands.md")
	for _, command := range newRoot().Commands() {
		if command.Hidden || command.Name() == "help" {
			continue
		}
		row := "| `setpoint " + command.Name()
		if text := page; !strings.Contains(text, row+"`") && !strings.Contains(text, row+" ") {
			t.Errorf("docs/reference/commands.md lacks `setpoint %s`", command.Name())
		}
	}
}
