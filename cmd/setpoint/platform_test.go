package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestMain(m *testing.M) { clitest.Main(m, main) }

// Commands for a platform run its own program, preferably the one beside setpoint; if it is
// missing, the error says what to install.
func TestPlatformsProgramsTakeOver(t *testing.T) {
	t.Parallel()
	beside, path, alone := t.TempDir(), t.TempDir(), t.TempDir()
	for folder, text := range map[string]string{beside: "beside", path: "path"} {
		script := "#!/bin/sh\necho " + text + ": \"$@\"\nexit 7\n"
		fatal.If(t, os.WriteFile(filepath.Join(folder, "setpoint-kubernetes"), []byte(script), 0o700))
	}
	linked := filepath.Join(t.TempDir(), "link")
	fatal.If(t, os.Symlink(clitest.Setpoint(t, beside), linked))
	for _, tt := range []struct {
		name, program, path string
		args                []string
		code                int
		stdout, stderr      string
	}{
		{"the agent, beside", filepath.Join(beside, "setpoint"), path, []string{"agent", "kubernetes", "--cluster=a b", "--help"}, 7, "beside: agent --cluster=a b --help\n", ""},
		{"beside what a link leads to", linked, path, []string{"agent", "kubernetes"}, 7, "beside: agent\n", ""},
		{"on the PATH", clitest.Setpoint(t, alone), path, []string{"agent", "kubernetes", "-x"}, 7, "path: agent -x\n", ""},
		{"a cluster's autoscaler", filepath.Join(beside, "setpoint"), path, []string{"explain", "--live", "hpa/web", "-n", "shop"}, 7, "beside: explain --live hpa/web -n shop\n", ""},
		{"as an argument", filepath.Join(beside, "setpoint"), path, []string{"explain", "hpa/web", "-n", "shop"}, 7, "beside: explain hpa/web -n shop\n", ""},
		{"a file as an argument", filepath.Join(beside, "setpoint"), path, []string{"explain", "hpa.yaml"}, cli.ExitUsage, "", `unexpected argument "hpa.yaml": an autoscaler of the cluster is KIND/NAME`},
		{"a server's target", filepath.Join(beside, "setpoint"), path, []string{"explain", "clusters/swarm/namespaces/shop/targets/web"}, cli.ExitUsage, "", "setpoint targets explain explains"},
		{"two of them", filepath.Join(beside, "setpoint"), path, []string{"explain", "hpa/web", "--live", "hpa/api"}, cli.ExitUsage, "", "one autoscaler can be explained"},
		{"files need no cluster", filepath.Join(beside, "setpoint"), path, []string{"explain", "--dump", "nowhere.yaml"}, cli.ExitUsage, "", "nowhere.yaml"},
		{"both", filepath.Join(beside, "setpoint"), path, []string{"explain", "--live", "hpa/web", "--dump", "d.yaml"}, cli.ExitUsage, "", "leave out --dump"},
		{"nowhere", filepath.Join(alone, "setpoint"), "", []string{"agent", "kubernetes"}, cli.ExitUsage, "", "this needs the program setpoint-kubernetes, which is neither in " + alone + " nor on the PATH: make build makes it"},
		{"nowhere to explain", filepath.Join(alone, "setpoint"), "", []string{"explain", "--live", "hpa/web"}, cli.ExitUsage, "", "this needs the program setpoint-kubernetes"},
		{"no such platform", filepath.Join(alone, "setpoint"), "", []string{"agent", "mainframe"}, cli.ExitUsage, "", `unknown command "mainframe"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), tt.program, tt.args...)
			cmd.Env = []string{clitest.AsProgram + "=1", "PATH=" + tt.path}
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != tt.code || stdout.String() != tt.stdout || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("exit code %d (%v), %q, %q", code, err, stdout.String(), stderr.String())
			}
		})
	}
}
