package main

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func document(t *testing.T) *openapi3.T {
	t.Helper()
	read, err := openapi3.NewLoader().LoadFromFile("../../api/openapi/setpoint.openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// Errors of streams have two forms, the other one by proto/openapi.yaml.
func TestStreamsHaveErrorsOfTheirOwn(t *testing.T) {
	t.Parallel()
	operations, streams := 0, 0
	for _, item := range document(t).Paths.Map() {
		for _, operation := range item.Operations() {
			operations++
			schema := operation.Responses.Default().Value.Content["application/json"].Schema
			if !strings.Contains(*operation.Responses.Status(200).Value.Description, "stream") {
				if schema.Ref != "#/components/schemas/Status" {
					t.Errorf("%s: its errors are of %q", operation.OperationID, schema.Ref)
				}
				continue
			}
			streams++
			for _, form := range []string{`{"code": 3, "message": "m"}`, `{"error": {"code": 3, "message": "m"}}`} {
				var answer any
				if err := json.Unmarshal([]byte(form), &answer); err != nil {
					t.Fatal(err)
				}
				if err := schema.Value.VisitJSON(answer); err != nil {
					t.Errorf("%s: %s: %v", operation.OperationID, form, err)
				}
			}
			if schema.Value.VisitJSON(map[string]any{"error": "x"}) == nil || schema.Value.VisitJSON(map[string]any{"code": "x"}) == nil {
				t.Errorf("%s: generators get no type of its errors", operation.OperationID)
			}
		}
	}
	if operations < 15 || streams != 2 {
		t.Errorf("only %d operations, %d streams", operations, streams)
	}
}

// Paths are appended to the server's URL, and the result is relative to the document, wherever a proxy shows it.
func TestPathsAreBesideTheDocument(t *testing.T) {
	t.Parallel()
	at, err := url.Parse("https://example.org/below/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	d := document(t)
	for path := range d.Paths.Map() {
		if found, err := at.Parse(d.Servers[0].URL + path); err != nil || found.Path != "/below"+path {
			t.Fatalf("%s is at %s; %v", path, found, err)
		}
	}
}

// Generators make a type of each schema.
func TestEachSchemaIsUsed(t *testing.T) {
	t.Parallel()
	d := document(t)
	text, err := d.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name := range d.Components.Schemas {
		if !strings.Contains(string(text), `"#/components/schemas/`+name+`"`) {
			t.Errorf("nothing refers to %s", name)
		}
	}
}

// Every method of the contract has a page, also those that REST doesn't have.
func TestEveryMethodHasAPage(t *testing.T) {
	t.Parallel()
	contracts, err := filepath.Glob("../../proto/setpoint/v1/*_service.proto")
	if err != nil {
		t.Fatal(err)
	}
	methods := 0
	for _, contract := range contracts {
		source, err := os.ReadFile(contract)
		if err != nil {
			t.Fatal(err)
		}
		service := ""
		for line := range strings.Lines(string(source)) {
			words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" (){", r) })
			switch {
			case strings.HasPrefix(line, "service "):
				service = words[1]
			case strings.HasPrefix(line, "  rpc "):
				methods++
				if _, err := os.Stat("../../docs/reference/api/" + service + "." + words[1] + ".md"); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if methods < 20 {
		t.Errorf("only %d methods", methods)
	}
}

// A method without an example is not documented.
func TestAMethodWithoutAnExampleIsRefused(t *testing.T) {
	t.Parallel()
	err := pages(document(t), "../../proto/setpoint/v1/error_reason.proto", t.TempDir(), filepath.Join(t.TempDir(), "pages"))
	if err == nil || !strings.Contains(err.Error(), "has no example") {
		t.Errorf("%v", err)
	}
}

// What an example needs stands on the page, and not where only the documentation's test sees it.
func TestAHiddenPreparationIsRefused(t *testing.T) {
	t.Parallel()
	for _, hidden := range []string{"<!-- needs: service\nfirst: curl x -->\n", "<!-- first: curl x -->\n"} {
		examples := t.TempDir()
		if err := os.CopyFS(examples, os.DirFS("examples")); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(examples, "TargetService.GetTarget.md")
		if err := os.WriteFile(file, []byte(hidden+"```sh\ncurl y\n```\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := pages(document(t), "../../proto/setpoint/v1/error_reason.proto", examples, filepath.Join(t.TempDir(), "pages"))
		if err == nil || !strings.Contains(err.Error(), "TargetService.GetTarget.md prepares something") {
			t.Errorf("%q: %v", hidden, err)
		}
	}
}
