package setpoint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// conditionTypes returns the types of the conditions that the service sets, with where: those in calls of the functions that set
// conditions, and in conditions that are made by hand.
func conditionTypes(t *testing.T) map[string]token.Position {
	t.Helper()
	all := token.NewFileSet()
	constants, found := map[string]string{}, map[string]token.Position{}
	var sources []*ast.File
	for _, folder := range []string{"recommender", "stages", "server/fleets"} {
		names, err := filepath.Glob("../../" + folder + "/*.go")
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: no sources: %v", folder, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			source, err := parser.ParseFile(all, name, nil, 0)
			fatal.If(t, err)
			sources = append(sources, source)
			ast.Inspect(source, func(n ast.Node) bool {
				if spec, is := n.(*ast.ValueSpec); is && len(spec.Values) == 1 {
					if text, is := spec.Values[0].(*ast.BasicLit); is && text.Kind == token.STRING {
						constants[spec.Names[0].Name], _ = strconv.Unquote(text.Value)
					}
				}
				return true
			})
		}
	}
	nameOf := func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.Ident:
			return e.Name
		case *ast.SelectorExpr:
			return e.Sel.Name
		}
		return ""
	}
	note := func(values ...ast.Expr) {
		for _, value := range values { // the type is the first constant
			kind, is := constants[nameOf(value)]
			if is {
				found[kind] = all.Position(value.Pos())
			}
			if is || nameOf(value) == "kind" { // these functions pass it on
				return
			}
		}
	}
	for _, source := range sources {
		ast.Inspect(source, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if name := nameOf(n.Fun); name == "setCondition" || name == "condition" || name == "Set" {
					note(n.Args...)
				}
			case *ast.CompositeLit:
				kind := n.Type
				if list, is := kind.(*ast.ArrayType); is {
					kind = list.Elt
				}
				ast.Inspect(n, func(in ast.Node) bool {
					if field, is := in.(*ast.KeyValueExpr); is && nameOf(kind) == "Condition" && nameOf(field.Key) == "Type" {
						note(field.Value)
					}
					return true
				})
			}
			return true
		})
	}
	return found
}

// A condition that is left out of the seed has a new transition time after its history was lost.
func TestTheSeedHasAllTypesOfConditions(t *testing.T) {
	t.Parallel()
	types := conditionTypes(t)
	for kind, at := range types {
		status := &setpointv1.HorizontalPodAutoscalerStatus{Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{Type: kind, Status: "True", Reason: "X"}}}
		if len(setpoint.Seed(status).GetConditions()) != 1 {
			t.Errorf("%s: the service sets the condition %s, which isSeedType of seed.go does not name", at, kind)
		}
	}
	for _, known := range []string{"AbleToScale", "ScaledToZero", "Overridden", "MetricSuspect"} {
		if _, ok := types[known]; !ok {
			t.Errorf("%s is not found among the sources", known)
		}
	}
}
