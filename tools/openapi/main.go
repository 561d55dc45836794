// The program openapi generates files from the Swagger 2.0 document of the REST API:
//
//	openapi document SWAGGER >OPENAPI           the same as OpenAPI 3.1, JSON
//	openapi pages SWAGGER PROTO EXAMPLES FOLDER  docs/reference/api, a page for each method
//
// See docs/decisions/0101-two-openapi-documents.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

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
	case len(args) == 2 && args[0] == "document":
		document, err := convert(args[1])
		if err != nil {
			return err
		}
		text, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(append(text, '\n'))
		return err
	case len(args) == 5 && args[0] == "pages":
		document, err := convert(args[1])
		if err != nil {
			return err
		}
		return pages(document, args[2], args[3], args[4])
	}
	return errors.New("usage: openapi document SWAGGER | openapi pages SWAGGER PROTO EXAMPLES FOLDER")
}

// convert converts the Swagger 2.0 document to OpenAPI 3.1. It adds what Swagger can't
// express: how callers authenticate, and that every error has its own status code.
func convert(name string) (*openapi3.T, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	// The gateway writes a type beside each $ref of an array's items, which no version allows.
	var swagger openapi2.T
	if err := json.Unmarshal(text, &swagger); err != nil {
		return nil, err
	}
	document, err := openapi2conv.ToV3(&swagger)
	if err != nil {
		return nil, err
	}
	document.OpenAPI = "3.1.0"
	document.Servers = openapi3.Servers{{URL: "http://127.0.0.1:8080", Description: "setpoint serve, as it listens without settings"}}
	document.Components.SecuritySchemes = openapi3.SecuritySchemes{"bearer": {Value: &openapi3.SecurityScheme{
		Type: "http", Scheme: "bearer", Description: "A token of the tokens file, or a JWT of an OpenID Connect issuer.",
	}}}
	document.Security = openapi3.SecurityRequirements{{"bearer": {}}, {}}
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
