package promises

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// CI runs make test with the programs that a newcomer has, so that a test that starts any other
// fails there, whoever forgot it.
func TestMakeTestFindsOnlyANewcomersPrograms(t *testing.T) {
	t.Parallel()
	installed, folder := t.TempDir(), filepath.Join(t.TempDir(), "path")
	for _, name := range []string{"cpio", "jq", "git"} {
		if err := os.WriteFile(filepath.Join(installed, name), nil, 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	path := func(ci string) string {
		t.Helper()
		script := exec.CommandContext(t.Context(), "../../scripts/newcomer-path.sh", folder)
		script.Env = append(os.Environ(), "CI="+ci, "PATH="+installed+":"+os.Getenv("PATH"))
		out, err := script.Output()
		fatal.If(t, err)
		return strings.TrimSpace(string(out))
	}
	if got := path(""); !strings.HasPrefix(got, installed+":") {
		t.Errorf("without CI the PATH is %q, want as it was", got)
	}
	// Twice, since a second run finds the folder of the first.
	for range 2 {
		if got := path("1"); got != folder {
			t.Errorf("in CI the PATH is %q, want %q", got, folder)
		}
	}
	for name, want := range map[string]bool{"git": true, "bash": true, "go": true, "cpio": false, "jq": false} {
		if _, err := os.Stat(filepath.Join(folder, name)); (err == nil) != want {
			t.Errorf("%s: %v, found %t, want %t", name, err, err == nil, want)
		}
	}
	recipe := regexp.MustCompile(`(?m)^test:.*\n(?:\t.*\n)*`).FindString(testpages.Read(t, "../../Makefile"))
	if !strings.Contains(recipe, "\n\tPATH=\"$$(scripts/newcomer-path.sh ") {
		t.Errorf("make test does not use that PATH:\n%s", recipe)
	}
	if !regexp.MustCompile(`(?m)^export CI=1\b`).MatchString(testpages.Read(t, "../../.ci/run")) {
		t.Error(".ci/run does not set CI")
	}
}

// Where the database of vulnerabilities can't be reached, the script says that nothing was checked; a vulnerability fails.
func TestVulnerabilitiesThatWereNotCheckedAreTold(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for says, want := range map[string]int{"fetching vulnerabilities: timeout": 0, "Vulnerability #1": 1} {
		if err := os.WriteFile(filepath.Join(folder, "go"), []byte("#!/bin/sh\necho govulncheck: "+says+"\nexit 1\n"), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		script := exec.CommandContext(t.Context(), "../../scripts/vuln.sh")
		script.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
		out, err := script.Output()
		if got := script.ProcessState.ExitCode(); got != want || strings.Contains(string(out), "\nNOT CHECKED ") != (want == 0) {
			t.Errorf("%s: exit %d, want %d: %v\n%s", says, got, want, err, out)
		}
	}
}
