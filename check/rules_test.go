package check

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/lint"
)

// All that is wrong with the rules is told at once, with the line and what was meant.
func TestRulesThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, want string }{
		"a key that there is not":     {"rulez: {}", "1: unknown key rulez, did you mean rules?"},
		"a rule that there is not":    {"rules: {replicaHour: 5}", "rules: unknown key replicaHour, did you mean replicaHours?"},
		"a limit that can't be":       {"rules: {atMaximum: 101}", "rules.atMaximum: must be a number between 0 and 100"},
		"no number":                   {"rules: {atMaximum: .nan}", "rules.atMaximum: must be a number between 0 and 100"},
		"a level that there is not":   {"rules: {atMaximum: fatal}", "rules.atMaximum: must be a number between 0 and 100, error, warning or off"},
		"a limit of a level":          {"rules: {removed: 1}", "rules.removed: has no limit, only a level"},
		"a word in place of a limit":  {"rules: {changesPerHour: many}", "rules.changesPerHour: must be a number between 0 and 100000, error, warning or off"},
		"a level that is none":        {"rules: {removed: many}", "rules.removed: must be error, warning or off"},
		"a key of a rule":             {"rules: {atMaximum: {limits: 1}}", "rules.atMaximum: unknown key limits, did you mean limit?"},
		"a rule of lint":              {"lint: {ignore: [no-behaviour]}", `lint.ignore[0]: there is no rule "no-behaviour", did you mean "no-behavior"?`},
		"a severity":                  {"lint: {failOn: fatal}", "lint.failOn: must be error, warning, note or never"},
		"a quantity":                  {"assume: {cpuLimit: -1}", "assume.cpuLimit: must be a quantity"},
		"another resource":            {"assume: {idle: {gpu: 1}}", "assume.idle: unknown key gpu"},
		"a target without namespace":  {"targets: [{match: web, rules: {}}]", "targets[0].match: must be NAMESPACE/NAME"},
		"a target without rules":      {"targets: [{match: a/b}]", "targets[0]: rules is missing"},
		"a pattern":                   {"ignore: ['[']", "ignore[0]: must be a path"},
		"aliases":                     {"rules: &a {atMaximum: 1}", "anchors and aliases"},
		"too many":                    {"ignore: [" + strings.Repeat("a,", maxList) + "a]", "there are more than 200"},
		"a file that is too long":     {strings.Repeat("#", 2<<20), "is longer than"},
		"several problems, each told": {"rules: {atMaximum: 101, replicaHour: 5}\nlint: {failOn: x}", "lint.failOn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadSettings("check.yaml", []byte(tt.file))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if name == "several problems, each told" && strings.Count(err.Error(), "\n") != 2 {
				t.Errorf("not all problems: %v", err)
			}
		})
	}
}

// What is left out has its default, a limit switches a rule on, and the first target that matches counts.
func TestRulesAsATeamWritesThem(t *testing.T) {
	t.Parallel()
	s, err := ReadSettings(RulesFile, []byte("rules: {different: 0, replicaHours: {level: warning}, atMaximum: off}\n"+
		"lint: {failOn: never}\ntargets:\n- {match: batch/*, rules: {replicaHours: 20, history: off}}\n- {match: '*/web', rules: {history: error}}\n"))
	fatal.If(t, err)
	for _, tt := range []struct {
		key, object string
		want        Limit
	}{
		{"different", "shop/web", Limit{0, Error}},
		{"replicaHours", "shop/web", Limit{5, Warning}},
		{"replicaHours", "batch/web", Limit{20, Warning}},
		{"atMaximum", "batch/web", Limit{5, Off}},
		{"history", "batch/web", Limit{1, Off}},
		{"history", "shop/web", Limit{1, Error}},
		{"history", "shop/api", Limit{1, Warning}},
	} {
		if got := s.limit(tt.key, tt.object); got != tt.want {
			t.Errorf("%s of %s: %+v, want %+v", tt.key, tt.object, got, tt.want)
		}
	}
	if s.FailOn != "" {
		t.Errorf("lint fails on %q", s.FailOn)
	}
	for _, empty := range []string{"", "# nothing\n"} {
		if s, err := ReadSettings("", []byte(empty)); err != nil || s.FailOn != lint.Warning {
			t.Errorf("%q: %+v, %v", empty, s, err)
		}
	}
}

// The order of keys says nothing: a level counts before its limit, too, and targets before the rules.
func TestTheOrderOfKeysSaysNothing(t *testing.T) {
	t.Parallel()
	const rules, targets = "rules: {different: %s, replicaHours: {level: warning}}\n", "targets: [{match: batch/*, rules: {replicaHours: 20}}]\n"
	for _, file := range []string{fmt.Sprintf(rules, "{limit: 3, level: off}") + targets, targets + fmt.Sprintf(rules, "{level: off, limit: 3}")} {
		s, err := ReadSettings(RulesFile, []byte(file))
		fatal.If(t, err)
		if got := s.limit("different", "shop/web"); got != (Limit{3, Off}) {
			t.Errorf("%s: different is %+v", file, got)
		}
		if got := s.limit("replicaHours", "batch/web"); got != (Limit{20, Warning}) {
			t.Errorf("%s: replicaHours of the target is %+v", file, got)
		}
	}
}

// The page's example is a file that can be read, and has every key that there is.
func TestTheExampleHasEveryKey(t *testing.T) {
	t.Parallel()
	s, err := ReadSettings("example", []byte(Example))
	fatal.If(t, err)
	if s.Assumed.CPULimit != 1000 || len(s.Assumed.Idle) != 2 || len(s.Recordings) != 1 || !s.ignores("charts/a/b.yaml") || !s.ignores("overlays/x/patch.yaml") || s.ignores("overlays/x/y/patch.yaml") {
		t.Errorf("%+v", s)
	}
	for i := range Rules {
		r := &Rules[i]
		if measures[r.Key] == nil && !r.limitless() {
			t.Errorf("nothing measures %s", r.Key)
		}
		if r.Default < r.Least || r.Default > r.Most || math.IsNaN(r.Default) {
			t.Errorf("the default of %s is out of its bounds", r.Key)
		}
		if !strings.Contains(Document(), "\n### "+r.ID+"\n") {
			t.Errorf("the page has no %s", r.ID)
		}
	}
}

// A title stands after "failed" as after "passed": one that tells the good outcome would read as the opposite.
func TestTitlesAreNeutral(t *testing.T) {
	t.Parallel()
	for _, r := range asLint() {
		if strings.HasPrefix(r.Title, "no ") || strings.Contains(r.Title, " is valid") {
			t.Errorf("%s: %q", r.ID, r.Title)
		}
	}
}
