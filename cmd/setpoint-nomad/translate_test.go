package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// What becomes of the checks of the Nomad Autoscaler. Each output is read as HCL and by the agent;
// test/e2e/nomad has Nomad parse one.
func TestTranslate(t *testing.T) {
	check := func(name, source, query, more, strategy string) string {
		asJSON, err := json.Marshal(query)
		fatal.If(t, err)
		return fmt.Sprintf(`{%q:[{"source":%q,"query":%s,%s"strategy":[{%s}]}]}`, name, source, asJSON, more, strategy)
	}
	cpu := check("cpu", "nomad-apm", "avg_cpu-allocated", "", `"target-value":[{"target":70.0}]`)
	jobs := check("jobs", "prometheus", "jobs", "", `"pass-through":[{}]`)
	cases := map[string]struct {
		policy string
		says   []string
		not    []string
	}{
		"cpu": {
			policy: `{"check":[` + cpu + `]}`,
			says:   []string{"cpu    = 70\n", "period = \"10s\"", "stabilizationWindowSeconds = 300", "= \"0.01\"", "cooldown of 5m0s"},
			not:    []string{"fallbacks"}, // if no metric is left, nothing is scaled there nor here
		},
		"prometheus": {
			policy: `{"cooldown":"1m","evaluation_interval":"20s","on_check_error":"fail","check":[` + check("queue", "prometheus", `sum(q{job="web"})`, `"query_window":"1m","query_window_offset":"2m",`,
				`"target-value":[{"target":30.0,"threshold":0.05,"max_scale_up":2.0,"max_scale_down":1.0}]`) + `]}`,
			says: []string{
				"metric \"queue\" {", "source = \"prometheus\"", `query  = "sum(q{job=\"web\"})"`, "value  = 30\n", "period = \"20s\"", "stabilizationWindowSeconds = 60",
				"= \"0.05\"", "value         = 2\n", "value         = 1\n", "periodSeconds = 20", "query_window: the latest", "query_window_offset: write", "must have a source \"prometheus\"",
				"check \"queue\": fail: if it fails nothing is scaled there",
			},
		},
		"a key that a terminal acts on": {policy: `{"check":[` + jobs + `],"\u001b[2J":1}`, says: []string{"\uFFFD[2J: there is no equal."}, not: []string{"\x1b"}},
		"pass-through":                  {policy: `{"check":[` + jobs + `]}`, says: []string{"average = 1\n"}},
		"a check that fails is left out unless told otherwise": {
			policy: `{"check":[` + jobs + `,` + cpu + `]}`, says: []string{"metric          = \"External:jobs\"\n", "metric          = \"Resource:cpu\"\n", "failureDuration = \"0s\"\n", "ignore          = true\n"},
		},
		"fail of a check among ignored ones": {
			policy: `{"on_check_error":"ignore","check":[` + check("q", "prometheus", "q", `"on_error":"fail",`, `"target-value":[{"target":1}]`) + `,` + jobs + `]}`,
			says:   []string{"metric          = \"External:jobs\"\n", "check \"q\": fail:"}, not: []string{"\"External:q\""},
		},
		"ignore of a check among failing ones": {
			policy: `{"on_check_error":"fail","check":[` + check("q", "prometheus", "q", `"on_error":"ignore",`, `"target-value":[{"target":1}]`) + `,` + jobs + `]}`,
			says:   []string{"metric          = \"External:q\"\n", "check \"jobs\": fail:"}, not: []string{"\"External:jobs\""},
		},
		"schedules and groups": {
			policy: `{"check":[` + check("jobs", "prometheus", "jobs", `"schedule":"0 8 * * *","group":"x",`, `"pass-through":[{}]`) + `]}`,
			says:   []string{"check \"jobs\": schedule: metrics count all day", "check \"jobs\": group: there is no equal"},
		},
		"nothing with an equal": {
			policy: `{"schedule":"0 8 * * *","target":[{"aws-asg":[{}]}],"check":[{"a":[{"query":"max_cpu","strategy":[{"target-value":[{"target":70}]}]}]},{"b":[{"source":"datadog","strategy":[{"threshold":[{}]}]}]}]}`,
			says: []string{
				"# schedule: metrics count all day; for more or fewer allocations at certain times see stages.schedules", "target \"aws-asg\"", "query \"max_cpu\" of nomad-apm",
				"strategy \"threshold\": there is no equal", "# No check has an equal, so there is no block setpoint",
			},
			not: []string{"scaling {", "setpoint {"},
		},
		"two checks of cpu": {
			policy: `{"check":[` + check("a", "nomad-apm", "avg_cpu-allocated", "", `"target-value":[{"target":80}]`) + `,` + check("b", "nomad-apm", "avg_cpu-allocated", "", `"target-value":[{"target":60.4}]`) + `]}`,
			says:   []string{"cpu    = 60\n", "check \"b\": another check has a target of cpu, too: the lower one asks for more, and counts: 60.", "check \"b\": target 60.4: cpu is a whole percentage here: 60."},
			not:    []string{"= 80"},
		},
		"two checks of a name": {
			policy: `{"check":[` + jobs + `,` + jobs + `,` + jobs + `]}`, says: []string{"metric \"jobs\" {", "metric \"jobs-2\" {", "metric \"jobs-3\" {", "another check has this name: the metric is \"jobs-2\"."},
		},
		"checks that differ in what is the group's here": {
			policy: `{"check":[` + check("a", "prometheus", "a", "", `"target-value":[{"target":1,"threshold":0.2,"max_scale_up":2,"max_scale_down":1}]`) + `,` +
				check("b", "prometheus", "b", "", `"target-value":[{"target":1,"threshold":0.05,"max_scale_down":3}]`) + `,` +
				check("c", "prometheus", "c", "", `"target-value":[{"target":1,"threshold":0.1}]`) + `]}`,
			says: []string{"= \"0.05\"", "# threshold: checks differ", "# max_scale_up: checks differ", "# max_scale_down: checks differ", "value         = 1\n", "# Without max_scale_up"},
			not:  []string{"\"0.2\"", "value         = 2\n", "value         = 3\n"},
		},
		"no step at all": {
			policy: `{"check":[` + check("a", "prometheus", "a", "", `"target-value":[{"target":1,"max_scale_up":0,"max_scale_down":0}]`) + `]}`, says: []string{"selectPolicy = \"Disabled\"\n"},
		},
		"templates in a query": {
			policy: `{"check":[` + check("a", "prometheus", "${x} %{y} $${z} %%{q} $ % \\\\d\n\x01", "", `"target-value":[{"target":1}]`) + `]}`, says: []string{`"$${x} %%{y}`},
		},
		"a target of 0":            {policy: `{"check":[` + check("a", "prometheus", "a", "", `"target-value":[{"target":0}]`) + `]}`, says: []string{"value  = 1\n", "target 0: the Nomad Autoscaler multiplies"}},
		"a target below 0":         {policy: `{"check":[` + check("a", "prometheus", "a", "", `"target-value":[{"target":-1}]`) + `]}`, says: []string{"target \"-1\": it is no number from 0", "No check has an equal"}},
		"a target of few":          {policy: `{"cooldown":90,"check":[` + check("a", "prometheus", "a", "", `"target-value":[{"target":0.0001}]`) + `]}`, says: []string{"value  = 0.0001\n", "target 0.0001: a target has thousandths here", "cooldown \"90\": it is no duration"}},
		"no target":                {policy: `{"check":[` + check("a", "prometheus", "a", "", `"target-value":[{}]`) + `]}`, says: []string{"target \"\": it is no number from 0"}},
		"a name that is refused":   {policy: `{"check":[` + check("External:a", "prometheus", "a", "", `"pass-through":[{}]`) + `]}`, says: []string{"# There is no block setpoint, because it would be refused:"}, not: []string{"setpoint {"}},
		"names with line breaks":   {policy: `{"a\nb":1,"check":[` + jobs + `]}`, says: []string{"# a b: there is no equal."}},
		"durations out of bounds":  {policy: `{"cooldown":"2h","evaluation_interval":"2h","check":[` + check("a", "prometheus", "a", "", `"target-value":[{"target":1,"max_scale_up":1}]`) + `]}`, says: []string{"period = \"1h0m0s\"", "periodSeconds = 1800", "stabilizationWindowSeconds = 3600", "2h0m0s becomes 1h0m0s here"}},
		"an interval below 1s":     {policy: `{"evaluation_interval":"100ms","check":[` + jobs + `]}`, says: []string{"period = \"1s\"", "100ms becomes 1s here"}},
		"numbers that are none":    {policy: `{"check":[` + check("a", "prometheus", "a", "", `"target-value":[{"target":1,"threshold":"x","max_scale_up":"many","max_scale_down":-1}]`) + `]}`, says: []string{"threshold \"x\"", "max_scale_up \"many\"", "max_scale_down \"-1\""}},
		"a percentage beyond them": {policy: `{"check":[` + check("a", "", "avg_cpu-allocated", "", `"target-value":[{"target":1e12}]`) + `]}`, says: []string{"would be refused: "}, not: []string{"setpoint {"}},
	}
	for name, c := range cases {
		file := filepath.Join(t.TempDir(), "job.json")
		job := `{"Job":{"ID":"web","TaskGroups":[{"Name":"web","Scaling":{"Min":2,"Max":10,"Policy":` + c.policy + `}},{"Name":"other"}]}}`
		fatal.If(t, os.WriteFile(file, []byte(job), 0o600))
		out, err := run(t, "translate", file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if strings.Contains(out, "setpoint {") {
			c.says = append(c.says, "  min = 2\n  max = 10\n")
			accepted(t, name, out)
		}
		for _, text := range append(c.says, "# group \"web\"\n") {
			if !strings.Contains(out, text) {
				t.Errorf("%s: it does not say %q:\n%s", name, text, out)
			}
		}
		for _, text := range c.not {
			if strings.Contains(out, text) {
				t.Errorf("%s: it says %q:\n%s", name, text, out)
			}
		}
	}
	for name, job := range map[string]string{"no job": `{}`, "no JSON": `job "web" {}`, "no checks": `{"Job":{"TaskGroups":[{"Name":"web"}]}}`} {
		file := filepath.Join(t.TempDir(), "job.json")
		fatal.If(t, os.WriteFile(file, []byte(job), 0o600))
		if _, err := run(t, "translate", file); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A query means in HCL what it means in the job.
func TestTranslatedQuery(t *testing.T) {
	for _, query := range []string{`sum(q{a="b"})`, "${x}", "%{y}", "$${z}", "%%{q}", "$$$ %% ${", `\d"`, "a\nb\x01\u0085c", "é"} {
		read := &hclReader{rest: hcl([]entry{{key: "query", value: query}}, "")}
		if got := read.body(); read.err != "" || got["query"] != query {
			t.Errorf("%q: got %q, %s", query, got["query"], read.err)
		}
	}
}

// accepted fails the test unless the output is HCL whose block the agent accepts.
func accepted(t *testing.T, name, out string) {
	t.Helper()
	read := &hclReader{rest: out}
	body := read.body()
	if read.err != "" || len(body) != 1 {
		t.Errorf("%s: not HCL: %s:\n%s", name, read.err, out)
		return
	}
	scaling := body["scaling"].([]any)[0].(map[string]any)
	least, most := int64(scaling["min"].(float64)), int64(scaling["max"].(float64))
	policy, hold := nomad.ParsePolicy(&api.ScalingPolicy{Min: &least, Max: &most, Policy: scaling["policy"].([]any)[0].(map[string]any)})
	if policy == nil || hold != nil || len(policy.Ignored) > 0 || len(policy.Warnings) > 0 {
		t.Errorf("%s: the agent says %+v, %+v of:\n%s", name, policy, hold, out)
	}
}

// hclReader reads the HCL that translate writes as Nomad does: an attribute is set once, and texts
// have escapes, and no templates.
type hclReader struct{ rest, err string }

var (
	hclBlock     = regexp.MustCompile(`^(\w+)(?: ("(?:[^"\\]|\\.)*"))? \{\n`)
	hclAttribute = regexp.MustCompile(`^(\w+) +=\s(?:("(?:[^"\\\n]|\\.)*")|(true|false)|(-?[0-9.]+))\n`)
	hclTemplate  = regexp.MustCompile(`(?:\$\$|%%|\$|%)\{`)
	hclEscape    = regexp.MustCompile(`\\(n|r|t|"|\\|u[0-9a-f]{4})`)
)

func (r *hclReader) body() map[string]any {
	out := map[string]any{}
	for r.err == "" && r.rest != "" {
		r.rest = strings.TrimLeft(r.rest, " ")
		if comment, after, ok := strings.Cut(r.rest, "\n"); ok && strings.HasPrefix(comment, "#") {
			r.rest = after
		} else if after, ok := strings.CutPrefix(r.rest, "}\n"); ok {
			r.rest = after
			return out
		} else if found := hclBlock.FindStringSubmatch(r.rest); found != nil {
			r.rest = r.rest[len(found[0]):]
			var inner any = r.body()
			if found[2] != "" {
				inner = map[string]any{r.text(found[2]): []any{inner}}
			}
			list, _ := out[found[1]].([]any)
			out[found[1]] = append(list, inner)
		} else if found := hclAttribute.FindStringSubmatch(r.rest); found != nil {
			if _, twice := out[found[1]]; twice {
				r.err = found[1] + " is redefined"
			}
			r.rest = r.rest[len(found[0]):]
			switch {
			case found[2] != "":
				out[found[1]] = r.text(found[2])
			case found[3] != "":
				out[found[1]] = found[3] == "true"
			default:
				out[found[1]], _ = strconv.ParseFloat(found[4], 64)
			}
		} else {
			r.err = "neither a block nor an attribute: " + r.rest
		}
	}
	return out
}

// text is what a quoted text means.
func (r *hclReader) text(quoted string) string {
	plain := hclTemplate.ReplaceAllStringFunc(quoted[1:len(quoted)-1], func(found string) string {
		if len(found) == 2 {
			r.err = "a template in " + quoted
		}
		return found[1:]
	})
	if left := hclEscape.ReplaceAllString(plain, ""); strings.Contains(left, `\`) {
		r.err = "an unknown escape in " + quoted
	}
	return hclEscape.ReplaceAllStringFunc(plain, func(found string) string {
		text, err := strconv.Unquote(`"` + found + `"`)
		if err != nil {
			r.err = err.Error()
		}
		return text
	})
}

// What is judged before it is written is what Nomad reads of it.
func TestTreeIsWhatNomadReads(t *testing.T) {
	entries := []entry{{"a", "", "x"}, {"b", "one", []entry{{"c", "", 1.5}}}, {"b", "two", []entry{{"d", "", true}}}, {"e", "", []entry{}}}
	read := &hclReader{rest: hcl(entries, "")}
	if got, want := read.body(), tree(entries); read.err != "" || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v, %s", got, want, read.err)
	}
	if !slices.Equal([]string{"a = \"x\""}, strings.Split(strings.TrimSpace(hcl(entries[:1], "")), "\n")) {
		t.Error(hcl(entries[:1], ""))
	}
}
