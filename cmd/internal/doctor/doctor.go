// Package doctor runs an agent's preflight checks and prints, for each, what it found and what to
// do about it.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

// Level is how good a finding is.
type Level string

// The levels. Only a problem makes the command fail.
const (
	OK      Level = "ok"
	Note    Level = "note"    // works, or can't be judged; worth a look
	Skipped Level = "skipped" // not looked at, because of another problem
	Problem Level = "PROBLEM" // the agent will not work as set up
)

// Finding is one result of a check.
type Finding struct {
	Level Level
	// Text is what was found, with names, numbers and the error.
	Text string
	// Remedy is what to do. Empty: nothing.
	Remedy string
}

// Good returns a finding that is all right.
func Good(format string, args ...any) []Finding {
	return []Finding{{Level: OK, Text: fmt.Sprintf(format, args...)}}
}

// Bad returns a problem.
func Bad(remedy, format string, args ...any) []Finding {
	return []Finding{{Level: Problem, Text: fmt.Sprintf(format, args...), Remedy: remedy}}
}

// Notice returns a note.
func Notice(remedy, format string, args ...any) []Finding {
	return []Finding{{Level: Note, Text: fmt.Sprintf(format, args...), Remedy: remedy}}
}

// Check is one check.
type Check struct {
	// Name is a word or two, for example "clock".
	Name string
	// After names a check that must have found no problem, else this one is skipped.
	After string
	// Run looks, until the context ends. It changes nothing. No findings: there was nothing to
	// check.
	Run func(ctx context.Context) []Finding
}

// Run runs the checks one after the other, each for at most timeout, and prints their findings
// as they come. The error is cli.ErrQuiet if there was a problem: the output has said all.
func Run(ctx context.Context, w io.Writer, timeout time.Duration, checks []Check) error {
	failed, problems := map[string]bool{}, 0
	for _, check := range checks {
		findings := []Finding{{Level: Skipped, Text: "not checked, because of the problem with: " + check.After}}
		if failed[check.After] {
			failed[check.Name] = true
		} else {
			within, cancel := context.WithTimeout(ctx, timeout)
			findings = check.Run(within)
			cancel()
		}
		for _, f := range findings {
			if f.Level == Problem {
				failed[check.Name] = true
				problems++
			}
			if err := f.write(w, check.Name); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	switch problems {
	case 0:
		_, err := fmt.Fprintln(w, "no problem found")
		return err
	case 1:
		fmt.Fprintln(w, "1 problem found")
	default:
		fmt.Fprintf(w, "%d problems found\n", problems)
	}
	return cli.ErrQuiet
}

// write writes a finding: level, name and text in columns, and the remedy below the text.
func (f *Finding) write(w io.Writer, name string) error {
	line := fmt.Sprintf("%-8s %-12s %s\n", f.Level, name, printable.Text(f.Text))
	if f.Remedy != "" {
		line += strings.Repeat(" ", 22) + "→ " + f.Remedy + "\n"
	}
	_, err := io.WriteString(w, line)
	return err
}
