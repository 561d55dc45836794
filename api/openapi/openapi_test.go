package openapi_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/setpoint-dev/setpoint/api/openapi"
)

func TestTheDocumentIsTheFile(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("setpoint.swagger.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(openapi.Document(), want) {
		t.Error("setpoint.swagger.json.gz is not setpoint.swagger.json: run make generate")
	}
}
