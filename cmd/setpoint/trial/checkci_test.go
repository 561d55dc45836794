//go:build !windows

package trial

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// workspace is a Git repository of a team, with a spec, its recording and rules.
type workspace struct {
	t      *testing.T
	folder string
}

const rulesOfTeam = `recordings: [recordings/]
assume: {cpuLimit: 1, idle: {cpu: 20m}}
rules: {replicaHours: 5, changesPerHour: 60, atMaximum: 10}
`

func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	w := &workspace{t, t.TempDir()}
	w.git("init", "-q", "-b", "main")
	w.write("manifests/web.yaml", testpages.Read(t, "../../../examples/simulation/hpa.yaml"))
	w.write("recordings/web.jsonl.gz", testpages.Read(t, "../../../examples/simulation/flight.jsonl.gz"))
	w.write(".setpoint/check.yaml", rulesOfTeam)
	w.commit("the spec, and what is known of it")
	return w
}

func (w *workspace) write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.folder, name)
	fatal.If(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	fatal.If(w.t, os.WriteFile(path, []byte(content), 0o600))
}

func (w *workspace) git(args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	cmd.Dir = w.folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *workspace) commit(message string) {
	w.t.Helper()
	w.git("add", "-A")
	w.git("commit", "-q", "-m", message)
}

// branch commits a spec on a branch of main.
func (w *workspace) branch(name, spec string) {
	w.t.Helper()
	w.git("checkout", "-q", "-b", name, "main")
	w.write("manifests/web.yaml", spec)
	w.commit(name)
}

// shell runs a script as a CI system does, and returns its exit code and its output.
func (w *workspace) shell(script string, env ...string) (int, string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = w.folder, append(os.Environ(), append([]string{clitest.AsProgram + "=1"}, env...)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// requests are a pull request that fails and one that passes, on the same recording.
func requests(t *testing.T) map[string]struct {
	spec string
	code int
	says []string
} {
	own := testpages.Read(t, "../../../examples/simulation/hpa.yaml")
	return map[string]struct {
		spec string
		code int
		says []string
	}{
		"costly":  {testpages.Read(t, "../../../examples/simulation/careful.yaml"), 1, []string{"❌ setpoint check: failed", "| ❌ | `shop/web` | changed |", "(+36.7 %)", "replica-hours", "old      ▂", "new      ▃", "misses by"}},
		"cheaper": {strings.Replace(own, "averageUtilization: 60", "averageUtilization: 62", 1), 0, []string{"✅ setpoint check: passed", "`shop/web` | changed |", "(-2.7 %)", "old      ▂"}},
	}
}

// action is what a composite action is run by.
type action struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Steps []struct {
			ID, Shell, Run string
			Env            map[string]string
		}
	}
}

var expression = regexp.MustCompile(`\$\{\{ *([a-z_.]+) *\}\}`)

// TestTheActionChecksPullRequests runs the steps of the action of the repository as GitHub would, on a real
// repository: one pull request fails, one passes.
func TestTheActionChecksPullRequests(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	var act action
	fatal.If(t, yaml.UnmarshalStrict([]byte(dropped(t, "../../../deploy/check/action.yml", "name", "description", "outputs", "using")), &act))
	if len(act.Runs.Steps) != 2 {
		t.Fatalf("%d steps", len(act.Runs.Steps))
	}
	for name, request := range requests(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			base := w.git("rev-parse", "main")
			w.branch(name, request.spec)
			temp := t.TempDir()
			program := clitest.Setpoint(t, temp)
			values := map[string]string{
				"github.event.pull_request.base.sha": base, "github.action_path": "/nowhere", "runner.temp": temp,
				"inputs.program": program,
			}
			for input, is := range act.Inputs {
				if _, set := values["inputs."+input]; !set {
					values["inputs."+input] = expression.ReplaceAllStringFunc(is.Default, func(e string) string { return values[expression.FindStringSubmatch(e)[1]] })
				}
			}
			summary, code := filepath.Join(temp, "summary"), 0
			for _, step := range act.Runs.Steps {
				if step.Shell != "bash" {
					t.Fatalf("step %s has the shell %q", step.ID, step.Shell)
				}
				outputs := filepath.Join(temp, "outputs-"+step.ID)
				env := []string{"GITHUB_OUTPUT=" + outputs, "GITHUB_STEP_SUMMARY=" + summary}
				for key, text := range step.Env {
					env = append(env, key+"="+expression.ReplaceAllStringFunc(text, func(e string) string {
						value, known := values[expression.FindStringSubmatch(e)[1]]
						if !known {
							t.Fatalf("nothing sets %s", e)
						}
						return value
					}))
				}
				var out string
				if code, out = w.shell(step.Run, env...); code != 0 && step.ID != "check" {
					t.Fatalf("step %s exits with %d\n%s", step.ID, code, out)
				}
				for line := range strings.Lines(testpages.Read(t, outputs)) {
					key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
					values["steps."+step.ID+".outputs."+key] = value
				}
			}
			if code != request.code {
				t.Errorf("exit code %d, want %d", code, request.code)
			}
			says(t, testpages.Read(t, summary), request.says)
			reports(t, testpages.Read(t, values["steps.check.outputs.sarif"]), testpages.Read(t, values["steps.check.outputs.junit"]), request.code)
		})
	}
}

// TestTheActionFindsTheProgram runs its first step: the program is the named one, that of an image, or one that is
// built from the repository that the action is in.
func TestTheActionFindsTheProgram(t *testing.T) {
	t.Parallel()
	var act action
	fatal.If(t, yaml.Unmarshal([]byte(testpages.Read(t, "../../../deploy/check/action.yml")), &act))
	root, err := filepath.Abs("../../..")
	fatal.If(t, err)
	for name, tt := range map[string]struct{ program, image, want string }{
		"named": {"/opt/setpoint", "an-image", ""},
		"image": {"", "an-image", "docker create an-image\ndocker cp 123:/setpoint FOLDER/setpoint\ndocker rm 123\n"},
		"built": {"", "", "go build -C " + root + "/deploy/check/../.. -o FOLDER/setpoint ./cmd/setpoint\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, bin := &workspace{t, t.TempDir()}, t.TempDir()
			for _, program := range []string{"docker", "go"} {
				script := "#!/bin/sh\necho " + program + " \"$@\" >>\"$CALLS\"\nif [ \"$1\" = create ]; then echo 123; fi\n"
				fatal.If(t, os.WriteFile(filepath.Join(bin, program), []byte(script), 0o700))
			}
			calls, outputs := filepath.Join(w.folder, "calls"), filepath.Join(w.folder, "outputs")
			code, out := w.shell(act.Runs.Steps[0].Run, "PATH="+bin+":"+os.Getenv("PATH"), "CALLS="+calls, "GITHUB_OUTPUT="+outputs, "PROGRAM="+tt.program, "IMAGE="+tt.image,
				"ACTION="+root+"/deploy/check", "FOLDER="+w.folder)
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, out)
			}
			called, _ := os.ReadFile(calls)
			if got, want := string(called), strings.ReplaceAll(tt.want, "FOLDER", w.folder); got != want {
				t.Errorf("it calls\n%swant\n%s", got, want)
			}
			program := tt.program
			if program == "" {
				program = w.folder + "/setpoint"
			}
			if got := testpages.Read(t, outputs); got != "program="+program+"\n" {
				t.Errorf("the output is %q", got)
			}
		})
	}
	if _, err := os.Stat(root + "/deploy/check/../../cmd/setpoint/main.go"); err != nil {
		t.Error(err)
	}
}

// TestNamesAreNoCommandsOfTheRunner: the author of a pull request names files; the runner takes commands from lines.
func TestNamesAreNoCommandsOfTheRunner(t *testing.T) {
	t.Parallel()
	var act action
	fatal.If(t, yaml.Unmarshal([]byte(testpages.Read(t, "../../../deploy/check/action.yml")), &act))
	w := &workspace{t, t.TempDir()}
	w.git("init", "-q", "-b", "main")
	w.write("a", "")
	w.commit("a")
	base := w.git("rev-parse", "main")
	hpa := testpages.Read(t, "../../../examples/simulation/hpa.yaml")
	for i, name := range []string{"::error title=x::Setpoint says merge it.yaml", "::stop-commands::x.yaml", "##[add-mask]shop.yaml"} {
		w.write(name, strings.Replace(hpa, "name: web", "name: web"+string(rune('a'+i)), 1))
	}
	w.commit("evil")
	temp := t.TempDir()
	env := []string{"PROGRAM=" + clitest.Setpoint(t, temp), "BASE=" + base, "HEAD=HEAD", "RECORDINGS=", "FOLDER=" + temp, "GITHUB_OUTPUT=" + temp + "/out", "GITHUB_STEP_SUMMARY=" + temp + "/summary"}
	tokens := make(map[string]bool)
	for range 2 {
		_, out := w.shell(act.Runs.Steps[1].Run, env...)
		first, rest, _ := strings.Cut(out, "\n")
		token, stops := strings.CutPrefix(first, "::stop-commands::")
		inner, after, ends := strings.Cut(rest, "\n::"+token+"::\n")
		if !stops || !ends || len(token) < 32 || after != "" || !strings.Contains(inner, "##[add-mask]shop.yaml") {
			t.Errorf("%q", out)
		}
		tokens[token] = true
	}
	if len(tokens) != 2 {
		t.Error("the token can be guessed")
	}
}

// TestARecordingThatIsTakenAwayCounts: a change can't remove, move, replace or empty what it is judged by.
func TestARecordingThatIsTakenAwayCounts(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	for name, script := range map[string]string{
		"removed":            "echo hi >recordings/README.md; git rm -q recordings/web.jsonl.gz",
		"all removed":        "git rm -q -r recordings",
		"moved, and linked":  "mkdir o; git mv recordings/web.jsonl.gz o/w.jsonl.gz; ln -s ../o/w.jsonl.gz recordings/web.jsonl.gz",
		"cut off":            "head -c 5000 recordings/web.jsonl.gz >x; mv x recordings/web.jsonl.gz",
		"another's in place": "zcat recordings/web.jsonl.gz | sed 's/\"metadata\":{\"name\":\"web\"/\"metadata\":{\"name\":\"api\"/' | gzip >x; mv x recordings/web.jsonl.gz",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			w.branch("pr", strings.Replace(testpages.Read(t, "../../../examples/simulation/hpa.yaml"), "minReplicas: 2", "minReplicas: 40", 1))
			program := clitest.Setpoint(t, t.TempDir())
			code, out := w.shell(script + "; git add -A; git -c user.name=a -c user.email=a@example.com commit -qm x; " + program + " check --git main...pr")
			if code != 1 {
				t.Errorf("exit code %d", code)
			}
			says(t, out, []string{"recordings removed or altered by this very change, which count as they were before it: recordings/web.jsonl.gz", "at most 5 % more replica hours", "(+170.0 %)"})
		})
	}
}

// TestTheTemplateChecksMergeRequests is the same for GitLab.
func TestTheTemplateChecksMergeRequests(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	var template map[string]struct {
		Script    []string
		Variables map[string]string
	}
	fatal.If(t, yaml.Unmarshal([]byte(testpages.Read(t, "../../../deploy/check/gitlab.yml")), &template))
	job := template["setpoint-check"]
	for name, request := range requests(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			base := w.git("rev-parse", "main")
			w.branch(name, request.spec)
			bin := t.TempDir()
			clitest.Setpoint(t, bin)
			env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "CI_MERGE_REQUEST_DIFF_BASE_SHA=" + base, "CI_COMMIT_SHA=" + w.git("rev-parse", "HEAD")}
			for key, value := range job.Variables {
				env = append(env, key+"="+value)
			}
			code, out := w.shell(strings.Join(job.Script, "\n"), env...)
			if code != request.code {
				t.Errorf("exit code %d, want %d\n%s", code, request.code, out)
			}
			says(t, testpages.Read(t, filepath.Join(w.folder, "setpoint-check.md")), request.says)
			reports(t, testpages.Read(t, filepath.Join(w.folder, "setpoint-check.sarif")), testpages.Read(t, filepath.Join(w.folder, "setpoint-check.xml")), request.code)
		})
	}
}

// dropped is a file of YAML without some keys, at any depth.
func dropped(t *testing.T, name string, keys ...string) string {
	t.Helper()
	var all any
	fatal.If(t, yaml.Unmarshal([]byte(testpages.Read(t, name)), &all))
	var drop func(any)
	drop = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range keys {
				delete(v, key)
			}
			for _, inner := range v {
				drop(inner)
			}
		case []any:
			for _, inner := range v {
				drop(inner)
			}
		}
	}
	drop(all)
	out, err := yaml.Marshal(all)
	fatal.If(t, err)
	return string(out)
}

func says(t *testing.T, text string, want []string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
}

// reports looks at the files for code hosts.
func reports(t *testing.T, sarif, junit string, code int) {
	t.Helper()
	var run struct {
		Schema  string `json:"$schema"`
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name  string
					Rules []struct{ ID, HelpURI string }
				}
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(sarif), &run); err != nil || run.Version != "2.1.0" || len(run.Runs) != 1 {
		t.Fatalf("%v\n%s", err, sarif)
	}
	failed := 0
	for _, r := range run.Runs[0].Results {
		rule := run.Runs[0].Tool.Driver.Rules[r.RuleIndex]
		if rule.ID != r.RuleID || !strings.HasSuffix(rule.HelpURI, "#"+r.RuleID) || r.Message.Text == "" || len(r.Locations) != 1 ||
			r.Locations[0].PhysicalLocation.ArtifactLocation.URI != "manifests/web.yaml" || r.Locations[0].PhysicalLocation.Region.StartLine < 1 {
			t.Errorf("%+v of %+v", r, rule)
		}
		if r.Level == "error" {
			failed++
		}
	}
	if (failed > 0) != (code != 0) {
		t.Errorf("%d errors in SARIF, exit code %d", failed, code)
	}
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Cases []struct {
				Name    string    `xml:"name,attr"`
				Failure *struct{} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(junit), &suites); err != nil {
		t.Fatalf("%v\n%s", err, junit)
	}
	cases, failures := 0, 0
	for _, s := range suites.Suites {
		for _, c := range s.Cases {
			if cases++; c.Failure != nil {
				failures++
			}
		}
	}
	if cases != suites.Tests || failures != suites.Failures || cases < 7 || (failures > 0) != (code != 0) {
		t.Errorf("%d cases, %d failures, exit code %d\n%s", cases, failures, code, junit)
	}
}
