package promises

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is the tested part of a GitHub Actions workflow.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Needs          string
		TimeoutMinutes int `json:"timeout-minutes"`
		Strategy       struct {
			Matrix struct {
				Target, Step []string
				Include      []struct{ Target string }
			}
		}
		Steps []action
	}
	// Of a composite action.
	Runs struct{ Steps []action }
}

type action struct{ Uses, Run string }

// workflows reads .github by the files' paths.
func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	const root = root + "/.github/"
	var paths []string
	for _, pattern := range []string{"workflows/*.yml", "actions/*/action.yml"} {
		found, err := filepath.Glob(root + pattern)
		if err != nil || found == nil {
			t.Fatalf("no %s: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	out := map[string]workflow{}
	for _, path := range paths {
		var w workflow
		if err := yaml.Unmarshal([]byte(read(t, path)), &w); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out[strings.TrimPrefix(path, root)] = w
	}
	return out
}

// commands are the commands of a workflow, with each value of its matrix.
func (w workflow) commands() (out []string) {
	for _, job := range w.Jobs {
		targets := slices.Clone(job.Strategy.Matrix.Target)
		for _, include := range job.Strategy.Matrix.Include {
			targets = append(targets, include.Target)
		}
		for _, step := range job.Steps {
			switch {
			case strings.Contains(step.Run, "${{ matrix.target }}"):
				for _, target := range targets {
					out = append(out, strings.ReplaceAll(step.Run, "${{ matrix.target }}", target))
				}
			case strings.Contains(step.Run, "${{ matrix.step }}"):
				for _, one := range job.Strategy.Matrix.Step {
					out = append(out, strings.ReplaceAll(step.Run, "${{ matrix.step }}", one))
				}
			default:
				out = append(out, step.Run)
			}
		}
	}
	return out
}

var (
	// made matches the targets and variables of make in a command.
	made = regexp.MustCompile(`\bmake ([^;|>&\n'"]+)`)
	// quotedSteps are the steps of make nightly.
	quotedSteps = regexp.MustCompile(`STEPS='([^']*)'`)
	// scriptPattern matches a script of the repository's.
	scriptPattern = regexp.MustCompile(`(?:^|[\s"])((?:scripts|\.ci)/[a-z0-9-]+(?:\.sh)?)\b`)
	// pinned matches an action pinned to a commit, with its version.
	pinned = regexp.MustCompile(`(?m)uses: ([A-Za-z0-9/-]+)@(\S+)(.*)$`)
)

// CI uses existing targets, steps and scripts; otherwise a run would fail long after the change
// that removed them.
func TestCIAsksForWhatIsThere(t *testing.T) {
	t.Parallel()
	makefile, nightly := read(t, "../../Makefile"), read(t, "../../scripts/nightly.sh")
	var commands []string
	for path, w := range workflows(t) {
		for _, command := range w.commands() {
			if strings.Contains(command, "${{ matrix") {
				t.Errorf("%s: %q has a value of the matrix that this test doesn't know", path, command)
			}
			commands = append(commands, command)
		}
	}
	commands = append(commands, read(t, "../../.ci/run"), read(t, "../../scripts/nightly.sh"))
	targets, steps := 0, 0
	for _, command := range commands {
		for _, match := range quotedSteps.FindAllStringSubmatch(command, -1) {
			for name := range strings.FieldsSeq(match[1]) {
				steps++
				if !strings.Contains(nightly, "\nstep "+name+" ") {
					t.Errorf("CI asks for the nightly step %s, which is not there", name)
				}
			}
		}
		for _, match := range made.FindAllStringSubmatch(quotedSteps.ReplaceAllString(command, ""), -1) {
			for word := range strings.FieldsSeq(match[1]) {
				if !targetPattern.MatchString(word) {
					break // a variable, or the end of the command
				}
				targets++
				if !strings.Contains(makefile, "\n.PHONY: "+word+"\n") {
					t.Errorf("CI makes %s, which the Makefile doesn't have", word)
				}
			}
		}
		for _, match := range scriptPattern.FindAllStringSubmatch(command, -1) {
			if _, err := os.Stat(filepath.Join("../..", match[1])); err != nil {
				t.Errorf("CI runs %s: %v", match[1], err)
			}
		}
	}
	if targets < 40 || steps < 15 {
		t.Errorf("only %d targets and %d steps were found", targets, steps)
	}
}

var targetPattern = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)

// The nightly run has each of its steps in some job.
func TestEachNightlyStepHasAJob(t *testing.T) {
	t.Parallel()
	asked := strings.Join(workflows(t)["workflows/nightly.yml"].Jobs["nightly"].Strategy.Matrix.Step, " ")
	for line := range strings.Lines(read(t, "../../scripts/nightly.sh")) {
		if rest, ok := strings.CutPrefix(line, "step "); ok {
			name, _, _ := strings.Cut(rest, " ")
			if !slices.Contains(strings.Fields(asked), name) {
				t.Errorf("no job of nightly.yml runs %s", name)
			}
		}
	}
}

// External actions are pinned to a commit, with their version in a comment, the same one
// everywhere. Jobs have timeouts, and no write permission unless declared.
func TestWorkflowsArePinnedAndBounded(t *testing.T) {
	t.Parallel()
	commit := regexp.MustCompile(`^[0-9a-f]{40}$`)
	version := regexp.MustCompile(`^ # v[0-9]+\.[0-9]+\.[0-9]+$`)
	pins := map[string]string{}
	for path, w := range workflows(t) {
		for _, match := range pinned.FindAllStringSubmatch(read(t, "../../.github/"+path), -1) {
			name, at, comment := match[1], match[2], match[3]
			if !commit.MatchString(at) || !version.MatchString(comment) {
				t.Errorf("%s: %s@%s%s: want a commit, and its version as a comment", path, name, at, comment)
			}
			if pins[name] != "" && pins[name] != at+comment {
				t.Errorf("%s is pinned to %s and to %s", name, pins[name], at+comment)
			}
			pins[name] = at + comment
		}
		for name, job := range w.Jobs {
			if job.TimeoutMinutes == 0 {
				t.Errorf("%s: job %s has no timeout-minutes", path, name)
			}
			if job.Needs != "" && w.Jobs[job.Needs].Steps == nil {
				t.Errorf("%s: job %s needs %s, which is not there", path, name, job.Needs)
			}
		}
		if w.Jobs != nil && w.Permissions["contents"] != "read" {
			t.Errorf("%s: its jobs may do more than read, unless they say so: permissions %v", path, w.Permissions)
		}
	}
	if len(pins) < 4 {
		t.Errorf("only %d actions were found", len(pins))
	}
}

// Owners' folders, and files that templates link to, exist.
func TestOwnersAndTemplatesNameWhatIsThere(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(read(t, "../../.github/CODEOWNERS")) {
		path, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(path, "/") {
			if _, err := os.Stat(filepath.Join("../..", path)); err != nil {
				t.Errorf("CODEOWNERS: %v", err)
			}
		}
	}
	template := read(t, "../../.github/pull_request_template.md")
	for _, match := range regexp.MustCompile("`make ([a-z-]+)`").FindAllStringSubmatch(template+read(t, "../../SECURITY.md"), -1) {
		if !strings.Contains(read(t, "../../Makefile"), "\n.PHONY: "+match[1]+"\n") {
			t.Errorf("a template, or SECURITY.md, says make %s, which is not there", match[1])
		}
	}
	for _, match := range regexp.MustCompile(`\b(docs/[a-z/-]+(?:\.md)?|[A-Z]+\.md)`).FindAllStringSubmatch(template, -1) {
		if _, err := os.Stat(filepath.Join("../..", match[1])); err != nil {
			t.Errorf("the template for pull requests: %v", err)
		}
	}
}
