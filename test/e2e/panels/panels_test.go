//go:build linux

package panels_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/test/e2e/panels"
)

// Prometheus accepts the rules, and each fires when it should.
func TestAlertsFire(t *testing.T) {
	panels.Require(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", tests}} {
		command := exec.CommandContext(t.Context(), "promtool", args...)
		command.Dir = panels.Folder
		if out, err := command.CombinedOutput(); err != nil || strings.Contains(string(out), "FAILED") {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// Alerts use existing metrics. dashboards_test.go and test/e2e/kubernetes run the dashboards'
// queries on a real Prometheus.
func TestAlertsAreAboutMetricsThatThereAre(t *testing.T) {
	documented := map[string]bool{}
	for _, page := range []string{"metrics.md", "metrics-agents.md"} {
		for _, match := range regexp.MustCompile("(?m)^\\| `(setpoint_\\w+)` \\|").FindAllStringSubmatch(read(t, "../../../../docs/reference/"+page), -1) {
			documented[match[1]] = true
		}
	}
	names := regexp.MustCompile(`setpoint_\w+`).FindAllString(read(t, "alerts.yaml"), -1)
	if len(names) < 20 {
		t.Fatalf("%d metrics are found, which can't be all", len(names))
	}
	for _, name := range names {
		if !documented[strings.TrimSuffix(name, "_bucket")] {
			t.Errorf("alerts.yaml: no program exports %s", name)
		}
	}
}

// Each alert has a page, and tests of when it fires and of when it does not.
func TestEachAlertHasAPageAndTests(t *testing.T) {
	rules, cases, list := read(t, "alerts.yaml"), read(t, tests), read(t, "../../../../docs/runbooks/README.md")
	alerts := regexp.MustCompile(`(?m)^  - alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	if len(alerts) < 20 {
		t.Fatalf("%d alerts are found, which can't be all", len(alerts))
	}
	for _, match := range alerts {
		name := match[1]
		page := read(t, "../../../../docs/runbooks/"+name+".md")
		for _, heading := range []string{"# " + name + "\n", "**Meanwhile.**", "## Find the cause", "## Fix it"} {
			if !strings.Contains(page, heading) {
				t.Errorf("the page of %s lacks %q", name, heading)
			}
		}
		if !strings.Contains(rules, "/docs/runbooks/"+name+".md\n") {
			t.Errorf("%s does not link to its page", name)
		}
		if !strings.Contains(list, "]("+name+".md)") {
			t.Errorf("docs/runbooks/README.md lacks %s", name)
		}
		fires := regexp.MustCompile(`alertname: ` + name + `\n +eval_time: \w+\n +exp_alerts:`)
		quiet := regexp.MustCompile(`\{alertname: ` + name + `, eval_time: \w+\}`)
		if !fires.MatchString(cases) || !quiet.MatchString(cases) {
			t.Errorf("alerts_test.yaml lacks a test of when %s fires, or of when it does not", name)
		}
	}
}

// A number turns red on a dashboard where the alert about it fires.
func TestDashboardsAreRedWhereAlertsFire(t *testing.T) {
	rules := read(t, "alerts.yaml")
	for _, of := range []struct{ file, panel, alert string }{
		{"service", "Store", "SetpointStoreUnreachable"},
		{"service", "Failed calls", "SetpointErrors"},
		{"service", "p99", "SetpointSlow"},
		{"targets", "Failing metrics", "SetpointMetricsFail"},
		{"targets", "Failed recommendations", "SetpointErrors"},
		{"target", "Since the last decision", "SetpointTargetNotDecided"},
		{"agent", "Service", "SetpointAgentCannotReachService"},
		{"agent", "Failing evaluations", "SetpointAgentRefused"},
		{"agent", "Failing evaluations", "SetpointAgentCannotScale"},
		{"agent", "Late by, p99", "SetpointAgentLate"},
	} {
		var d struct {
			Panels []struct {
				Type, Title string
				Targets     []struct{ Expr string }
				FieldConfig struct {
					Defaults struct {
						Thresholds struct{ Steps []struct{ Value *float64 } }
					}
				}
			}
		}
		fatal.If(t, json.Unmarshal([]byte(read(t, "dashboards/setpoint-"+of.file+".json")), &d))
		_, rule, _ := strings.Cut(rules, "- alert: "+of.alert+"\n")
		rule, _, _ = strings.Cut(rule, "for: ")
		limit := regexp.MustCompile(`(?:> ([\d.]+)|== 0)\s*$`).FindStringSubmatch(strings.TrimSpace(rule))
		if limit == nil {
			t.Fatalf("%s has no limit: %s", of.alert, rule)
		}
		want := cmp.Or(limit[1], "1") // a gauge of 0 and 1
		failures := failuresIn(rule)
		found := false
		for _, p := range d.Panels {
			if p.Type != "stat" || p.Title != of.panel {
				continue
			}
			found = true
			if steps := p.FieldConfig.Defaults.Thresholds.Steps; len(steps) != 2 || strconv.FormatFloat(*steps[1].Value, 'g', -1, 64) != want {
				t.Errorf("%s: %s has thresholds %+v, and %s fires at %s", of.file, of.panel, steps, of.alert, want)
			}
			shown := failuresIn(p.Targets[0].Expr)
			if (len(shown) == 0) != (len(failures) == 0) || slices.ContainsFunc(shown, func(counted string) bool { return !slices.Contains(failures, counted) }) {
				t.Errorf("%s: %s counts %s, and %s counts %s", of.file, of.panel, shown, of.alert, failures)
			}
		}
		if !found {
			t.Errorf("%s has no %s", of.file, of.panel)
		}
	}
}

// failuresIn returns the counters of failures by code in a query, without what the reader chooses.
func failuresIn(expr string) []string {
	expr = strings.ReplaceAll(expr, `job=~"$job", instance=~"$instance", `, "")
	return regexp.MustCompile(`\w+\{[^}]*\bcode=[^}]*\}`).FindAllString(expr, -1)
}

// Deadlines of callers count as failures of all methods but streams, which may last for as long as those deadlines.
func TestDeadlinesCountWhereCallsAreNoStreams(t *testing.T) {
	stream := map[string]bool{} // by method
	row := regexp.MustCompile("(?m)^\\| `setpoint_streams_open` \\|.*$").FindString(read(t, "../../../../docs/reference/metrics.md"))
	for _, method := range regexp.MustCompile(`\w[\w.]*/\w+`).FindAllString(row, -1) {
		stream[method] = true
	}
	protoregistry.GlobalFiles.RangeFilesByPackage(setpointv1.File_setpoint_v1_target_service_proto.Package(), func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				stream[fmt.Sprintf("%s/%s", m.Parent().FullName(), m.Name())] = m.IsStreamingClient() || m.IsStreamingServer()
			}
		}
		return true
	})
	if len(stream) < 25 {
		t.Fatalf("%d methods are found, which can't be all", len(stream))
	}
	for _, file := range []string{"alerts.yaml", "dashboards/setpoint-service.json"} {
		match := regexp.MustCompile(`code="DeadlineExceeded", method!~"([^"]+)"`).FindStringSubmatch(strings.ReplaceAll(read(t, file), `\"`, `"`))
		if match == nil {
			t.Fatalf("%s: the deadlines of all methods count", file)
		}
		left := regexp.MustCompile("^(?:" + match[1] + ")$")
		for method, isStream := range stream {
			if left.MatchString(method) != isStream {
				t.Errorf("%s: of %s, a stream: %v, deadlines count: %v", file, method, isStream, isStream)
			}
		}
	}
}

// tests are the cases of each alert, seen from panels.Folder.
const tests = "../../../monitoring/alerts_test.yaml"

// read returns a file by its path from panels.Folder.
func read(t *testing.T, path string) string {
	t.Helper()
	return testpages.Read(t, filepath.Join(panels.Folder, path))
}
