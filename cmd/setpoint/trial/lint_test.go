package trial

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
)

const linted = "../../../examples/lint/web.yaml"

func TestLintExitCodes(t *testing.T) {
	t.Parallel()
	const plain = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}, minReplicas: 2, maxReplicas: 5, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}\n"
	noted := strings.Replace(plain, "name: cpu", "name: memory", 1)
	invalid := strings.Replace(plain, "maxReplicas: 5", "maxReplicas: 0", 1)
	const invalidFleet = "name: clusters/all/namespaces/shop/targets/web\nspec: {minReplicas: 2, maxReplicas: 5, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}\n" +
		"fleet: {members: [{target: clusters/a/namespaces/shop/targets/web}, {target: clusters/b/namespaces/shop/targets/web}], maxMoves: -1}\n"
	for _, tt := range []struct {
		name, stdin string
		args        []string
		code        int
		stdout      string
		stderr      string
	}{
		{"nothing", plain, nil, 0, "1 autoscalers: 0 errors, 0 warnings, 0 notes", ""},
		{"a note", noted, nil, 0, "0 warnings, 1 notes", ""},
		{"a note that fails", noted, []string{"--fail-on=note"}, cli.ExitFailed, "[memory-holds]", ""},
		{"a note that is left out", noted, []string{"--fail-on=note", "--ignore=memory-holds,small-counts"}, 0, "0 warnings, 0 notes", ""},
		{"one rule", "", []string{linted, "--rule=slow-way-down"}, cli.ExitFailed, "1 autoscalers: 0 errors, 1 warnings, 0 notes", ""},
		{"counts", "", []string{linted, "-o", "rules"}, cli.ExitFailed, "    1  error    target-unreachable: shop/web\n", ""},
		{"no rule", plain, []string{"--ignore=memory-hold"}, cli.ExitUsage, "", `--ignore: there is no rule "memory-hold", did you mean "memory-holds"?`},
		{"no rule for this only", plain, []string{"--rule=everything"}, cli.ExitUsage, "", `--rule: there is no rule "everything": see `},
		{"errors", "", []string{linted}, cli.ExitFailed, "[target-unreachable]", ""},
		{"errors that do not fail", "", []string{linted, "--fail-on=never"}, 0, "[target-unreachable]", ""},
		{"lines", "", []string{linted, "-o", "json"}, cli.ExitFailed, `{"rule":"target-unreachable","severity":"error",`, ""},
		{"for code hosts", "", []string{linted, "-o", "sarif"}, cli.ExitFailed, `"ruleId": "target-unreachable"`, ""},
		{"an invalid spec", invalid, nil, cli.ExitUsage, "1 autoscalers: 0 errors, 0 warnings, 0 notes; 1 invalid: see the errors", "spec.maxReplicas"},
		{"an invalid fleet", invalidFleet, nil, cli.ExitUsage, "1 autoscalers: 0 errors, 0 warnings, 0 notes; 1 invalid: see the errors", "fleet.maxMoves"},
		{"no autoscaler", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n", nil, cli.ExitUsage, "", "there is no autoscaler"},
		{"no file", "", []string{"nowhere.yaml"}, cli.ExitUsage, "", "nowhere.yaml: no such file"},
		{"with a load", "", []string{linted, "--scenario=../../../examples/simulation/web.yaml"}, cli.ExitFailed, "(simulated)", ""},
		{"with a load that is none", plain, []string{"--scenario=" + linted}, cli.ExitUsage, "", "is a spec, not a scenario, which belongs there"},
		{"with a load of another metric", strings.NewReplacer("name: cpu", "name: memory").Replace(plain), []string{"--scenario=../../../examples/simulation/web.yaml"}, cli.ExitUsage, "", "workload.usage: has no memory"},
		{"no YAML", "{", nil, cli.ExitUsage, "", "-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"lint"}, tt.args...)
			if tt.stdin != "" {
				args = append(args, "-")
			}
			got := run(t, tt.stdin, args...)
			if got.Code != tt.code || !strings.Contains(got.Stdout, tt.stdout) || !strings.Contains(got.Stderr, tt.stderr) || tt.stderr == "" && got.Stderr != "" {
				t.Errorf("exit code %d, want %d\n%s\n%s", got.Code, tt.code, got.Stdout, got.Stderr)
			}
		})
	}
}

// What is wrong with one file does not keep the others from being looked at, and is a finding for programs. A file that is
// invalid in its middle keeps what it has.
func TestLintLooksAtAllFiles(t *testing.T) {
	t.Parallel()
	const object = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: half, namespace: shop}\nspec:\n" +
		"  scaleTargetRef: {kind: Deployment, name: half, apiVersion: apps/v1}\n  minReplicas: 3\n  maxReplicas: 3\n"
	half := clitest.File(t, "half.yaml", object+"---\n"+strings.NewReplacer("half", "rest", "max", "mox").Replace(object))
	broken, low := clitest.File(t, "broken.yaml", "kind: ["), clitest.File(t, "low.yaml", strings.Replace(object, "max", "metrics: [{type: X}]\n  max", 1))
	got := run(t, "", "lint", broken, half, linted)
	if got.Code != cli.ExitUsage || !strings.Contains(got.Stdout, "[target-unreachable]") || !strings.Contains(got.Stdout, half+":7: shop/half: warning: the count is always 3") ||
		!strings.Contains(got.Stderr, "broken.yaml") {
		t.Errorf("exit code %d\n%s\n%s", got.Code, got.Stdout, got.Stderr)
	}
	for form, want := range map[string][]string{
		"json": {
			`"rule":"min-equals-max","severity":"warning","file":"` + half + `","object":"shop/half","field":"spec.maxReplicas","line":7`,
			`{"rule":"invalid","severity":"error","file":"` + half + `","object":"","field":"spec","line":15,"message":"document 2: unknown field \"spec.moxReplicas\"",`,
			`{"rule":"invalid","severity":"error","file":"` + low + `","object":"shop/half","field":"spec.metrics[0].type","line":7,"message":"Unsupported value`,
			`"file":"` + broken + `","object":"","field":"spec","line":1,"message":"did not find`,
		},
		"sarif": {`"ruleId": "invalid"`, `"text": "shop/half: Unsupported value`},
	} {
		got := run(t, "", "lint", "-o", form, broken, half, low)
		for _, part := range want {
			if got.Code != cli.ExitUsage || !strings.Contains(got.Stdout, part) {
				t.Errorf("exit code %d, want %s in\n%s\n%s", got.Code, part, got.Stdout, got.Stderr)
			}
		}
	}
	// None is left.
	if got := run(t, "", "lint", "-o", "sarif", broken); got.Code != cli.ExitUsage || !strings.Contains(got.Stdout, `"ruleId": "invalid"`) {
		t.Errorf("exit code %d\n%s\n%s", got.Code, got.Stdout, got.Stderr)
	}
}

// An Autoscaler is linted as it is decided: with its own options.
func TestLintTakesAutoscalers(t *testing.T) {
	t.Parallel()
	const own = "# ours\n---\napiVersion: autoscaling.setpoint.dev/v1\nkind: Autoscaler\nmetadata: {name: web, namespace: shop}\nspec:\n" +
		"  scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}\n  maxReplicas: 20\n  behavior: {scaleDown: {selectPolicy: Max}}\n" +
		"  options:\n    tolerance: \"1\"\n"
	got := run(t, own, "lint", "-o", "json", "-")
	if !strings.Contains(got.Stdout, "tolerance-never-down") || !strings.Contains(got.Stdout, `"line":9`) {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
	if got := run(t, strings.Replace(own, "maxReplicas", "maxReplica", 1), "lint", "-"); got.Code != cli.ExitUsage || !strings.Contains(got.Stderr, "maxReplica") {
		t.Errorf("a typing error: exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
	// Where an Autoscaler's options would be lost, it is not taken.
	if got := run(t, own, "explain", "--hpa", "-"); got.Code == 0 {
		t.Errorf("explain takes it without its options: %s", got.Stdout)
	}
}

// Code hosts show a finding beside its line, also in files of several documents and in lists.
func TestLintTellsLines(t *testing.T) {
	t.Parallel()
	const object = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: NAME\nspec:\n  maxReplicas: 5\n  minReplicas: 5\n" +
		"  scaleTargetRef: {kind: Deployment, name: NAME, apiVersion: apps/v1}\n"
	a, b := strings.ReplaceAll(object, "NAME", "a"), strings.ReplaceAll(object, "NAME", "b")
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.TrimSuffix(strings.ReplaceAll(b, "\n", "\n  "), "  ")
	got := run(t, a+"---\n# the second\n"+list, "lint", "-o", "sarif", "-")
	if first, second := strings.Contains(got.Stdout, `"startLine": 6`), strings.Contains(got.Stdout, `"startLine": 19`); !first || !second {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Stdout, got.Stderr)
	}
}
