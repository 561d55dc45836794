package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What becomes of the checks of the Nomad Autoscaler; test/e2e/nomad has Nomad parse the result.
func TestTranslate(t *testing.T) {
	for name, c := range map[string]struct {
		policy string
		says   []string
	}{
		"cpu": {
			`{"check":[{"cpu":[{"source":"nomad-apm","query":"avg_cpu-allocated","strategy":[{"target-value":[{"target":70.0}]}]}]}]}`,
			[]string{"cpu = 70\n", "period = \"10s\"", "stabilizationWindowSeconds = 300", "tolerance = \"0.01\"", "cooldown of 5m0s"},
		},
		"prometheus": {
			`{"cooldown":"1m","evaluation_interval":"20s","on_check_error":"fail","check":[{"queue":[{"source":"prometheus","query":"sum(q{job=\"web\"})","query_window":"1m",
			 "strategy":[{"target-value":[{"target":30.0,"threshold":0.05,"max_scale_up":2.0,"max_scale_down":1.0}]}]}]}]}`,
			[]string{
				"metric \"queue\" {", "source = \"prometheus\"", `query  = "sum(q{job=\"web\"})"`, "value = 30\n", "period = \"20s\"", "stabilizationWindowSeconds = 60",
				"tolerance = \"0.05\"", "value         = 2\n", "value         = 1\n", "periodSeconds = 20", "query_window: write", "on_check_error", "must have a source \"prometheus\"",
			},
		},
		"pass-through": {
			`{"check":[{"jobs":[{"source":"prometheus","query":"jobs","strategy":[{"pass-through":[{}]}]}]}]}`, []string{"average = 1\n"},
		},
		"ignored": {
			`{"on_check_error":"ignore","check":[{"jobs":[{"source":"prometheus","query":"jobs","on_error":"ignore","schedule":"0 8 * * *","group":"x","strategy":[{"pass-through":[{}]}]}]},
			 {"cpu":[{"source":"nomad-apm","query":"avg_cpu-allocated","strategy":[{"target-value":[{"target":70.0}]}]}]}]}`,
			[]string{
				"stages {\n        fallbacks {\n          metric          = \"External:jobs\"\n          failureDuration = \"0s\"\n          ignore          = true\n        }\n",
				"metric          = \"Resource:cpu\"\n", "check \"jobs\": schedule: metrics count all day", "check \"jobs\": group: there is no equal",
			},
		},
		"without equal": {
			`{"schedule":"0 8 * * *","target":[{"aws-asg":[{}]}],"check":[{"a":[{"query":"max_cpu","strategy":[{"target-value":[{"target":70}]}]}]},{"b":[{"source":"datadog","strategy":[{"threshold":[{}]}]}]}]}`,
			[]string{"# schedule: metrics count all day; for more or fewer allocations at certain times see stages.schedules", "target \"aws-asg\"", "query \"max_cpu\" of nomad-apm", "strategy \"threshold\": there is no equal"},
		},
	} {
		file := filepath.Join(t.TempDir(), "job.json")
		job := `{"Job":{"ID":"web","TaskGroups":[{"Name":"web","Scaling":{"Min":2,"Max":10,"Policy":` + c.policy + `}},{"Name":"other"}]}}`
		if err := os.WriteFile(file, []byte(job), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := run(t, "translate", file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range append(c.says, "# group \"web\"\n", "min = 2\n", "max = 10\n") {
			if !strings.Contains(out, text) {
				t.Errorf("%s: it does not say %q:\n%s", name, text, out)
			}
		}
	}
	for name, job := range map[string]string{"no job": `{}`, "no JSON": `job "web" {}`, "no checks": `{"Job":{"TaskGroups":[{"Name":"web"}]}}`} {
		file := filepath.Join(t.TempDir(), "job.json")
		if err := os.WriteFile(file, []byte(job), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := run(t, "translate", file); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
