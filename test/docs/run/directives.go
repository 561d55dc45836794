package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/markdown"
)

// A step is the execution of one block of a page.
type step struct {
	line int
	// commands are the typed commands, in order; or the text goes into file.
	commands []string
	file     string
	text     string
	// notRun is why a block of commands is left out.
	notRun string
	// status is the exit status that the last command has.
	status int
	// until succeeds once the commands, which go on in the background, are ready.
	until string
	// first is run before, unseen: it makes what a reader has already.
	first string
	// endBackground stops the background commands of earlier steps.
	endBackground bool
	needs         []string
	// expected is the output of the last command, if hasOutput; notCompared is why it is not
	// compared.
	expected     string
	expectedLine int
	json         bool
	hasOutput    bool
	notCompared  string
}

var (
	shells  = []string{"sh", "bash", "shell", "console", "zsh"}
	outputs = []string{"", "text", "json"}
	kits    = []string{"service", "redis", "kubernetes", "nomad"}
)

// steps reads the steps of a page. Each mistake is an error.
func steps(page *markdown.Page) ([]step, []error) {
	var all []step
	var wrong []error
	complain := func(line int, format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("line %d: %w", line, fmt.Errorf(format, args...)))
	}
	shown := false // whether the block before is one whose output may follow
	for _, block := range page.Blocks {
		isOutput := shown && block.After && slices.Contains(outputs, block.Language)
		shown = false
		if isOutput {
			last := &all[len(all)-1]
			last.expected, last.expectedLine, last.hasOutput, last.json = block.Text, block.Line, true, block.Language == "json"
			if reason, ok := strings.CutPrefix(block.Note, "not compared:"); ok && strings.TrimSpace(reason) != "" {
				last.notCompared = strings.TrimSpace(reason)
			} else if block.Note != "" {
				complain(block.Line, "an output may be marked «not compared: REASON», not %q", block.Note)
			}
			continue
		}
		one := step{line: block.Line, text: block.Text}
		ours := slices.Contains(shells, block.Language)
		if err := one.mark(block.Note, ours); err != nil {
			complain(block.Line, "%w", err)
			continue
		}
		switch {
		case one.file != "":
			all = append(all, one)
		case ours && block.Language != "sh":
			complain(block.Line, "a block of commands is marked sh, not %s", block.Language)
		case ours:
			var err error
			if one.commands, err = split(block.Text); err != nil {
				complain(block.Line, "%w", err)
				continue
			}
			all = append(all, one)
			shown = true
		}
	}
	return all, wrong
}

// mark takes the comment before a block, a directive a line. A comment before a block that is
// not commands may be any.
func (s *step) mark(note string, commands bool) error {
	for line := range strings.Lines(strings.TrimSpace(note)) {
		directive, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch {
		case directive == "file" && value != "":
			s.file = value
		case !commands:
			continue
		case directive == "not run" && value != "":
			s.notRun = value
		case directive == "background until" && value != "":
			s.until = value
		case directive == "first" && value != "":
			s.first = strings.TrimPrefix(s.first+"\n"+value, "\n") // one after the other
		case directive == "end background" && value == "":
			s.endBackground = true
		case directive == "exit status" && value != "":
			if _, err := fmt.Sscan(value, &s.status); err != nil {
				return fmt.Errorf("exit status %q: %w", value, err)
			}
		case directive == "needs" && value != "":
			for kit := range strings.SplitSeq(value, ",") {
				kit = strings.TrimSpace(kit)
				if !slices.Contains(kits, kit) {
					return fmt.Errorf("needs %q: there are %s", kit, strings.Join(kits, ", "))
				}
				s.needs = append(s.needs, kit)
			}
		default:
			return fmt.Errorf("%q is none of «not run: REASON», «background until: COMMAND», «end background», «first: COMMAND», «exit status: N», «needs: KIT», «file: NAME»", strings.TrimSpace(line))
		}
	}
	return nil
}

// split returns the commands of a block; bash decides how many lines each has.
func split(text string) ([]string, error) {
	var commands []string
	var pending strings.Builder
	for line := range strings.Lines(text) {
		if pending.Len() == 0 && (strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#")) {
			continue
		}
		pending.WriteString(line)
		if strings.HasSuffix(strings.TrimRight(line, "\n"), `\`) {
			continue
		}
		check := exec.Command("bash", "-n")
		check.Stdin = strings.NewReader(pending.String())
		// A document that is still open is a warning only.
		if said, err := check.CombinedOutput(); err == nil && len(bytes.TrimSpace(said)) == 0 {
			commands = append(commands, pending.String())
			pending.Reset()
		}
	}
	if pending.Len() > 0 {
		return nil, fmt.Errorf("bash does not understand %q", pending.String())
	}
	return commands, nil
}
