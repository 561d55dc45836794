//go:build linux

package kubetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mark is the beginning of a line, also while lines are being written.
func TestEndOfLines(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "audit.log")
	if end, err := endOfLines(name); end != 0 || err != nil {
		t.Errorf("of no file: %d, %v", end, err)
	}
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	line := `{"auditID":"` + strings.Repeat("x", 3*longestLine/4) + `"}` + "\n"
	written := ""
	for _, part := range []string{"", line[:7], line[7:], line[:1], line[1 : len(line)-1], line[len(line)-1:]} {
		if _, err := file.WriteString(part); err != nil {
			t.Fatal(err)
		}
		written += part
		want := int64(strings.LastIndexByte(written, '\n') + 1)
		if end, err := endOfLines(name); end != want || err != nil {
			t.Errorf("after %d bytes: %d, %v, want %d", len(written), end, err, want)
		}
	}
}
