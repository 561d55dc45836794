package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/docs/pictures"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// drawing draws the pictures of the documentation with the command as it is. It leaves the
// test in the root of the repository.
func drawing(t *testing.T) pictures.Runner {
	t.Helper()
	root, err := filepath.Abs("../..")
	fatal.If(t, err)
	t.Chdir(root)
	return func(folder string, args ...string) (string, error) {
		t.Chdir(filepath.Join(root, folder))
		defer t.Chdir(root)
		got := clitest.Run(t, newRoot(), "", args...)
		if got.Code != 0 {
			return "", fmt.Errorf("exit code %d: %s", got.Code, got.Stderr)
		}
		return got.Stdout, nil
	}
}

// The pictures show what the program prints and draws today.
func TestPicturesAreUpToDate(t *testing.T) {
	drawn, err := pictures.Draw(drawing(t))
	fatal.If(t, err)
	for name, want := range drawn {
		committed, err := os.ReadFile(filepath.Join(pictures.Folder, name))
		if err != nil {
			t.Error(err)
		} else if string(committed) != want {
			t.Errorf("%s/%s is out of date: run make drawings, and look whether its page still says what it shows", pictures.Folder, name)
		}
	}
}

var (
	dark  = regexp.MustCompile(`@media ?\(prefers-color-scheme: ?dark\)`)
	quote = regexp.MustCompile(`<text class="quote"[^>]*>([^<]*)</text>`)
)

// Every picture that is drawn can be read on dark ground, and says in words what it shows.
func TestPicturesForDarkGround(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../" + pictures.Folder + "/*.svg")
	if err != nil || len(files) == 0 {
		t.Fatal("no pictures:", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		fatal.If(t, err)
		if !dark.Match(content) {
			t.Errorf("%s has no colors for dark ground", file)
		}
		if !strings.Contains(string(content), `role="img" aria-label="`) {
			t.Errorf(`%s does not say what it shows: role="img" aria-label="…"`, file)
		}
	}
}

// The steps of the picture of a decision, which is drawn by hand, quote its explanation.
func TestThePictureOfADecisionQuotesIt(t *testing.T) {
	out, err := drawing(t)(".", "recommend", "-f", "docs/concepts/scenarios/decision.yaml")
	fatal.If(t, err)
	content := testpages.Read(t, filepath.Join(pictures.Folder, "decision.svg"))
	quotes := quote.FindAllStringSubmatch(content, -1)
	if len(quotes) < 8 {
		t.Fatalf("only %d steps quote the explanation", len(quotes))
	}
	for _, one := range quotes {
		if !strings.Contains(out, one[1]) {
			t.Errorf("%s/decision.svg: %q is not in the explanation", pictures.Folder, one[1])
		}
	}
}
