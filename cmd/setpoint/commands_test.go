package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
)

const (
	demoRequest = "../../deploy/demo/request.json"
	recordings  = "../../clients/kubernetes/recording/testdata/curated.jsonl.gz"
	simulated   = "../../examples/simulation/web.yaml"
	demoTarget  = "clusters/demo/namespaces/shop/targets/web"
	// refusedSpec is that of a manifest with a value that the API refuses.
	refusedSpec = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: web}, metrics: [{type: Resource, resource: {name: cpu,\n" +
		"  target: {type: Utilization, averageUtilization: 0}}}]}\n"
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
		{"unknown flag", "", []string{"serve", "--grpc-adress", ":1"}, "unknown flag: --grpc-adress; did you mean --grpc-address?; see setpoint serve --help"},
		{"argument that is not taken", "", []string{"serve", "now"}, `unexpected argument "now"`},
		{"recommend without a file", "", []string{"recommend"}, "--file is required"},
		{"file that is not there", "", []string{"recommend", "-f", "nowhere.yaml"}, "open nowhere.yaml: no such file"},
		{"empty request", "", []string{"recommend", "-f", "-"}, "the body is empty"},
		{"unknown field in YAML", "spec: {maxReplicas: 3, metricz: []}", []string{"recommend", "-f", "-"}, "setpoint: -: invalid request: spec.metricz: unknown field"},
		{"unknown field in JSON", `{"spec": {"maxReplica": 3}}`, []string{"recommend", "-f", "-"}, `spec.maxReplica: unknown field`},
		{"a manifest for a request", "kind: HorizontalPodAutoscaler\napiVersion: autoscaling/v2\n", []string{"recommend", "-f", "-"}, "setpoint: -: is a manifest, not a request"},
		{"several autoscalers", "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {maxReplicas: 2, scaleTargetRef: {kind: Deployment, name: x}}\n---\napiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: b}\nspec: {maxReplicas: 2, scaleTargetRef: {kind: Deployment, name: x}}\n", []string{"explain", "--hpa", "-"}, "default/a, default/b; choose one with --name"},
		{"one in a line of JSON for a request", `{"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2"}`, []string{"recommend", "-f", "-"}, "setpoint: -: is a manifest, not a request"},
		{"one with a byte order mark for a request", "\ufeffapiVersion: autoscaling/v2\nkind: List\n", []string{"recommend", "-f", "-"}, "setpoint: -: is a manifest, not a request"},
		{"key twice", "spec: {maxReplicas: 3}\nspec: {maxReplicas: 4}", []string{"recommend", "-f", "-"}, "line 2: spec: is a duplicate key, first in line 1"},
		{"JSON cut off", `{"spec": {"maxReplicas"`, []string{"recommend", "-f", "-"}, "-: invalid request: the body is cut off"},
		{"min above max", "{spec: {minReplicas: 3, maxReplicas: 2}, scale: {specReplicas: 1}}", []string{"recommend", "-f", "-"}, "spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`"},
		{"quantity that does not parse", "{spec: {maxReplicas: 2}, scale: {specReplicas: 1}, podMetrics: [{pod: a, containers: [{name: x, usage: {cpu: lots}}]}]}", []string{"recommend", "-f", "-"}, `podMetrics[0].containers[0].usage["cpu"]: Invalid value: "lots"`},
		{"form that there is not", "", []string{"recommend", "-f", "-", "-o", "xml"}, "must be one of [text json yaml]"},
		{"explain without anything", "", []string{"explain"}, "nothing to explain"},
		{"dump of the wrong kind", `{"kind": "List", "apiVersion": "v1", "items": [{"kind": "Service", "apiVersion": "v1", "metadata": {"name": "a"}}]}`, []string{"explain", "--pods", "-"}, "-:1: items[0]: expected Pod (v1), found Service (v1)"},
		{"dump that is no object", "just text", []string{"explain", "--hpa", "-"}, "-: expected a Kubernetes object"},
		{"dump without an autoscaler", `{"kind": "PodList", "apiVersion": "v1", "items": []}`, []string{"explain", "--pods", "-"}, "give --hpa, or --dump with one in it"},
		{"instant that is none", "", []string{"explain", "--dump", hpaDump, "--at", "yesterday"}, `--at: "yesterday" is not an RFC 3339 time`},
		{"replay without a file", "", []string{"replay"}, "an argument is missing; usage: setpoint replay FILE"},
		{"a recording that is something else", strings.Repeat("{}\n", 12), []string{"replay", "-"}, "… and 2 more lines that can't be read, the last: -:12: "},
		{"saving what files have", "", []string{"explain", "--hpa", "x.yaml", "--save", "y.yaml"}, "--save only applies with KIND/NAME or --live"},
		{"a context for files", "", []string{"explain", "--hpa", "x.yaml", "--context", "prod"}, "--context only applies with KIND/NAME or --live: without them, no cluster is read"},
		{"recording that is none", "hello\nworld\n", []string{"replay", "-"}, "setpoint: -:1: this is no recording, of which each line is a scenario in JSON, {\"name\": …}\nsetpoint: 1 lines"},
		{"standard input for a scenario and a spec", "duration: 1m\nload: [{constant: 1}]\nworkload: {usage: [{metric: cpu, perLoad: 10m}]}\n", []string{"simulate", "-f", "-", "-"}, "setpoint: -: - is standard input, which is given twice"},
		{"standard input twice", "", []string{"replay", "-", "-"}, "- is standard input, which is given twice"},
		{"a duration in days", "", []string{"token", "x", "--lifetime=90d"}, `setpoint: invalid argument "90d" for "--lifetime" flag: must be a duration such as 30s or 1h: write 2160h; see setpoint token --help`},
		{"no duration", "", []string{"health", "--timeout=soon"}, `for "--timeout" flag: must be a duration such as 30s or 1h; see`},
		{"no whole number", "", []string{"serve", "--max-pods=1e6"}, `setpoint: invalid argument "1e6" for "--max-pods" flag: must be a whole number; see setpoint serve --help`},
		{"a number that is too large", "", []string{"serve", "--max-pods=99999999999999999999"}, `for "--max-pods" flag: is out of range; see`},
		{"no number", "", []string{"tune", "--max-short=50%"}, `for "--max-short" flag: must be a number; see`},
		{"neither true nor false", "", []string{"serve", "--shed-load=no"}, `for "--shed-load" flag: must be true or false; see`},
		{"recording with a spec of the wrong kind", "", []string{"replay", "--spec", simulated, recordings}, simulated + ": is not an autoscaler: neither a manifest"},
		{"target's name with a slash too many", "", []string{"targets", "get", demoTarget + "/x"}, "name: must be clusters/{cluster}"},
		{"a limit below 0", "", []string{"targets", "list", "--limit=-1"}, "--limit: -1 is negative; 0 lists all"},
		{"get without a target", "", []string{"targets", "get"}, "an argument is missing; usage: setpoint targets get TARGET"},
		{"tolerance that is none", "", []string{"serve", "--tolerance", "much"}, `--tolerance: "much": must be a decimal number or a quantity`},
		{"limits that are none", "", []string{"serve", "--max-pods", "0", "--max-batch", "-1"}, "--max-pods: 0 is not above 0"},
		{"flags that exclude each other", "", []string{"targets", "export", demoTarget, "--since=1h", "--from=2026-01-02T15:04:05Z"}, "setpoint: --from and --since exclude each other; see setpoint targets export --help\n"},
		{"flags of replay that exclude each other", "", []string{"replay", recordings, "--no-compare", "--strict"}, "setpoint: --no-compare and --strict exclude each other; see"},
		{"completion of a shell that there is not", "", []string{"completion", "bogus"}, `unknown command "bogus"; see setpoint completion --help`},
		{"a new spec for recordings that the service would refuse", refusedSpec, []string{"backtest", "--spec=-", recordings}, "-:5: spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0"},
		{"the same, for replay", refusedSpec, []string{"replay", "--spec=-", recordings}, "-:5: spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0"},
		{"an autoscaler with a misspelled field", "kind: HorizontalPodAutoscaler\napiVersion: autoscaling/v2\nspec: {maxReplicas: 3,\n  minReplica: 1}\n", []string{"explain", "--hpa=-"}, `-:4: unknown field "spec.minReplica"`},
		{"help of a command that there is not", "", []string{"help", "bogus"}, `unknown command "bogus"; see setpoint --help`},
		{"help of a command that a command has not", "", []string{"help", "targets", "lsit"}, `unknown command "lsit"; did you mean list?; see setpoint targets --help`},
		{"a token's file that is not there", "", []string{"targets", "list", "--token-file=nowhere"}, "setpoint: --token-file: stat nowhere: no such file"},
		{"a CA's file that is not there", "", []string{"targets", "list", "--tls-ca-file=nowhere"}, "setpoint: --tls-ca-file: open nowhere: no such file"},
		{"address that is none", "", []string{"recommend", "-f", demoRequest, "--server", "\x7f"}, "invalid control character"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.args[0] == "targets" && len(tt.args) > 2 {
				tt.args = append(tt.args, "--server", clitest.StartServer(t))
			}
			got := run(t, tt.stdin, tt.args...)
			code := cli.ExitUsage
			if tt.args[0] == "serve" { // which a supervisor starts, and should not again
				code = cli.ExitSettings
			}
			if got.Code != code || !strings.Contains(got.Stderr, tt.want) || strings.Contains(got.Stderr, "setpoint: setpoint: ") {
				t.Errorf("exit code %d, stderr:\n%s\nstdout:\n%s\nwant %d and %q", got.Code, got.Stderr, got.Stdout, code, tt.want)
			}
		})
	}
}

// Help of a command that there is stays what it was.
func TestHelpOfACommand(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help"}, {"help", "targets"}, {"help", "targets", "export"}} {
		got, plain := run(t, "", args...), run(t, "", append(args[1:len(args):len(args)], "--help")...)
		if got.Code != 0 || got.Stdout != plain.Stdout || got.Stdout == "" {
			t.Errorf("%v: exit code %d\n%s%s\nwant\n%s", args, got.Code, got.Stdout, got.Stderr, plain.Stdout)
		}
	}
}

const hpaDump = "testdata/dump.yaml"

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
	if got := run(t, "", "explain", "--dump", hpaDump, "-o=json", "--cluster=eu-1", "--server=127.0.0.1:1"); got.Code != 0 || !strings.Contains(got.Stderr, "not used: --cluster, as only the text has") {
		t.Errorf("a cluster without the text: exit code %d, %q", got.Code, got.Stderr)
	}
	if got := run(t, "", "explain", "--dump", hpaDump); got.Code != 0 || !strings.Contains(got.Stdout, "shop/web") {
		t.Errorf("text: exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}

func TestCompletionAndVersion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := run(t, "", "completion", shell); got.Code != 0 || !strings.Contains(got.Stdout, "setpoint") {
			t.Errorf("%s: exit code %d, %s", shell, got.Code, got.Stderr)
		}
	}
	// Directive 4 keeps the shell from offering files, 0 does not.
	for _, tt := range []struct{ flag, want string }{{"--profile", ":4"}, {"--file", ":0"}, {"-o", "json"}} {
		if got := run(t, "", "__complete", "simulate", tt.flag, ""); got.Code != 0 || !strings.Contains(got.Stdout, tt.want) {
			t.Errorf("simulate %s: %q instead of %s", tt.flag, got.Stdout, tt.want)
		}
	}
	if got := run(t, "", "version"); got.Code != 0 || !strings.HasPrefix(got.Stdout, "setpoint version ") {
		t.Errorf("version: %+v", got)
	}
}
