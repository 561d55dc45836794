package manifest_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// readFile adds a file of testdata to the dump.
func readFile(t testing.TB, dump *manifest.Dump, file string, parts ...manifest.Part) error {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", file))
	fatal.If(t, err)
	defer f.Close()
	return dump.Read(filepath.Base(file), f, parts...)
}

// mustRead is readFile for files without problems.
func mustRead(t testing.TB, dump *manifest.Dump, file string, parts ...manifest.Part) {
	t.Helper()
	fatal.If(t, readFile(t, dump, file, parts...))
}

// readAutoscalers reads autoscalers, and nothing else.
func readAutoscalers(name string, r io.Reader) ([]*autoscalingv2.HorizontalPodAutoscaler, error) {
	var dump manifest.Dump
	err := dump.Read(name, r, manifest.Autoscalers)
	return dump.Autoscalers, err
}
