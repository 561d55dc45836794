package openapi_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/setpoint-dev/setpoint/api/openapi"
)

func TestTheDocumentIsTheFile(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("setpoint.openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(openapi.Document(), want) {
		t.Error("setpoint.openapi.json.gz is not setpoint.openapi.json: run make generate")
	}
}
