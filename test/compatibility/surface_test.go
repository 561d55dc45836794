package compatibility

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/programs"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

const repository = "../.."

// what is done about a line that is gone.
const advice = "users' scripts, dashboards and files name it. Keep it, deprecated, at least until the next major release (docs/reference/compatibility.md); " +
	"if it was in no release yet, run go test ./test/compatibility -update and review what goes"

// listed compares a release's list with the current one: no line may be missing; new ones are
// fine.
func listed(t *testing.T, file string, today []string, stillWorks func(line string) bool) {
	t.Helper()
	if *update {
		fatal.If(t, os.WriteFile(file, []byte(strings.Join(today, "\n")+"\n"), 0o644))
	}
	raw := testpages.Read(t, file)
	lines := strings.Split(strings.TrimSpace(raw), "\n")
	if len(lines) < 10 || len(today) < 10 {
		t.Fatalf("%s has %d lines, today's list %d: one of them is no list", file, len(lines), len(today))
	}
	for _, line := range lines {
		if !slices.Contains(today, line) && !stillWorks(line) {
			t.Errorf("%q of the last release is gone: %s", line, advice)
		}
	}
}

var (
	manualCommand = regexp.MustCompile(`(?m)^\.SH SYNOPSIS\n\.B (.*)`)
	word          = regexp.MustCompile(`^[a-z][a-z-]*$`)
	manualFlag    = regexp.MustCompile(`(?m)^\.TP\n\.B (?:\\-[A-Za-z], )?(\\-\\-[a-z0-9\\-]+)`)
)

// commandsAndFlags reads the programs' manuals: a line for each command, and one for each of its
// flags.
func commandsAndFlags(t *testing.T, bin string) []string {
	t.Helper()
	var lines []string
	for _, program := range programs.Names() {
		folder := t.TempDir()
		run(t, filepath.Join(bin, program), "man", folder)
		pages, err := filepath.Glob(folder + "/*.1")
		fatal.If(t, err)
		for _, page := range pages {
			raw := testpages.Read(t, page)
			text := raw
			match := manualCommand.FindStringSubmatch(text)
			if match == nil {
				t.Fatalf("%s has no synopsis", page)
			}
			// The words before flags and arguments, which are not in lower case.
			words := strings.Fields(strings.ReplaceAll(match[1], `\-`, "-"))
			if i := slices.IndexFunc(words, func(w string) bool { return !word.MatchString(w) }); i >= 0 {
				words = words[:i]
			}
			command := strings.Join(words, " ")
			lines = append(lines, command)
			for _, flag := range manualFlag.FindAllStringSubmatch(text, -1) {
				lines = append(lines, command+" "+strings.ReplaceAll(flag[1], `\-`, "-"))
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, output)
	}
	return string(output)
}

// Commands and flags of the last release are there, or hidden as deprecated, and taken.
func TestCommandsAndFlagsOfTheLastReleaseAreTaken(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	seeSources(t)
	// Without the race detector and cgo, whatever this test has: others have compiled that already.
	run(t, repository+"/scripts/build.sh", append([]string{bin}, programs.Names()...)...)
	listed(t, "testdata/flags.txt", commandsAndFlags(t, bin), func(line string) bool {
		command, flag, isFlag := strings.Cut(line, " --")
		args := strings.Fields(command)
		if isFlag {
			args = append(args, "--"+flag+"=")
		}
		output, _ := exec.CommandContext(t.Context(), filepath.Join(bin, args[0]), append(args[1:], "--help")...).CombinedOutput()
		return !bytes.Contains(output, []byte("unknown flag")) && !bytes.Contains(output, []byte("unknown command")) &&
			bytes.Contains(output, []byte(strings.TrimPrefix(command, "setpoint "))) // and not the help of what is above it
	})
}

// seeSources reads the files that define flags, which otherwise only other processes read, so
// that go test does not reuse a result from before they changed.
func seeSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(repository+"/cmd", func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.Stat(path)
		}
		return err
	})
	fatal.If(t, err)
}

var metricRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([a-z]+) \\| ([^|]*) \\|")

// Metrics keep their names, types and labels, because dashboards and alerts name them. The
// pages are generated from the programs, and the programs' tests keep them up to date.
func TestMetricsOfTheLastReleaseAreThere(t *testing.T) {
	t.Parallel()
	var today []string
	for _, page := range []string{"metrics.md", "metrics-agents.md", "swarm.md", "nomad.md"} {
		raw := testpages.Read(t, filepath.Join(repository, "docs", "reference", page))
		for _, row := range metricRow.FindAllStringSubmatch(raw, -1) {
			of := strings.TrimSuffix(page, ".md")
			if (of == "swarm" || of == "nomad") && !strings.HasPrefix(row[1], "setpoint_") {
				continue // a key, not a metric
			}
			today = append(today, fmt.Sprintf("%s %s %s", of, row[1], row[2]))
			for _, label := range regexp.MustCompile("(?:^|; )`([a-z_]+)`").FindAllStringSubmatch(row[3], -1) {
				today = append(today, fmt.Sprintf("%s %s{%s}", of, row[1], label[1]))
			}
		}
	}
	slices.Sort(today)
	listed(t, "testdata/metrics.txt", slices.Compact(today), func(string) bool { return false })
}
