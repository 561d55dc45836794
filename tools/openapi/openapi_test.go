package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const swagger = "../../api/openapi/setpoint.swagger.json"

// The pages see every operation, under its name.
func TestTheDocumentHasEveryOperation(t *testing.T) {
	t.Parallel()
	document, err := convert(swagger)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(swagger)
	if err != nil {
		t.Fatal(err)
	}
	operations := 0
	for _, item := range document.Paths.Map() {
		for _, operation := range item.Operations() {
			operations++
			if !strings.Contains(string(source), `"operationId": "`+operation.OperationID+`"`) {
				t.Errorf("%s is not in the Swagger document", operation.OperationID)
			}
			// Errors of streams have another form, by proto/openapi.yaml.
			stream := strings.Contains(*operation.Responses.Status(200).Value.Description, "streaming")
			schema := operation.Responses.Default().Value.Content["application/json"].Schema
			if bare := schema.Ref == "#/components/schemas/rpcStatus"; bare == stream {
				t.Errorf("%s: a stream %t, its errors are of %q", operation.OperationID, stream, schema.Ref)
			}
		}
	}
	if want := strings.Count(string(source), `"operationId":`); operations != want || want < 15 {
		t.Errorf("%d operations of %d", operations, want)
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
	document, err := convert(swagger)
	if err != nil {
		t.Fatal(err)
	}
	err = pages(document, "../../proto/setpoint/v1/error_reason.proto", t.TempDir(), filepath.Join(t.TempDir(), "pages"))
	if err == nil || !strings.Contains(err.Error(), "has no example") {
		t.Errorf("%v", err)
	}
}
