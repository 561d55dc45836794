package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// texts has the texts of the pages that operators read, by their paths from the root.
func texts(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name := range markdownFiles(t).pages {
		if strings.HasPrefix(name, "docs/") || strings.HasPrefix(name, "deploy/") || name == "README.md" {
			all[name] = testpages.Read(t, filepath.Join(root, name))
		}
	}
	return all
}

// reference returns what a pattern finds in the pages that match a glob, which are generated from the programs.
func reference(t *testing.T, glob, pattern string) map[string]bool {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, glob))
	fatal.If(t, err)
	found := map[string]bool{}
	for _, page := range pages {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(testpages.Read(t, page), -1) {
			found[match[1]] = true
		}
	}
	return found
}

// said calls check with each first group of a pattern in the pages. It fails if there are fewer than want.
func said(t *testing.T, pattern string, want int, check func(name string) (problem string)) {
	t.Helper()
	n := 0
	all := texts(t)
	for _, page := range slices.Sorted(maps.Keys(all)) {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(all[page], -1) {
			n++
			if problem := check(match[1]); problem != "" {
				t.Errorf("%s: %s: %s", page, match[1], problem)
			}
		}
	}
	if n < want {
		t.Errorf("only %d were checked", n)
	}
}

// Who looks at a runbook types what it names: metrics, alerts, flags, variables and values of the chart are those of the programs.
func TestNamesOnPagesExist(t *testing.T) {
	t.Parallel()
	isIn := func(names map[string]bool, what string) func(string) string {
		return func(name string) string {
			if names[name] {
				return ""
			}
			return "there is no such " + what
		}
	}
	t.Run("metrics", func(t *testing.T) {
		t.Parallel()
		names := reference(t, "docs/reference/*.md", "`(setpoint_[a-z_]+)[`{]")
		for name := range reference(t, "docs/reference/*.md", "\\| `(setpoint_[a-z_]+)` \\| histogram") {
			names[name+"_bucket"], names[name+"_count"], names[name+"_sum"] = true, true, true
		}
		if len(names) < 120 {
			t.Fatalf("only %d are known", len(names))
		}
		said(t, `\b(setpoint_[a-z_]+_(?:total|seconds|bytes|bucket|up|replicas))\b`, 200, isIn(names, "metric"))
	})
	t.Run("alerts", func(t *testing.T) {
		t.Parallel()
		said(t, `\b(Setpoint[A-Z]\w+)(?:\.md|\]|`+"`"+` fires)`, 100, isIn(reference(t, "deploy/helm/setpoint/files/alerts.yaml", `alert: (\w+)`), "alert"))
	})
	flags := reference(t, "docs/reference/cli/*.md", `--([a-z][a-z0-9-]*)`)
	t.Run("flags", func(t *testing.T) {
		t.Parallel()
		// Of redis-cli, docker, helm and the controller manager, whose flags stand alone.
		others := []string{"user", "askpass", "label", "container-label", "cacert", "cert", "key", "ca-dir", "wait", "cascade", "take-ownership", "concurrent-horizontal-pod-autoscaler-syncs"}
		flag := regexp.MustCompile(`--([a-z][a-z0-9-]*[a-z0-9])(?:[^-a-z0-9]|$)`)
		said(t, "`((?:/?setpoint[a-z-]* |--)[^`\n|]*)`", 500, func(command string) string {
			for _, match := range flag.FindAllStringSubmatch(command, -1) {
				if name := match[1]; !flags[name] && !slices.Contains(others, name) && !strings.HasPrefix(name, "horizontal-pod-autoscaler-") {
					return "there is no flag --" + name
				}
			}
			return ""
		})
	})
	t.Run("variables", func(t *testing.T) {
		t.Parallel()
		names := reference(t, "docs/reference/cli/*.md", `\b(SETPOINT_[A-Z_]*[A-Z])\b`)
		for _, name := range []string{"IMAGE", "LOG_DRIVER", "CHECK_IMAGE", "URL", "TOKEN"} { // of Compose files, check/ and examples
			names["SETPOINT_"+name] = true
		}
		for flag := range flags {
			names["SETPOINT_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))] = true
		}
		said(t, `\b(SETPOINT_[A-Z_]*[A-Z])\b`, 50, isIn(names, "variable"))
	})
	t.Run("values", func(t *testing.T) {
		t.Parallel()
		text, err := os.ReadFile(filepath.Join(root, "deploy/helm/setpoint/values.yaml"))
		fatal.If(t, err)
		var values map[string]any
		fatal.If(t, yaml.Unmarshal(text, &values))
		said(t, "(?:`|--set(?:-string|-file|-json)? '?)((?:"+strings.Join(slices.Sorted(maps.Keys(values)), "|")+")(?:\\.[A-Za-z]+)+)[`=]", 100, func(path string) string {
			at := values
			for name := range strings.SplitSeq(path, ".") {
				value, there := at[name]
				if !there && !strings.HasSuffix(path, ".conf") && !strings.HasSuffix(path, ".sh") { // files
					return "the chart has no such value"
				}
				if at, there = value.(map[string]any); !there || len(at) == 0 { // what is below is the user's
					return ""
				}
			}
			return ""
		})
	})
}
