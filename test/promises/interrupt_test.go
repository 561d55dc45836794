package promises_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Who interrupts make test reads what ran and what failed, not that every test had failed; and
// nothing is left running. While a large package runs something is said.
func TestAnInterruptSaysSo(t *testing.T) {
	t.Parallel()
	folder, script := t.TempDir(), "../../scripts/gotest.sh"
	script, err := filepath.Abs(script)
	fatal.If(t, err)
	for name, content := range map[string]string{
		"go.mod":         "module github.com/setpoint-dev/setpoint\n\ngo 1.26\n",
		"bad/x_test.go":  "package bad\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Error() }\n",
		"long/x_test.go": "package long\n\nimport (\n\t\"os\"\n\t\"strconv\"\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestLong(t *testing.T) {\n\t_ = os.WriteFile(\"pid\", []byte(strconv.Itoa(os.Getpid())), 0o600)\n\ttime.Sleep(time.Hour)\n}\n",
	} {
		fatal.If(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700))
		fatal.If(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	said := filepath.Join(folder, "said")
	out, err := os.Create(said)
	fatal.If(t, err)
	defer out.Close()
	const module = "github.com/setpoint-dev/setpoint/"
	cmd := exec.CommandContext(t.Context(), script, "interrupted", "pkgname", module+"bad "+module+"long")
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = folder, out, out, append(os.Environ(), "GOTEST_EVERY=0.2", "RERUN=", "GOFLAGS=")
	fatal.If(t, cmd.Start())
	saying := func(want string) bool {
		text, _ := os.ReadFile(said)
		return strings.Contains(string(text), want)
	}
	pid := 0
	for deadline := time.Now().Add(5 * time.Minute); pid == 0 || !saying("running: long; FAILED: bad"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(said)
			_ = cmd.Process.Kill()
			t.Fatalf("it does not say what runs:\n%s", text)
		}
		text, _ := os.ReadFile(filepath.Join(folder, "long", "pid"))
		pid, _ = strconv.Atoi(string(text))
	}
	fatal.If(t, cmd.Process.Signal(os.Interrupt))
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("it ends with %v, want exit status 130", err)
	}
	if !saying("INTERRUPTED after ") || !saying("s: 1 of 2 packages have ended, running: long; FAILED: bad") || saying("failures in") || saying("(unknown)") {
		text, _ := os.ReadFile(said)
		t.Errorf("it says\n%s", text)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("the process of tests %d is left", pid)
	}
}
