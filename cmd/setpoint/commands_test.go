package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

const (
	demoRequest = "../../deploy/demo/request.json"
	recordings  = "../../clients/kubernetes/recording/testdata/curated.jsonl.gz"
	demoTarget  = "clusters/demo/namespaces/shop/targets/web"
)

// Each gets a message that names the place, and exit code 2.
func TestBadInputIsReportedWithItsPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		stdin string
		args  []string
		want  string
	}{
		{"unknown command", "", []string{"recomend"}, `unknown command "recomend"; did you mean recommend?; see setpoint --help`},
		{"unknown flag", "", []string{"serve", "--grpc-adress", ":1"}, "unknown flag: --grpc-adress; see setpoint serve --help"},
		{"argument that is not taken", "", []string{"serve", "now"}, `unexpected argument "now"`},
		{"recommend without a file", "", []string{"recommend"}, "--file is required"},
		{"file that is not there", "", []string{"recommend", "-f", "nowhere.yaml"}, "open nowhere.yaml: no such file"},
		{"empty request", "", []string{"recommend", "-f", "-"}, "the body is empty"},
		{"unknown field in YAML", "spec: {maxReplicas: 3, metricz: []}", []string{"recommend", "-f", "-"}, "spec.metricz: unknown field"},
		{"unknown field in JSON", `{"spec": {"maxReplica": 3}}`, []string{"recommend", "-f", "-"}, `spec.maxReplica: unknown field`},
		{"key twice", "spec: {maxReplicas: 3}\nspec: {maxReplicas: 4}", []string{"recommend", "-f", "-"}, "line 2: spec: is a duplicate key, first in line 1"},
		{"JSON cut off", `{"spec": {"maxReplicas"`, []string{"recommend", "-f", "-"}, "-: invalid JSON body: "},
		{"min above max", "{spec: {minReplicas: 3, maxReplicas: 2}, scale: {specReplicas: 1}}", []string{"recommend", "-f", "-"}, "spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`"},
		{"quantity that does not parse", "{spec: {maxReplicas: 2}, scale: {specReplicas: 1}, podMetrics: [{pod: a, containers: [{name: x, usage: {cpu: lots}}]}]}", []string{"recommend", "-f", "-"}, `podMetrics[0].containers[0].usage["cpu"]: Invalid value: "lots"`},
		{"form that there is not", "", []string{"recommend", "-f", "-", "-o", "xml"}, "must be one of [text json yaml]"},
		{"explain without anything", "", []string{"explain"}, "nothing to explain"},
		{"dump of the wrong kind", `{"kind": "List", "apiVersion": "v1", "items": [{"kind": "Service", "apiVersion": "v1", "metadata": {"name": "a"}}]}`, []string{"explain", "--pods", "-"}, "-: items[0]: expected Pod (v1), found Service (v1)"},
		{"dump that is no object", "just text", []string{"explain", "--hpa", "-"}, "-: expected a Kubernetes object"},
		{"dump without an autoscaler", `{"kind": "PodList", "apiVersion": "v1", "items": []}`, []string{"explain", "--pods", "-"}, "give --hpa, or --dump with one in it"},
		{"instant that is none", "", []string{"explain", "--dump", hpaDump, "--at", "yesterday"}, `--at: "yesterday" is not an RFC 3339 time`},
		{"replay without a file", "", []string{"replay"}, "an argument is missing; usage: setpoint replay FILE"},
		{"recording cut in the middle of a line", firstBytes(3000), []string{"replay", "-"}, "-:2: unexpected end of line"},
		{"recording that is none", "hello\n", []string{"replay", "-"}, "-:1: "},
		{"recording with a spec of the wrong kind", "", []string{"replay", "--spec", simulated, recordings}, simulated + ": is not an autoscaler: neither a manifest"},
		{"target's name with a slash too many", "", []string{"targets", "get", demoTarget + "/x"}, "name: must be clusters/{cluster}"},
		{"a limit below 0", "", []string{"targets", "list", "--limit=-1"}, "--limit: -1 is negative; 0 lists all"},
		{"get without a target", "", []string{"targets", "get"}, "an argument is missing; usage: setpoint targets get TARGET"},
		{"tolerance that is none", "", []string{"serve", "--tolerance", "much"}, `--tolerance: "much": must be a decimal number or a quantity`},
		{"limits that are none", "", []string{"serve", "--max-pods", "0", "--max-batch", "-1"}, "--max-pods: 0 is not above 0"},
		{"address that is none", "", []string{"recommend", "-f", demoRequest, "--server", "\x7f"}, "invalid control character"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.args[0] == "targets" && len(tt.args) > 2 {
				tt.args = append(tt.args, "--server", clitest.StartServer(t))
			}
			got := run(t, tt.stdin, tt.args...)
			if got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, tt.want) {
				t.Errorf("exit code %d, stderr:\n%s\nstdout:\n%s\nwant 2 and %q", got.Code, got.Stderr, got.Stdout, tt.want)
			}
		})
	}
}

const hpaDump = "testdata/dump.yaml"

// firstBytes returns the beginning of the recordings.
func firstBytes(n int64) string {
	f, err := os.Open(recordings)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err.Error()
	}
	text, _ := io.ReadAll(io.LimitReader(z, n))
	return string(text)
}

func TestRecommendDecidesHereAndOnAServerAlike(t *testing.T) {
	t.Parallel()
	here := run(t, "", "recommend", "-f", demoRequest, "-o", "json")
	there := run(t, "", "recommend", "-f", demoRequest, "-o", "json", "--server", clitest.StartServer(t), "--target", demoTarget)
	for name, got := range map[string]clitest.Result{"here": here, "on a server": there} {
		var answer struct {
			DesiredReplicas, CurrentReplicas int
			Action, Reason                   string
		}
		if err := json.Unmarshal([]byte(got.Stdout), &answer); err != nil || got.Code != 0 {
			t.Fatalf("%s: exit code %d, %v\n%s", name, got.Code, err, got.Stderr)
		}
		if answer.DesiredReplicas != 5 || answer.CurrentReplicas != 3 || answer.Action != "SCALE_UP" ||
			answer.Reason != "cpu resource utilization (percentage of request) above target" {
			t.Errorf("%s: got %+v", name, answer)
		}
	}
}

func TestRecommendPrintsTextAndYAML(t *testing.T) {
	t.Parallel()
	if got := run(t, "", "recommend", "-f", demoRequest); got.Code != 0 || !strings.Contains(got.Stdout, "5") {
		t.Errorf("text: exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
	if got := run(t, "", "recommend", "-f", demoRequest, "-o", "yaml"); got.Code != 0 || !strings.Contains(got.Stdout, "\ndesiredReplicas: 5\n") {
		t.Errorf("yaml: exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}

// The text says who decided, also where only the environment names a server; with an empty flag it does not count.
func TestRecommendSaysWhoDecided(t *testing.T) {
	address := clitest.StartServer(t)
	args := []string{"recommend", "-f", demoRequest, "--target", demoTarget}
	for _, tt := range []struct {
		name, variable string
		more           []string
		want           string
	}{
		{"neither", "", nil, "\nDecided in this process, which has no history and knows no overrides: --server asks a server\n"},
		{"the flag", "", []string{"--server", address}, "\nDecided by the server " + address + "\n"},
		{"the variable", address, nil, "\nDecided by the server " + address + ", which SETPOINT_SERVER names: with --server= this process decides\n"},
		{"the flag before the variable", "127.0.0.1:1", []string{"--server", address}, "\nDecided by the server " + address + "\n"},
		{"an empty flag", "127.0.0.1:1", []string{"--server="}, "\nDecided in this process, "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("SETPOINT_SERVER", tt.variable)
			if got := run(t, "", append(slices.Clone(args), tt.more...)...); got.Code != 0 || !strings.Contains(got.Stdout, tt.want) {
				t.Errorf("exit code %d, %s%s\nwant %q", got.Code, got.Stdout, got.Stderr, tt.want)
			}
			if got := run(t, "", append(append(slices.Clone(args), "-o", "json"), tt.more...)...); got.Code != 0 || strings.Contains(got.Stdout, "Decided") {
				t.Errorf("JSON: exit code %d, %s%s", got.Code, got.Stdout, got.Stderr)
			}
		})
	}
}

// What comes next is the server's in all commands, in the same words.
func TestExplainTellsWhatComesNext(t *testing.T) {
	t.Parallel()
	address := "--server=" + clitest.StartServer(t)
	place := "clusters/eu-1/namespaces/shop/targets/web"
	explain := []string{"explain", "--dump", hpaDump, "--cluster", "eu-1", address}
	if got := run(t, "", explain...); got.Code != cli.ExitFailed || !strings.Contains(got.Stdout, "shop/web") || !strings.Contains(got.Stderr, place) {
		t.Errorf("a target without decisions: exit code %d\n%s", got.Code, got.Stderr)
	}
	if got := run(t, "", "recommend", "-f", demoRequest, "--target", place, address); got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	explained, of := run(t, "", explain...), run(t, "", "targets", "explain", place, address)
	_, next, found := strings.Cut(explained.Stdout, "\nWhat comes next\n")
	if explained.Code != 0 || !found || !strings.Contains(next, " possible") || !strings.HasSuffix(of.Stdout, "\nWhat comes next\n"+next) {
		t.Errorf("exit code %d %s\n%s\nbeside targets explain:\n%s", explained.Code, explained.Stderr, explained.Stdout, of.Stdout)
	}
	got := run(t, "", "targets", "get", place, address)
	for line := range strings.Lines(next) {
		if !strings.Contains(got.Stdout, strings.TrimSpace(line)) {
			t.Errorf("targets get lacks %q:\n%s", line, got.Stdout)
		}
	}
	if alone := run(t, "", "explain", "--dump", hpaDump, address); strings.Contains(alone.Stdout, "What comes next") {
		t.Error("without --cluster a server is asked")
	}
}

func TestExplainTellsOfADump(t *testing.T) {
	t.Parallel()
	got := run(t, "", "explain", "--dump", hpaDump, "-o", "json")
	var answer struct {
		DesiredReplicas int
		EvaluationTime  string
		Explanation     struct {
			Path    string
			Metrics []struct {
				UsageRatio float64
				Pods       []struct{ Name, Group string }
			}
		}
	}
	if err := json.Unmarshal([]byte(got.Stdout), &answer); err != nil || got.Code != 0 {
		t.Fatalf("exit code %d, %v\n%s", got.Code, err, got.Stderr)
	}
	if answer.DesiredReplicas != 4 || answer.Explanation.Path != "Metrics" || answer.EvaluationTime != "2026-03-02T09:00:00Z" {
		t.Errorf("got %+v", answer)
	}
	if len(answer.Explanation.Metrics) != 1 || len(answer.Explanation.Metrics[0].Pods) != 2 {
		t.Errorf("metrics: %+v", answer.Explanation.Metrics)
	}
	if !strings.Contains(got.Stderr, "not used: "+hpaDump) {
		t.Errorf("the Service of the dump is not named: %q", got.Stderr)
	}
	if got := run(t, "", "explain", "--dump", hpaDump); got.Code != 0 || !strings.Contains(got.Stdout, "shop/web") {
		t.Errorf("text: exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}

func TestReplayEndsWithASummary(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	for name, extra := range map[string][]string{"here": nil, "on a server": {"--server", clitest.StartServer(t)}} {
		got := run(t, "", append([]string{"replay", "-o", "json", recordings}, extra...)...)
		lines := strings.Split(strings.TrimSpace(got.Stdout), "\n")
		last := lines[len(lines)-1]
		if name == "here" {
			if got.Code != 0 || last != `{"scenarios":427,"steps":1897,"mismatchedSteps":0,"comparedSteps":1897,"skippedSteps":0,`+
				`"skippedScenarios":0,"refusedScenarios":0,"failedScenarios":0,"unreadableLines":0}` || len(lines) != 1898 {
				t.Errorf("%s: exit code %d, %d lines, the last %s\n%s", name, got.Code, len(lines), last, got.Stderr)
			}
			continue
		}
		// The service refuses the specs that the API server would, and says which.
		if got.Code != cli.ExitUsage || !strings.Contains(last, `"mismatchedSteps":0`) ||
			strings.Count(got.Stderr, "refused: ") != 9 || !strings.Contains(got.Stderr, "9 scenarios were refused") {
			t.Errorf("%s: exit code %d, the last line %s\n%s", name, got.Code, last, got.Stderr)
		}
	}
}

func TestReplayFailsOnAMismatch(t *testing.T) {
	t.Parallel()
	line, _, _ := strings.Cut(firstBytes(20000), "\n")
	wrong := strings.Replace(line, `"desiredReplicas":5`, `"desiredReplicas":6`, 1)
	got := run(t, wrong+"\n", "replay", "-")
	if got.Code != cli.ExitFailed || !strings.Contains(got.Stdout, "DIFFERS desiredReplicas: want 6, got 5") ||
		!strings.HasSuffix(got.Stdout, "1 scenarios, 1 steps, 1 compared, 0 skipped, 1 mismatched\n") || got.Stderr != "" {
		t.Errorf("exit code %d\n%s\n%s", got.Code, got.Stdout, got.Stderr)
	}
}

func TestReplayTriesAnotherSpec(t *testing.T) {
	t.Parallel()
	line, _, _ := strings.Cut(firstBytes(20000), "\n")
	spec := clitest.File(t, "hpa.yaml", `apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}, maxReplicas: 4, targetCPUUtilizationPercentage: 50}`)
	got := run(t, line+"\n", "replay", "-o", "json", "--spec", spec, "-")
	if got.Code != 0 || !strings.Contains(got.Stdout, `"desiredReplicas":4`) || !strings.Contains(got.Stdout, `"compared":false`) {
		t.Errorf("exit code %d\n%s\n%s", got.Code, got.Stdout, got.Stderr)
	}
}

func TestTargetsAreListedShownAndForgotten(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	if got := run(t, "", "recommend", "-f", demoRequest, "--server", address, "--target", demoTarget); got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"list", []string{"list"}, 0, demoTarget + "   steady   3 -> 5"},
		{"list as JSON", []string{"list", "clusters/demo/namespaces/-", "-o", "json"}, 0, `"name": "` + demoTarget + `"`},
		{"list elsewhere", []string{"list", "clusters/other/namespaces/-"}, 0, "TARGET"},
		{"get", []string{"get", demoTarget}, 0, "2 recommendations, 0 scale-ups"},
		{"get as YAML", []string{"get", demoTarget, "-o", "yaml"}, 0, "name: " + demoTarget},
		{"decisions", []string{"decisions", demoTarget}, 0, "PENDING"},
		{"delete", []string{"delete", demoTarget}, 0, demoTarget + " deleted"},
		{"get what is gone", []string{"get", demoTarget}, cli.ExitFailed, "no history for " + demoTarget},
		{"delete what is gone", []string{"delete", demoTarget}, cli.ExitFailed, "(NotFound)"},
	} {
		got := run(t, "", append(append([]string{"targets"}, tt.args...), "--server", address)...)
		if got.Code != tt.code || !strings.Contains(got.Stdout+got.Stderr, tt.want) {
			t.Errorf("%s: exit code %d\n%s%s\nwant %q", tt.name, got.Code, got.Stdout, got.Stderr, tt.want)
		}
	}
}

// Each list has a limit of its own, whose default is what its help says, and says on
// standard error when it ends there.
func TestListsSayWhatTheyLeaveOut(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	const targets, decisions = 120, 3
	ask := func(name string, times int) {
		t.Helper()
		for range times {
			if got := run(t, "", "recommend", "-f", demoRequest, "--server", address, "--target", "clusters/demo/namespaces/shop/targets/"+name); got.Code != 0 {
				t.Fatal(got.Stderr)
			}
		}
	}
	for i := range targets - 1 {
		ask(fmt.Sprintf("t%03d", i), 1)
	}
	ask("web", decisions)
	for _, tt := range []struct {
		rule string
		args []string
		rows int
		said string
	}{
		{"all targets are listed by default", []string{"list"}, targets, ""},
		{"all of them with 0", []string{"list", "--limit=0"}, targets, ""},
		{"fewer are said to be", []string{"list", "--limit=50"}, 50, "listed 50 targets, and there are more: --limit=0 lists all\n"},
		{"one less is, too", []string{"list", "--limit=119"}, 119, "listed 119 targets, and there are more: --limit=0 lists all\n"},
		{"as many as there are is all", []string{"list", "--limit=120"}, targets, ""},
		{"what is said is not in the list", []string{"list", "--limit=1", "-o", "json"}, 1, "listed 1 targets, and there are more: --limit=0 lists all\n"},
		{"decisions", []string{"decisions", demoTarget}, decisions, ""},
		{"fewer decisions", []string{"decisions", demoTarget, "--limit=1"}, 1, "listed 1 decisions, and there are more: --limit=0 lists all\n"},
		{"all decisions there are", []string{"decisions", demoTarget, "--limit=3"}, decisions, ""},
	} {
		got := run(t, "", append(append([]string{"targets"}, tt.args...), "--server", address)...)
		rows := strings.Count(got.Stdout, "\n") - 1
		if slices.Contains(tt.args, "json") {
			rows = strings.Count(got.Stdout, demoTarget[:len(demoTarget)-len("web")])
		}
		if got.Code != 0 || rows != tt.rows || got.Stderr != tt.said {
			t.Errorf("%s: exit code %d, %d rows, want %d, stderr %q, want %q", tt.rule, got.Code, rows, tt.rows, got.Stderr, tt.said)
		}
	}
	// The default of --limit, as the help has it, is what counts.
	for _, tt := range []struct{ list, want string }{{"list", "(default 1000)"}, {"decisions", "(default 50)"}} {
		if help := run(t, "", "targets", tt.list, "--help"); !strings.Contains(help.Stdout, tt.want) {
			t.Errorf("targets %s --help: want %s\n%s", tt.list, tt.want, help.Stdout)
		}
	}
}

func TestCompletionAndVersion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := run(t, "", "completion", shell); got.Code != 0 || !strings.Contains(got.Stdout, "setpoint") {
			t.Errorf("%s: exit code %d, %s", shell, got.Code, got.Stderr)
		}
	}
	if got := run(t, "", "version"); got.Code != 0 || !strings.HasPrefix(got.Stdout, "setpoint version ") {
		t.Errorf("version: %+v", got)
	}
}
