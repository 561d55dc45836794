// The program openapi writes docs/reference/api, a page for each method, from the OpenAPI 2.0
// document (Swagger) of the REST API:
//
//	openapi SWAGGER PROTO EXAMPLES FOLDER
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
	if len(args) != 4 {
		return errors.New("usage: openapi SWAGGER PROTO EXAMPLES FOLDER")
	}
	document, err := convert(args[0])
	if err != nil {
		return err
	}
	return pages(document, args[1], args[2], args[3])
}

// convert reads the document into the types of OpenAPI 3, whose references resolve.
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
