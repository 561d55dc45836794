// Package openapi holds the description of the REST API, generated from the
// contract.
package openapi

import _ "embed"

// Document is the OpenAPI (Swagger 2.0) document, JSON.
//
//go:embed setpoint.swagger.json
var Document []byte
