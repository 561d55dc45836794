package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "recommender.log")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestScoreAndSurvivors(t *testing.T) {
	file := write(t, `Starting...
Gathering coverage... done in 3s
       LIVED X at a.go:9:2
      KILLED CONDITIONALS_NEGATION at a.go:3:1
       LIVED Y at a.go:4:7
   TIMED OUT X at a.go:5:1
 NOT COVERED X at a.go:6:1

Shutting down gracefully...
`)
	var out strings.Builder
	if err := run([]string{file}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| recommender | 1 | 1 | **2** | 1 | 50.0 % |\n", "- `a.go:4:7` Y\n- `a.go:9:2` X\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestNothingTriedIsNoResult(t *testing.T) {
	for _, text := range []string{"", " NOT COVERED X at a.go:6:1\n", "ERROR: failed to gather coverage\n"} {
		if err := run([]string{write(t, text)}, &strings.Builder{}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
