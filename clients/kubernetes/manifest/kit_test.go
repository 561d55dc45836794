package manifest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
)

// readFile adds a file of testdata to the dump.
func readFile(t testing.TB, dump *manifest.Dump, file string, parts ...manifest.Part) error {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return dump.Read(filepath.Base(file), f, parts...)
}

// mustRead is readFile for files without problems.
func mustRead(t testing.TB, dump *manifest.Dump, file string, parts ...manifest.Part) {
	t.Helper()
	if err := readFile(t, dump, file, parts...); err != nil {
		t.Fatal(err)
	}
}
