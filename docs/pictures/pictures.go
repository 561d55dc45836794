// Package pictures draws the pictures of the documentation from the program's output:
// explanations as on a terminal, and simulations as drawn by `setpoint simulate -o svg`. The
// command docs/pictures/draw writes them (make drawings); a test of cmd/setpoint draws them
// again and compares.
package pictures

import (
	"fmt"
	"strings"
)

// Folder is where the pictures lie, below the root of the repository.
const Folder = "docs/images"

// A Runner runs setpoint with arguments in a folder, named from the root of the repository,
// and returns its standard output.
type Runner func(folder string, args ...string) (string, error)

// picture is one file of docs/images, and the command whose output it shows.
type picture struct {
	file string
	args []string
	// from and until are the first words of the first line that a picture of text shows, and of
	// the first one that it no longer does; empty means the output's ends. A simulation's picture
	// is its own.
	from, until string
}

// scenarios has the inputs. Simulations run there, so that short names stand in their pictures.
const scenarios = "docs/concepts/scenarios/"

func simulation(file string, args ...string) picture {
	return picture{file: file, args: append([]string{"simulate", "-o", "svg", "-f"}, args...)}
}

var pictures = []picture{
	{file: "explanation.svg", args: []string{"recommend", "-f", scenarios + "decision.yaml"}, until: "Conditions"},
	{file: "missing-pods-up.svg", args: []string{"recommend", "-f", scenarios + "decision.yaml"}, from: "Metrics:", until: "  Usage in"},
	{file: "missing-pods-down.svg", args: []string{"recommend", "-f", scenarios + "missing-pods-down.yaml"}, from: "Metrics:", until: "  Usage in"},
	{file: "stages.svg", args: []string{"recommend", "-f", scenarios + "stages.yaml"}, until: "Metrics:"},
	simulation("overrides.svg", "overrides.yaml", "overrides-spec.yaml"),
	simulation("schedules.svg", "schedules-day.yaml", "--compare", "schedules-spec.yaml", "schedules-without.yaml"),
	simulation("failures.svg", "failures.yaml", "--compare", "failures-without.yaml", "failures-guards.yaml"),
	simulation("fleets.svg", "fleets-shift.yaml", "fleets-spec.yaml"),
	simulation("windows.svg", "windows.yaml", "--compare", "windows-300s.yaml", "windows-0s.yaml"),
	simulation("policies.svg", "policies.yaml", "--compare", "policies-default.yaml", "policies-slow.yaml"),
	simulation("tolerance.svg", "tolerance.yaml", "--compare", "tolerance-default.yaml", "tolerance-2percent.yaml"),
	simulation("missing-pods.svg", "missing-pods.yaml", "missing-pods-spec.yaml"),
	simulation("zero.svg", "zero.yaml", "--profile=v1.37", "zero-spec.yaml"),
}

// Draw makes all pictures, by the names of their files.
func Draw(run Runner) (map[string]string, error) {
	drawn := map[string]string{}
	for _, p := range pictures {
		folder := "."
		if p.args[0] == "simulate" {
			folder = scenarios
		}
		out, err := run(folder, p.args...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.file, err)
		}
		if p.args[0] != "simulate" {
			lines, err := part(out, p.from, p.until)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.file, err)
			}
			out = terminal("setpoint "+strings.Join(p.args, " "), lines)
		}
		drawn[p.file] = out
	}
	return drawn, nil
}

// part is the lines of text from the one that begins with from up to the one before that which
// begins with until.
func part(text, from, until string) ([]string, error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if from != "" {
		i := first(lines, from)
		if i < 0 {
			return nil, fmt.Errorf("no line begins with %q", from)
		}
		lines = lines[i:]
	}
	if until != "" {
		i := first(lines, until)
		if i < 0 {
			return nil, fmt.Errorf("no line begins with %q", until)
		}
		lines = lines[:i]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines, nil
}

func first(lines []string, prefix string) int {
	for i, line := range lines {
		if strings.HasPrefix(line, prefix) {
			return i
		}
	}
	return -1
}
