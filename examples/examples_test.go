// Package examples_test runs the examples as users do, against a server of its own.
package examples_test

import (
	"bytes"
	"context"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	// What the Go example is built from: go test must not take the outcome of an older
	// one for this one's.
	_ "github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// printed is what each example prints.
const printed = `SCALE_UP: 3 → 5 replicas
because: cpu resource utilization (percentage of request) above target
cpu resource utilization (percentage of request): ratio 1.5, asks for 5
reported: SucceededRescale
`

// needs skips the test where something is missing that the example runs on, or fails it
// in CI, whose scripts install it.
func needs(t *testing.T, has bool, what, script string) {
	t.Helper()
	switch {
	case has:
	case os.Getenv("CI") != "":
		t.Fatalf("%s is missing, and CI is set: run %s", what, script)
	default:
		t.Skipf("SKIPPED: %s is missing: run %s", what, script)
	}
}

func installed(commands ...string) bool {
	for _, command := range commands {
		if _, err := exec.LookPath(command); err != nil {
			return false
		}
	}
	return true
}

// serve starts a server, which stops with the test.
func serve(t *testing.T) (grpc, rest string) {
	t.Helper()
	engine := memory.New(memory.Options{})
	s, err := server.New(engine, engine, server.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	grpcListener, restListener := listen(t), listen(t)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, grpcListener, restListener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return grpcListener.Addr().String(), "http://" + restListener.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run runs a command in a folder and returns what it printed. A command that takes too
// long is ended.
func run(t *testing.T, dir string, environment []string, command ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.WaitDelay = time.Second
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// mustRun fails the test on an error.
func mustRun(t *testing.T, dir string, environment []string, command ...string) string {
	t.Helper()
	stdout, stderr, err := run(t, dir, environment, command...)
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, stdout, stderr)
	}
	return stdout
}

// check runs an example twice against a server, as one who tries it would, and once
// without one: then it must fail and say what to do.
func check(t *testing.T, dir string, environment []string, overREST bool, command ...string) {
	t.Helper()
	address, rest := serve(t)
	nowhere := "127.0.0.1:1"
	if overREST {
		address, nowhere = rest, "http://"+nowhere
	}
	for range 2 {
		if got := mustRun(t, dir, environment, append(command, address)...); got != printed {
			t.Errorf("it printed\n%swant\n%s", got, printed)
		}
	}
	_, stderr, err := run(t, dir, environment, append(command, nowhere)...)
	if err == nil || !strings.Contains(stderr, "make run") {
		t.Errorf("without a server it ended with %v and said %q", err, stderr)
	}
}

// tree copies the examples, so that nothing is installed or generated into the
// repository, and puts what they refer to beside them. It returns their folder.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	examples := filepath.Join(root, "examples")
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".venv"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(examples, path), 0o755)
		}
		return copyFile(filepath.Join(examples, path), path)
	})
	if err != nil {
		t.Fatal(err)
	}
	demo := filepath.Join(root, "deploy", "demo")
	if err := os.MkdirAll(demo, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(filepath.Join(demo, "request.json"), "../deploy/demo/request.json"); err != nil {
		t.Fatal(err)
	}
	proto, err := filepath.Abs("../proto")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(proto, filepath.Join(root, "proto")); err != nil {
		t.Fatal(err)
	}
	return examples
}

func copyFile(to, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode())
}

func TestGo(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "example")
	mustRun(t, ".", nil, "go", "build", "-o", binary, "./go")
	check(t, ".", nil, false, binary)
}

func TestCurl(t *testing.T) {
	needs(t, installed("curl"), "curl", "apt-get install curl")
	check(t, tree(t), nil, true, "./curl/recommend.sh")
}

func TestNode(t *testing.T) {
	needs(t, installed("node", "npm"), "Node.js with npm", "scripts/node.sh")
	dir := filepath.Join(tree(t), "node")
	mustRun(t, dir, nil, "npm", "ci", "--prefer-offline", "--no-audit", "--no-fund")
	t.Logf("Node.js %s", mustRun(t, dir, nil, "node", "--version"))
	check(t, dir, nil, false, "node", "recommend.js")
}

func TestPython(t *testing.T) {
	python := pythonWithGRPC(t)
	needs(t, python != "", "a python3 with grpc and what generates its stubs", "scripts/python.sh")
	t.Logf("%s with grpc %s", python, mustRun(t, ".", nil, python, "-c", "import grpc; print(grpc.__version__)"))
	check(t, tree(t), []string{"PYTHON=" + python}, false, "./python/run.sh")
}

// pythonWithGRPC returns an interpreter that can run the example; empty: there is none.
func pythonWithGRPC(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if _, _, err := run(t, ".", nil, python, "-c", "import grpc, google.protobuf"); err != nil {
			continue
		}
		if _, _, err := run(t, ".", nil, python, "-c", "import grpc_tools"); err == nil || installed("protoc", "grpc_python_plugin") {
			return python
		}
	}
	return ""
}
