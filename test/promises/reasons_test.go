package promises

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// constants returns the values of the string constants of Go files that pick selects by name
// and type, "" for none.
func constants(t *testing.T, pick func(name, kind string) bool, files ...string) (values []string) {
	t.Helper()
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", file), nil, 0)
		fatal.If(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != len(spec.Names) {
				return true
			}
			kind := ""
			if id, ok := spec.Type.(*ast.Ident); ok {
				kind = id.Name
			}
			for i, name := range spec.Names {
				literal, ok := spec.Values[i].(*ast.BasicLit)
				if ok && literal.Kind == token.STRING && pick(name.Name, kind) {
					value, err := strconv.Unquote(literal.Value)
					fatal.If(t, err)
					values = append(values, value)
				}
			}
			return true
		})
	}
	return values
}

// TestEveryReasonIsExplained compares docs/reference/reasons.md with the code: every reason or
// error of the programs has a row, and every row an existing reason.
func TestEveryReasonIsExplained(t *testing.T) {
	all := func(string, string) bool { return true }
	reasons := constants(t, all, "recommender/reasons.go", "clients/agent/reasons.go")
	reasons = append(reasons, constants(t, func(_, kind string) bool { return kind == "LimitReason" }, "recommender/ratelimit.go")...)
	reasons = append(reasons, constants(t, func(_, kind string) bool { return kind == "SelectorReason" }, "recommender/input.go")...)
	reasons = append(reasons, constants(t, func(name, _ string) bool { return strings.HasPrefix(name, "Reason") },
		"clients/nomad/platform.go", "clients/swarm/platform.go")...)
	reasons = append(reasons, constants(t, func(name, _ string) bool {
		return slices.Contains([]string{"AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"}, name)
	}, "recommender/status.go")...)
	reasons = append(reasons, constants(t, func(name, _ string) bool { return strings.HasPrefix(name, "limitOf") }, "server/overrides/room.go")...)
	reasons = append(reasons, "ConflictingController", "FailedUpdateStatus") // Kubernetes' own types
	if len(reasons) < 45 {
		t.Fatalf("%d reasons: have the constants another form?", len(reasons))
	}
	for number, name := range setpointv1.ErrorReason_name {
		if number != 0 {
			reasons = append(reasons, strings.TrimPrefix(name, "ERROR_REASON_"))
		}
	}
	for _, reason := range limit.Reasons() {
		reasons = append(reasons, reason.String())
	}
	for _, reason := range auth.Reasons() {
		reasons = append(reasons, string(reason))
	}

	explained := map[string]bool{}
	name := regexp.MustCompile("`([A-Za-z_]+)`")
	for line := range strings.Lines(testpages.Read(t, "../../docs/reference/reasons.md")) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for _, match := range name.FindAllStringSubmatch(cells[1], -1) {
				explained[match[1]] = true
			}
		}
	}
	for _, reason := range reasons {
		if !explained[reason] {
			t.Errorf("docs/reference/reasons.md does not explain %s", reason)
		}
	}
	for row := range explained {
		if !slices.Contains(reasons, row) {
			t.Errorf("docs/reference/reasons.md explains %s, which nothing says", row)
		}
	}
}
