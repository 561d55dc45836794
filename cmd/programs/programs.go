// Package programs lists the programs of the main module that are built, released and packaged.
// Scripts read the file itself. setpoint-external-metrics is a module of its own, and is named
// where it matters.
package programs

import (
	_ "embed"
	"strings"
)

//go:embed programs.txt
var list string

// Names are the programs' names, sorted: those of their folders in cmd.
func Names() (names []string) {
	for line := range strings.Lines(list) {
		name, _, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	return names
}

// Platforms are the platforms with an agent, and what it does. Each agent is a program of its own,
// setpoint-PLATFORM, so that the libraries of unused platforms are neither built nor run.
func Platforms() map[string]string {
	platforms := map[string]string{}
	for line := range strings.Lines(list) {
		name, about, _ := strings.Cut(strings.TrimSpace(line), " ")
		if platform, ok := strings.CutPrefix(name, "setpoint-"); ok {
			platforms[platform] = strings.TrimSpace(about)
		}
	}
	return platforms
}
