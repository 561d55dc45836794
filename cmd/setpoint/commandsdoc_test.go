package main

import (
	"os"
	"strings"
	"testing"
)

// docs/reference/commands.md has a row for each command that people call.
func TestEveryCommandIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range newRoot().Commands() {
		if command.Hidden || command.Name() == "help" {
			continue
		}
		row := "| `setpoint " + command.Name()
		if text := string(page); !strings.Contains(text, row+"`") && !strings.Contains(text, row+" ") {
			t.Errorf("docs/reference/commands.md lacks `setpoint %s`", command.Name())
		}
	}
}
