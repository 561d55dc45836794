package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
)

const (
	demoRequest = "../../deploy/demo/request.json"
	recordings  = "../../clients/kubernetes/recording/testdata/curated.jsonl.gz"
	demoTarget  = "clusters/demo/namespaces/shop/targets/web"
)

// Each gets a message that names the place, and exit code 2.
func TestBadInputIsToldWithItsPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		stdin string
		args  []string
		want  string
	}{
		{"unknown command", "", []string{"recomend"}, `unknown command "recomend"`},
		{"unknown flag", "", []string{"serve", "--grpc-adress", ":1"}, "unknown flag: --grpc-adress; see setpoint serve --help"},
		{"argument that is not taken", "", []string{"serve", "now"}, `unknown command "now"`},
		{"recommend without a file", "", []string{"recommend"}, "--file is required"},
		{"file that is not there", "", []string{"recommend", "-f", "nowhere.yaml"}, "open nowhere.yaml: no such file"},
		{"empty request", "", []string{"recommend", "-f", "-"}, "the body is empty"},
		{"unknown field in YAML", "spec: {maxReplicas: 3, metricz: []}", []string{"recommend", "-f", "-"}, "spec.metricz: unknown field"},
		{"unknown field in JSON", `{"spec": {"maxReplica": 3}}`, []string{"recommend", "-f", "-"}, `spec.maxReplica: unknown field`},
		{"key twice", "spec: {maxReplicas: 3}\nspec: {maxReplicas: 4}", []string{"recommend", "-f", "-"}, `key "spec" already set in map`},
		{"JSON cut off", `{"spec": {"maxReplicas"`, []string{"recommend", "-f", "-"}, "-: invalid JSON body: "},
		{"min above max", "{spec: {minReplicas: 3, maxReplicas: 2}, scale: {specReplicas: 1}}", []string{"recommend", "-f", "-"}, "spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`"},
		{"quantity that does not parse", "{spec: {maxReplicas: 2}, scale: {specReplicas: 1}, podMetrics: [{pod: a, containers: [{name: x, usage: {cpu: lots}}]}]}", []string{"recommend", "-f", "-"}, `podMetrics[0].containers[0].usage["cpu"]: Invalid value: "lots"`},
		{"form that there is not", "", []string{"recommend", "-f", "-", "-o", "xml"}, "must be one of [text json yaml]"},
		{"explain without anything", "", []string{"explain"}, "nothing to explain"},
		{"dump of the wrong kind", `{"kind": "List", "apiVersion": "v1", "items": [{"kind": "Service", "apiVersion": "v1", "metadata": {"name": "a"}}]}`, []string{"explain", "--pods", "-"}, "-: items[0]: expected Pod (v1), found Service (v1)"},
		{"dump that is no object", "just text", []string{"explain", "--hpa", "-"}, "-: expected a Kubernetes object"},
		{"dump without an autoscaler", `{"kind": "PodList", "apiVersion": "v1", "items": []}`, []string{"explain", "--pods", "-"}, "give --hpa, or --dump with one in it"},
		{"instant that is none", "", []string{"explain", "--dump", hpaDump, "--at", "yesterday"}, `--at: "yesterday" is no instant`},
		{"replay without a file", "", []string{"replay"}, "requires at least 1 arg"},
		{"recording cut in the middle of a line", firstBytes(3000), []string{"replay", "-"}, "-:2: unexpected end of line"},
		{"recording that is none", "hello\n", []string{"replay", "-"}, "-:1: "},
		{"recording with a spec of the wrong kind", "", []string{"replay", "--spec", demoRequest, recordings}, demoRequest + ": expected HorizontalPodAutoscaler (autoscaling/v2)"},
		{"target's name with a slash too many", "", []string{"targets", "get", demoTarget + "/x"}, "name: must be clusters/{cluster}"},
		{"get without a target", "", []string{"targets", "get"}, "accepts 1 arg(s), received 0"},
		{"tolerance that is none", "", []string{"serve", "--tolerance", "much"}, `--tolerance: "much": must be a decimal number or a quantity`},
		{"limits that are none", "", []string{"serve", "--max-pods", "0", "--max-batch", "-1"}, "--max-pods: 0 is not above 0"},
		{"address that is none", "", []string{"recommend", "-f", demoRequest, "--server", "\x7f"}, "invalid control character"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.args[0] == "targets" && len(tt.args) > 2 {
				tt.args = append(tt.args, "--server", startServer(t))
			}
			got := run(t, tt.stdin, tt.args...)
			if got.code != exitUsage || !strings.Contains(got.stderr, tt.want) {
				t.Errorf("exit code %d, stderr:\n%s\nstdout:\n%s\nwant 2 and %q", got.code, got.stderr, got.stdout, tt.want)
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
	there := run(t, "", "recommend", "-f", demoRequest, "-o", "json", "--server", startServer(t), "--target", demoTarget)
	for name, got := range map[string]result{"here": here, "on a server": there} {
		var answer struct {
			DesiredReplicas, CurrentReplicas int
			Action, Reason                   string
		}
		if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil || got.code != 0 {
			t.Fatalf("%s: exit code %d, %v\n%s", name, got.code, err, got.stderr)
		}
		if answer.DesiredReplicas != 5 || answer.CurrentReplicas != 3 || answer.Action != "SCALE_UP" ||
			answer.Reason != "cpu resource utilization (percentage of request) above target" {
			t.Errorf("%s: got %+v", name, answer)
		}
	}
}

func TestRecommendPrintsTextAndYAML(t *testing.T) {
	t.Parallel()
	if got := run(t, "", "recommend", "-f", demoRequest); got.code != 0 || !strings.Contains(got.stdout, "5") {
		t.Errorf("text: exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := run(t, "", "recommend", "-f", demoRequest, "-o", "yaml"); got.code != 0 || !strings.Contains(got.stdout, "\ndesiredReplicas: 5\n") {
		t.Errorf("yaml: exit code %d\n%s%s", got.code, got.stdout, got.stderr)
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
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil || got.code != 0 {
		t.Fatalf("exit code %d, %v\n%s", got.code, err, got.stderr)
	}
	if answer.DesiredReplicas != 4 || answer.Explanation.Path != "Metrics" || answer.EvaluationTime != "2026-03-02T09:00:00Z" {
		t.Errorf("got %+v", answer)
	}
	if len(answer.Explanation.Metrics) != 1 || len(answer.Explanation.Metrics[0].Pods) != 2 {
		t.Errorf("metrics: %+v", answer.Explanation.Metrics)
	}
	if !strings.Contains(got.stderr, "not used: "+hpaDump) {
		t.Errorf("the Service of the dump is not named: %q", got.stderr)
	}
	if got := run(t, "", "explain", "--dump", hpaDump); got.code != 0 || !strings.Contains(got.stdout, "shop/web") {
		t.Errorf("text: exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

func TestReplayEndsWithASummary(t *testing.T) {
	t.Parallel()
	for name, extra := range map[string][]string{"here": nil, "on a server": {"--server", startServer(t)}} {
		got := run(t, "", append([]string{"replay", "-o", "json", recordings}, extra...)...)
		lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
		last := lines[len(lines)-1]
		if name == "here" {
			if got.code != 0 || last != `{"scenarios":427,"steps":1897,"mismatchedSteps":0}` || len(lines) != 1898 {
				t.Errorf("%s: exit code %d, %d lines, the last %s\n%s", name, got.code, len(lines), last, got.stderr)
			}
			continue
		}
		// The service refuses the specs that the API server would, and says which.
		if got.code != exitUsage || !strings.Contains(last, `"mismatchedSteps":0`) ||
			strings.Count(got.stderr, "refused: ") != 9 || !strings.Contains(got.stderr, "9 scenarios were refused") {
			t.Errorf("%s: exit code %d, the last line %s\n%s", name, got.code, last, got.stderr)
		}
	}
}

func TestReplayFailsOnAMismatch(t *testing.T) {
	t.Parallel()
	line, _, _ := strings.Cut(firstBytes(20000), "\n")
	wrong := strings.Replace(line, `"desiredReplicas":5`, `"desiredReplicas":6`, 1)
	got := run(t, wrong+"\n", "replay", "-")
	if got.code != exitFailed || !strings.Contains(got.stdout, "DIFFERS desiredReplicas: want 6, got 5") ||
		!strings.HasSuffix(got.stdout, "1 scenarios, 1 steps, 1 mismatched\n") || got.stderr != "" {
		t.Errorf("exit code %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
}

func TestReplayTriesAnotherSpec(t *testing.T) {
	t.Parallel()
	line, _, _ := strings.Cut(firstBytes(20000), "\n")
	spec := file(t, "hpa.yaml", `apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}, maxReplicas: 4, targetCPUUtilizationPercentage: 50}`)
	got := run(t, line+"\n", "replay", "-o", "json", "--spec", spec, "-")
	if got.code != 0 || !strings.Contains(got.stdout, `"desiredReplicas":4`) || !strings.Contains(got.stdout, `"compared":false`) {
		t.Errorf("exit code %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
}

func TestTargetsAreListedShownAndForgotten(t *testing.T) {
	t.Parallel()
	address := startServer(t)
	if got := run(t, "", "recommend", "-f", demoRequest, "--server", address, "--target", demoTarget); got.code != 0 {
		t.Fatal(got.stderr)
	}
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"list", []string{"list"}, 0, demoTarget + "   3 -> 5"},
		{"list as JSON", []string{"list", "clusters/demo/namespaces/-", "-o", "json"}, 0, `"name": "` + demoTarget + `"`},
		{"list elsewhere", []string{"list", "clusters/other/namespaces/-"}, 0, "TARGET"},
		{"get", []string{"get", demoTarget}, 0, "2 recommendations, 0 scale-ups"},
		{"get as YAML", []string{"get", demoTarget, "-o", "yaml"}, 0, "name: " + demoTarget},
		{"decisions", []string{"decisions", demoTarget}, 0, "PENDING"},
		{"delete", []string{"delete", demoTarget}, 0, demoTarget + " forgotten"},
		{"get what is gone", []string{"get", demoTarget}, exitFailed, "nothing is kept of " + demoTarget},
		{"delete what is gone", []string{"delete", demoTarget}, exitFailed, "(NotFound)"},
	} {
		got := run(t, "", append(append([]string{"targets"}, tt.args...), "--server", address)...)
		if got.code != tt.code || !strings.Contains(got.stdout+got.stderr, tt.want) {
			t.Errorf("%s: exit code %d\n%s%s\nwant %q", tt.name, got.code, got.stdout, got.stderr, tt.want)
		}
	}
}

func TestCompletionAndVersion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := run(t, "", "completion", shell); got.code != 0 || !strings.Contains(got.stdout, "setpoint") {
			t.Errorf("%s: exit code %d, %s", shell, got.code, got.stderr)
		}
	}
	if got := run(t, "", "version"); got.code != 0 || !strings.HasPrefix(got.stdout, "setpoint ") {
		t.Errorf("version: %+v", got)
	}
}
