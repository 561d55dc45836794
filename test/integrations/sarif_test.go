package integrations

import (
	"bytes"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/xeipuuv/gojsonschema"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/check"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// The types of go-sarif are not used: they lose what is absent, or not known. Its package has the schema.
var _ sarif.Report

// schemaOfSARIF is the schema of OASIS for SARIF 2.1.0, errata 1, which go-sarif carries in its source.
func schemaOfSARIF(t *testing.T) *gojsonschema.Schema {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif").Output()
	fatal.If(t, err)
	file, err := parser.ParseFile(gotoken.NewFileSet(), filepath.Join(strings.TrimSpace(string(folder)), "schema.go"), nil, 0)
	fatal.If(t, err)
	literal, ok := file.Scope.Lookup("schema").Decl.(*ast.ValueSpec).Values[0].(*ast.BasicLit)
	if !ok {
		t.Fatal("schema is no text")
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil || !strings.Contains(text, "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json") {
		t.Fatalf("%v: %.200s", err, text)
	}
	schema, err := gojsonschema.NewSchema(gojsonschema.NewStringLoader(text))
	fatal.If(t, err)
	return schema
}

// TestSARIFIsThatOfTheSchema: of checks that pass, fail, can't be read, and have names that break formats.
func TestSARIFIsThatOfTheSchema(t *testing.T) {
	t.Parallel()
	schema := schemaOfSARIF(t)
	problems := func(data string) []gojsonschema.ResultError {
		result, err := schema.Validate(gojsonschema.NewStringLoader(data))
		fatal.If(t, err)
		return result.Errors()
	}
	hpa := testpages.Read(t, "../../examples/simulation/hpa.yaml")
	old := hpa
	asIs := func(own *setpointv1.RecommendOptions) *setpointv1.RecommendOptions { return own }
	for name, now := range map[string]string{
		"the same":     old,
		"changed":      strings.Replace(old, "maxReplicas: 50", "maxReplicas: 5", 1),
		"refused":      strings.Replace(old, "maxReplicas: 50", "maxReplicas: 1", 1),
		"metric names": strings.Replace(old, "name: cpu", `name: "cpu|\n::error::\u0007 <b>"`, 1),
	} {
		for _, file := range []string{"web.yaml", "we b%|\n::error::`ü\x1b.yaml", "-", `C:\x\web.yaml`, "/../web.yaml"} {
			in := &check.Input{Settings: check.Defaults(), Changes: &check.Changes{Old: check.NewSide(asIs), New: check.NewSide(asIs)}}
			in.Settings.Existing = true
			fatal.If(t, in.Changes.Old.Read(file, strings.NewReader(old)))
			fatal.If(t, in.Changes.New.Read(file, strings.NewReader(now)))
			report, err := check.Run(t.Context(), in)
			fatal.If(t, err)
			var out bytes.Buffer
			fatal.If(t, report.WriteSARIF(&out, "v1"))
			if found := problems(out.String()); len(found) > 0 {
				t.Errorf("%s, %q: %v", name, file, found)
			}
			// The schema is looked at.
			for what, broken := range map[string][2]string{
				"an unknown field": {`"version": "2.1.0"`, `"version": "2.1.0", "verzion": ""`},
				"no address":       {"https://github.com/setpoint-dev/setpoint/blob/main/docs/reference/lint.md#two-autoscalers", "not an address"},
				"no level":         {`"level": "error"`, `"level": "bad"`},
				"another version":  {`"version": "2.1.0"`, `"version": "2.2.0"`},
			} {
				if got := strings.Replace(out.String(), broken[0], broken[1], 1); got == out.String() || len(problems(got)) == 0 {
					t.Errorf("%s, %q: %s is valid", name, file, what)
				}
			}
		}
	}
}
