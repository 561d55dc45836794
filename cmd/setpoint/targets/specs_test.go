package targets

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const queueAutoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 20
  metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: 10}}}]
`

func TestSpecs(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	hpa := filepath.Join(t.TempDir(), "hpa.yaml")
	fatal.If(t, os.WriteFile(hpa, []byte(queueAutoscaler), 0o600))
	assumed := `{spec: {minReplicas: 3, maxReplicas: 9, metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "10"}}}]}, assumeApplied: true}`
	for _, tt := range []struct {
		name, stdin string
		args        []string
		code        int
		want        string
	}{
		{"what is not stored", "", []string{"get", demoTarget}, cli.ExitFailed, "no spec is stored of " + demoTarget},
		{"set with an etag what is not stored", "etag: aa\nspec: {maxReplicas: 3}", []string{"set", demoTarget, "-f", "-"}, cli.ExitFailed, "no spec is stored of " + demoTarget + ", so that none has that etag"},
		{"set another's spec", "name: demo/shop/other\nspec: {maxReplicas: 3}", []string{"set", demoTarget, "-f", "-"}, cli.ExitUsage, "-: is the spec of clusters/demo/namespaces/shop/targets/other, not of " + demoTarget},
		{"list a cluster", "", []string{"list", "clusters/demo"}, 0, "TARGET"},
		{"set an autoscaler", "", []string{"set", demoTarget, "-f", hpa}, 0, "Replicas   2 to 20"},
		{"list", "", []string{"list"}, 0, demoTarget + "   2     20    1"},
		{"get", "", []string{"get", demoTarget, "-o", "yaml"}, 0, "averageValue: \"10\""},
		{"poll without a scale", "", []string{"poll", demoTarget}, cli.ExitFailed, "the number of replicas of " + demoTarget + " is unknown"},
		{"poll without a metric", "", []string{"poll", demoTarget, "--current-replicas=4"}, cli.ExitFailed, "FailedGetExternalMetric"},
		{"set a spec", assumed, []string{"set", demoTarget, "-f", "-"}, 0, "Replicas   3 to 9"},
		{"set an older version", "etag: aa\nspec: {maxReplicas: 3}", []string{"set", demoTarget, "-f", "-"}, cli.ExitFailed, "has changed since that etag"},
		{"set what is wrong", "spec: {maxReplicas: 0}", []string{"set", demoTarget, "-f", "-"}, cli.ExitUsage, "-:1: looks like a stored spec: spec.maxReplicas: Invalid value: 0"},
		{"set without a file", "", []string{"set", demoTarget}, cli.ExitUsage, "--file is required"},
		{"set two autoscalers", queueAutoscaler + "---" + queueAutoscaler, []string{"set", demoTarget, "-f", "-"}, cli.ExitUsage, "-: holds 2 autoscalers, not one"},
		{"delete another version", "", []string{"delete", demoTarget, "--etag=aa"}, cli.ExitFailed, "has changed since that etag"},
		{"delete", "", []string{"delete", demoTarget}, 0, "spec of " + demoTarget + " deleted"},
		{"delete again", "", []string{"delete", demoTarget}, cli.ExitFailed, "no spec is stored of " + demoTarget + ": there is nothing to delete"},
	} {
		got := run(t, tt.stdin, append(append([]string{"specs"}, tt.args...), "--server", address)...)
		if got.Code != tt.code || !strings.Contains(got.Stdout+got.Stderr, tt.want) {
			t.Errorf("%s: exit code %d\n%s%s\nwant %d, %q", tt.name, got.Code, got.Stdout, got.Stderr, tt.code, tt.want)
		}
	}
}

// What list writes can be stored as such: on the same service, later, and on another one. Several documents can, too.
func TestSpecsListedAreStoredAgain(t *testing.T) {
	t.Parallel()
	address, other := clitest.StartServer(t), clitest.StartServer(t)
	specs := func(stdin, server string, code int, args ...string) clitest.Result {
		t.Helper()
		got := run(t, stdin, append(append([]string{"specs"}, args...), "--server", server)...)
		if got.Code != code {
			t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got.Code, code, got.Stdout, got.Stderr)
		}
		return got
	}
	const first = "name: clusters/a/namespaces/b/targets/one\nspec: {minReplicas: 2, maxReplicas: 4}\nperiod: 10s\n"
	two := first + "---\nname: a/b/two\nspec: {maxReplicas: 9}\nstages: {windowThroughFailures: true}\nshadows: [{name: next, spec: {maxReplicas: 12}}]\n"
	if got := specs(two, address, 0, "set", "-f", "-"); !strings.Contains(got.Stdout, "targets/one   2 ") || !strings.Contains(got.Stdout, "targets/two   1 ") {
		t.Errorf("two documents: %s", got.Stdout)
	}
	for _, form := range []string{"yaml", "json"} {
		listed := specs("", address, 0, "list", "-o", form).Stdout
		if !strings.Contains(listed, "next") || !strings.Contains(listed, "10s") {
			t.Fatalf("listed:\n%s", listed)
		}
		again := specs(listed, address, 0, "set", "-f", "-", "-o", form).Stdout
		if specs(again, address, 0, "set", "-f", "-"); withoutVersions(again) != withoutVersions(listed) {
			t.Errorf("%s: stored\n%s\nlisted\n%s", form, again, listed)
		}
		// Those versions are older ones now, and none at another service.
		got := specs(listed, address, cli.ExitFailed, "set", "-f", "-")
		if !strings.Contains(got.Stderr, "targets/one: ") || !strings.Contains(got.Stderr, "has changed since that etag") || !strings.Contains(got.Stderr, "of the 2 specs of the file none is stored") {
			t.Errorf("an older version: %s", got.Stderr)
		}
		specs(listed, other, 0, "set", "-f", "-", "--any-version")
		if there := specs("", other, 0, "list", "-o", form).Stdout; withoutVersions(there) != withoutVersions(listed) {
			t.Errorf("%s: elsewhere\n%s\nlisted\n%s", form, there, listed)
		}
	}
	before := specs("", address, 0, "list", "-o", "yaml").Stdout
	for _, tt := range []struct{ name, stdin, want string }{
		{"without a name", first + "---\nspec: {maxReplicas: 3}", "names no target: give TARGET"},
		{"a manifest", queueAutoscaler, "default/web names no target"},
		{"the same twice", first + "---\n" + first, "has two specs of clusters/a/namespaces/b/targets/one"},
		{"one that is wrong", first + "---\nname: a/b/two\nspec: {maxReplicas: 0}", "spec.maxReplicas: Invalid value: 0"},
		{"one that could not be read", "targetSpecs:\n- name: clusters/a/namespaces/b/targets/one\n", "targetSpecs[0]: looks like a stored spec: spec: Required value"},
	} {
		if got := specs(tt.stdin, address, cli.ExitUsage, "set", "-f", "-"); !strings.Contains(got.Stderr, tt.want) {
			t.Errorf("%s: %s, want %q", tt.name, got.Stderr, tt.want)
		}
	}
	if after := specs("", address, 0, "list", "-o", "yaml").Stdout; after != before {
		t.Errorf("bad input changed something:\n%s", after)
	}
}

// withoutVersions leaves out what each storing changes.
func withoutVersions(listed string) string {
	return regexp.MustCompile(`(?m)^.*(etag|createTime|updateTime)"?:.*\n`).ReplaceAllString(listed, "")
}

// All commands that take TARGET take its short name, and the error of one names the whole.
func TestSpecsTakeShortNames(t *testing.T) {
	t.Parallel()
	address, short := clitest.StartServer(t), shortOf(demoTarget)
	for _, tt := range []struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		{queueAutoscaler, []string{"set", short, "-f", "-"}, 0, demoTarget},
		{"", []string{"get", short}, 0, demoTarget},
		{"", []string{"poll", short, "--current-replicas=4"}, cli.ExitFailed, "FailedGetExternalMetric"},
		{"", []string{"promote", short, "next"}, cli.ExitFailed, "shadow next of " + demoTarget},
		{"", []string{"delete", short}, 0, "spec of " + demoTarget + " deleted"},
	} {
		got := run(t, tt.stdin, append(append([]string{"specs"}, tt.args...), "--server", address)...)
		if got.Code != tt.code || !strings.Contains(got.Stdout+got.Stderr, tt.want) {
			t.Errorf("%v: exit code %d\n%s%s\nwant %d, %q", tt.args, got.Code, got.Stdout, got.Stderr, tt.code, tt.want)
		}
	}
}

// What stages did is shown wherever their decision is: no arithmetic is known of it afterwards.
func TestStagesOfAStoredSpecAreShown(t *testing.T) {
	t.Parallel()
	address := clitest.StartServer(t)
	later := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	stored := `{spec: {minReplicas: 3, maxReplicas: 9, metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "10"}}}]},
  stages: {fallbacks: [{metric: "External:queue", replicas: 7}], schedules: [{name: office, timeZone: UTC, cron: "* * * * *", duration: 3600s, minReplicas: 5},
    {name: night, timeZone: Europe/Berlin, at: "` + later + `", duration: 3600s, maxReplicas: 8}, {name: spare, timeZone: UTC, cron: "0 0 * * *", duration: 60s, minReplicas: 4, suspended: true}]}}`
	const held = "held at 4 by somebody until "
	for _, tt := range []struct {
		name, stdin string
		args        []string
		want        []string
		never       string
	}{
		{"set", stored, []string{"specs", "set", demoTarget, "-f", "-"}, []string{"Stages     fallbacks (1), schedules (3)\n"}, ""},
		{"get", "", []string{"specs", "get", demoTarget}, []string{"Stages     fallbacks (1), schedules (3)\n"}, ""},
		{"override", "", []string{"override", "create", demoTarget, "--hold", "--for=2h", "--reason=freeze", "--id=f"}, []string{"created: hold"}, ""},
		{"poll", "", []string{"specs", "poll", demoTarget, "--current-replicas=4"}, []string{"\nStages ", "OVERRIDE hold: ", held, "without stages and overrides, this step: "}, "\x1b"},
		{"get target", "", []string{"targets", "get", demoTarget}, []string{"State overridden", "OVERRIDE hold: ", "without stages and overrides, this step: ", "\nSchedules", ` Europe/Berlin (`, `schedule "spare" is suspended`}, "\x1b"},
		{"decisions", "", []string{"targets", "decisions", demoTarget}, []string{"   NONE      override ", " begins, until ", "; schedule \"office\""}, "\x1b"},
		{"explain", "", []string{"targets", "explain", demoTarget}, []string{"\nState\n  overridden", "afterwards, as stages or overrides took part", held, "Schedules: minReplicas 5, maxReplicas 9 from ", `schedule "night" starts at `, ` Europe/Berlin (`, `: minReplicas 5, maxReplicas 8`, `schedule "night" ends at `, `: minReplicas 5, maxReplicas 9`, `schedule "spare" is suspended`}, "explain was not set"},
	} {
		got := run(t, tt.stdin, append(tt.args, "--server", address)...)
		text := strings.Join(strings.Fields(got.Stdout), " ") + got.Stdout
		for _, want := range tt.want {
			if got.Code != 0 || got.Stderr != "" || !strings.Contains(text, want) {
				t.Errorf("%s: exit code %d\n%s%s\nwant %q", tt.name, got.Code, got.Stdout, got.Stderr, want)
			}
		}
		if tt.never != "" && strings.Contains(got.Stdout, tt.never) || strings.Contains(got.Stdout, "Once applied") {
			t.Errorf("%s: says %q:\n%s", tt.name, tt.never, got.Stdout)
		}
	}
}
