// Package openapi holds the description of the REST API, generated from the
// contract.
package openapi

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"sync"
)

// compressed is setpoint.openapi.json: a program has a sixth of its bytes.
//
//go:embed setpoint.openapi.json.gz
var compressed []byte

// Document returns the OpenAPI 3.0 document, JSON. It must not be changed.
var Document = sync.OnceValue(func() []byte {
	document, err := decompressed(compressed)
	if err != nil {
		panic(err) // only for a program that was built from something else
	}
	return document
})

func decompressed(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
