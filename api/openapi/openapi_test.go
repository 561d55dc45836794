package openapi_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/setpoint-dev/setpoint/api/openapi"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestTheDocumentIsTheFile(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("setpoint.openapi.json")
	fatal.If(t, err)
	if !bytes.Equal(openapi.Document(), want) {
		t.Error("setpoint.openapi.json.gz is not setpoint.openapi.json: run make generate")
	}
}
