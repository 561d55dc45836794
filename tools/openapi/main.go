// The program openapi makes of the gateway's description of the REST API, which is OpenAPI 2.0
// (Swagger), that which others read: the OpenAPI 3.0 document, and docs/reference/api, a page for
// each method:
//
//	openapi document SWAGGER FILE
//	openapi pages SWAGGER PROTO EXAMPLES FOLDER
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "document":
		document, err := convert(args[1])
		if err != nil {
			return err
		}
		text, err := used(document)
		if err != nil {
			return err
		}
		return os.WriteFile(args[2], append(text, '\n'), 0o644)
	case len(args) == 5 && args[0] == "pages":
		document, err := convert(args[1])
		if err != nil {
			return err
		}
		return pages(document, args[2], args[3], args[4])
	}
	return errors.New("usage: openapi document SWAGGER FILE, or openapi pages SWAGGER PROTO EXAMPLES FOLDER")
}

// used returns the document without schemas that nothing refers to: those of answers of which REST has one field only.
func used(document *openapi3.T) ([]byte, error) {
	for {
		text, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			return nil, err
		}
		before := len(document.Components.Schemas)
		maps.DeleteFunc(document.Components.Schemas, func(name string, _ *openapi3.SchemaRef) bool {
			return !bytes.Contains(text, []byte(`"#/components/schemas/`+name+`"`))
		})
		if len(document.Components.Schemas) == before {
			return text, nil
		}
	}
}

// convert reads the gateway's description as OpenAPI 3.0, with the contract's rules.
func convert(name string) (*openapi3.T, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, err
	}
	alone(plain)
	if text, err = json.Marshal(plain); err != nil {
		return nil, err
	}
	var swagger openapi2.T
	if err := json.Unmarshal(text, &swagger); err != nil {
		return nil, err
	}
	document, err := openapi2conv.ToV3(&swagger)
	if err != nil {
		return nil, err
	}
	// Beside the document, wherever a proxy shows it; OpenAPI 2.0 knows neither this nor bearers.
	// Without a slash at its end: paths begin with one.
	document.Servers = openapi3.Servers{{URL: "."}}
	for _, scheme := range document.Components.SecuritySchemes {
		*scheme.Value = openapi3.SecurityScheme{Type: "http", Scheme: "bearer", Description: scheme.Value.Description}
	}
	streams(document.Paths)
	if err := addRules(document.Components.Schemas); err != nil {
		return nil, err
	}
	var encoded bytes.Buffer
	if err := json.NewEncoder(&encoded).Encode(document); err != nil {
		return nil, err
	}
	// Parse it as a user would, which resolves every reference.
	read, err := openapi3.NewLoader().LoadFromData(encoded.Bytes())
	if err != nil {
		return nil, err
	}
	return read, read.Validate(context.Background())
}

// streams says what the answers of streams are, for which the gateway has no words: lines, and errors of two forms, both of
// which fit one schema.
func streams(paths *openapi3.Paths) {
	for _, item := range paths.Map() {
		for _, operation := range item.Operations() {
			lines := operation.Responses.Status(http.StatusOK).Value
			if !strings.Contains(*lines.Description, "streaming") {
				continue
			}
			*lines.Description = "A stream of lines, each a JSON object: a result, or, as the last line, the error that ended the stream."
			status := openapi3.NewSchemaRef("#/components/schemas/Status", nil)
			operation.Responses.Default().Value.Content["application/json"].Schema.Value = &openapi3.Schema{
				AllOf: openapi3.SchemaRefs{status}, Properties: openapi3.Schemas{"error": status},
			}
		}
	}
}

// alone gives each $ref that the gateway wrote beside other words an object of its own, in allOf:
// beside it they are ignored.
func alone(node any) {
	switch node := node.(type) {
	case []any:
		for _, each := range node {
			alone(each)
		}
	case map[string]any:
		for _, each := range node {
			alone(each)
		}
		if ref, ok := node["$ref"]; ok && len(node) > 1 {
			delete(node, "$ref")
			if delete(node, "type"); len(node) == 0 { // of items
				node["$ref"] = ref
				return
			}
			node["allOf"] = []any{map[string]any{"$ref": ref}}
		}
	}
}
