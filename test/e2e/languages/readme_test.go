//go:build linux

package languages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// What a README has its readers type, in a clone and a home that are new: it builds the package, and
// the first program gets its answer from a service that was started without flags.
func TestReadmesAsTyped(t *testing.T) {
	t.Parallel()
	s := service.Start(t)
	interpreter := python()
	for _, tc := range []struct {
		language, program string
		needs             [][]string // commands that must succeed
		environment       func(clone string) []string
	}{
		{"python", "worker.py", [][]string{{interpreter, "-c", "import google.protobuf, grpc"}, {"/usr/bin/pip", "--version"}, {"/usr/bin/python3", "-c", "import wheel"}, {"protoc", "--version"}}, func(clone string) []string {
			// What pip would bring from an index is there, or is generated.
			return []string{
				"PATH=/usr/bin:" + os.Getenv("PATH"), "PYTHON=" + interpreter, "PIP_NO_DEPS=1", "PIP_NO_BUILD_ISOLATION=0", "PIP_NO_INDEX=1", "PIP_TARGET=" + clone + "/installed",
				"PYTHONPATH=" + clone + "/installed:" + clone + "/google", "PYTHONDONTWRITEBYTECODE=1",
			}
		}},
		{"typescript", "worker.mjs", [][]string{{"node", "--version"}, {"npm", "--version"}, {"protoc", "--version"}}, func(string) []string { return nil }},
	} {
		t.Run(tc.language, func(t *testing.T) {
			t.Parallel()
			for _, command := range tc.needs {
				needs(t, command[0] != "" && exec.Command(command[0], command[1:]...).Run() == nil, strings.Join(command, " "), "scripts/node.sh and scripts/python.sh")
			}
			clone := clone(t, "clients/"+tc.language, "proto")
			text := testpages.Read(t, filepath.Join(clone, "clients", tc.language, "README.md"))
			blocks := regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(text, -1)
			if len(blocks) < 2 || blocks[0][1] != "sh" {
				t.Fatalf("the README begins with %d blocks", len(blocks))
			}
			environment := append(tc.environment(clone), "HOME="+t.TempDir())
			fatal.If(t, run(clone, environment, "bash", "-euo", "pipefail", "-c", blocks[0][2]))
			command := []string{"node", tc.program}
			if tc.language == "python" {
				fatal.If(t, run(clone, environment, "clients/python/generate.sh", clone+"/google", "--google"))
				command[0] = interpreter
			}
			// What it prints, of the programs that run as they stand.
			prints := []string{"3 -> 5 ", "clusters/demo/namespaces/shop/targets/mailer/overrides/migration until 2"}
			for _, block := range blocks {
				const local = `"127.0.0.1:9090"`
				if !strings.Contains(block[2], local) {
					continue
				}
				if len(prints) == 0 {
					t.Fatalf("another program: %s", block[2])
				}
				write(t, filepath.Join(clone, tc.program), strings.Replace(block[2], local, `"`+s.GRPCAddr()+`"`, 1))
				cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
				cmd.Dir, cmd.Env = clone, append(os.Environ(), environment...)
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.HasPrefix(string(out), prints[0]) {
					t.Errorf("a program of the README: %v, %s, want %s", err, out, prints[0])
				}
				prints = prints[1:]
			}
			if len(prints) > 0 {
				t.Errorf("no program prints %q", prints)
			}
		})
	}
}

// clone copies what Git has of some folders into a new one.
func clone(t *testing.T, folders ...string) string {
	t.Helper()
	root, err := process.Repository()
	fatal.If(t, err)
	list, err := exec.Command("git", append([]string{"-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "--"}, folders...)...).Output()
	fatal.If(t, err)
	to := t.TempDir()
	for _, name := range strings.Fields(string(list)) {
		text := testpages.Read(t, filepath.Join(root, name))
		fatal.If(t, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755))
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		fatal.If(t, os.WriteFile(filepath.Join(to, name), []byte(text), mode))
	}
	return to
}
