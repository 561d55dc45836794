//go:build linux

package languages

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := errors.Join(pythonPackage.remove(), nodePackage.remove()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

// patience bounds a client's command.
const patience = 2 * time.Minute

// config configures a client. Times are in seconds; absent fields have their defaults.
type config struct {
	Target            string  `json:"target"`
	Insecure          bool    `json:"insecure,omitempty"`
	CAFile            string  `json:"caFile,omitempty"`
	CertFile          string  `json:"certFile,omitempty"`
	KeyFile           string  `json:"keyFile,omitempty"`
	ServerName        string  `json:"serverName,omitempty"`
	Token             string  `json:"token,omitempty"`
	TokenFile         string  `json:"tokenFile,omitempty"`
	TokenOverInsecure bool    `json:"tokenOverInsecure,omitempty"`
	TokenNone         bool    `json:"tokenNone,omitempty"`  // its source has none
	TokenNever        bool    `json:"tokenNever,omitempty"` // its source never answers
	Timeout           float64 `json:"timeout,omitempty"`
	MaxBatch          int     `json:"maxBatch,omitempty"`
	Retry             retry   `json:"retry"`
	// Options are further ones, by their names in the language.
	Options map[string]any `json:"options,omitempty"`
}

// retry is when a client tries again.
type retry struct {
	MaxAttempts    int      `json:"maxAttempts,omitempty"`
	BaseDelay      float64  `json:"baseDelay,omitempty"`
	MaxDelay       float64  `json:"maxDelay,omitempty"`
	AttemptTimeout float64  `json:"attemptTimeout,omitempty"`
	BudgetReserve  int      `json:"budgetReserve,omitempty"`
	BudgetRatio    *float64 `json:"budgetRatio,omitempty"`
}

// failure is an error as reported by a client.
type failure struct {
	Code       string   `json:"code"`
	Message    string   `json:"message"`
	Reason     string   `json:"reason"`
	RetryDelay *float64 `json:"retryDelay"`
	Violations []string `json:"violations"`
}

// Error formats the code and its details.
func (f *failure) Error() string { return fmt.Sprintf("%s (%s): %s", f.Code, f.Reason, f.Message) }

// said is a client's answer to a command.
type said struct {
	Error   *failure        `json:"error"`
	Answer  json.RawMessage `json:"answer"`
	Results []said          `json:"results"`
	Names   []string        `json:"names"`
	Field   *string         `json:"field"`
}

// err returns the error as one, nil for none.
func (s said) err() error {
	if s.Error == nil {
		return nil
	}
	return s.Error
}

// client is a client in any language, which runs commands.
type client interface {
	do(t *testing.T, command map[string]any) said
}

// language is a client library.
type language struct {
	name string
	rest bool
	// start starts one, which ends with the test.
	start func(t *testing.T) client
}

// languages are the libraries beside that for Go, whose own tests are in clients/setpoint.
func languages() []language {
	return []language{
		{"python", false, startPython},
		{"node", false, func(t *testing.T) client { return startNode(t) }},
		{"node over REST", true, func(t *testing.T) client { return startNode(t, "rest") }},
	}
}

// each runs a test with each library.
func each(t *testing.T, test func(t *testing.T, l language)) {
	t.Parallel()
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}

// needs skips the test if a program is missing, or fails it in CI, whose scripts install it.
func needs(t *testing.T, has bool, what, script string) {
	t.Helper()
	if !has {
		kit.Cannot(t, what+" is missing: run "+script)
	}
}

// made is a folder that is made once for all tests of a process, and why it could not be.
type made struct {
	once sync.Once
	dir  string
	err  error
}

func (m *made) get(t *testing.T, name string, build func(dir string) error) string {
	t.Helper()
	m.once.Do(func() {
		if m.dir, m.err = os.MkdirTemp("", "setpoint-"+name+"-"); m.err == nil {
			m.err = build(m.dir)
		}
	})
	if m.err != nil {
		t.Fatal(m.err)
	}
	return m.dir
}

// remove removes the folder, if it exists.
func (m *made) remove() error {
	if m.dir == "" {
		return nil
	}
	return os.RemoveAll(m.dir)
}

func run(dir string, environment []string, command ...string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
	}
	return nil
}

var pythonPackage, nodePackage made

// python returns an interpreter with gRPC; empty: none.
func python() string {
	for _, one := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(one, "-c", "import grpc, google.protobuf").Run() == nil {
			return one
		}
	}
	return ""
}

// pythonClient returns an interpreter, and the folder of the package that it can import.
func pythonClient(t *testing.T) (interpreter, dir string) {
	t.Helper()
	interpreter = python()
	_, missing := exec.LookPath("protoc")
	needs(t, interpreter != "" && missing == nil, "a python3 with grpc, or protoc", "scripts/python.sh")
	dir = pythonPackage.get(t, "python", func(dir string) error {
		source, err := filepath.Abs("../../../clients/python")
		if err != nil {
			return err
		}
		if err := os.CopyFS(filepath.Join(dir, "setpoint"), os.DirFS(filepath.Join(source, "setpoint"))); err != nil {
			return err
		}
		if err := run(source, []string{"PYTHON=" + interpreter}, "./generate.sh", dir, "--google"); err != nil {
			return err
		}
		const types = "import pathlib, sys\nfor f in pathlib.Path(sys.argv[1]).rglob('*.pyi'): compile(f.read_text(), f, 'exec')"
		return run(dir, nil, interpreter, "-c", types, dir)
	})
	return interpreter, dir
}

// The types that the package states are right, as far as the libraries that it stands on have types.
func TestTheTypesOfThePythonPackage(t *testing.T) {
	t.Parallel()
	_, dir := pythonClient(t)
	_, missing := exec.LookPath("mypy")
	needs(t, missing == nil, "mypy", "scripts/python.sh")
	settings, err := filepath.Abs("../../../clients/python/pyproject.toml")
	fatal.If(t, err)
	if err := run(dir, nil, "mypy", "--config-file="+settings, "--no-warn-return-any", "--cache-dir="+t.TempDir()); err != nil {
		t.Error(err)
	}
}

func startPython(t *testing.T) client {
	interpreter, dir := pythonClient(t)
	driver, err := filepath.Abs("drivers/driver.py")
	fatal.If(t, err)
	return startDriver(t, []string{"PYTHONPATH=" + dir, "PYTHONDONTWRITEBYTECODE=1"}, interpreter, driver)
}

func startNode(t *testing.T, way ...string) client {
	for _, program := range []string{"node", "npm", "protoc"} {
		_, missing := exec.LookPath(program)
		needs(t, missing == nil, program, "scripts/node.sh and scripts/python.sh")
	}
	dir := nodePackage.get(t, "node", func(dir string) error {
		root, err := process.Repository()
		if err != nil {
			return err
		}
		// Its script reads the contract beside it.
		for _, part := range []string{"proto", "clients/typescript/src"} {
			if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(root, part))); err != nil {
				return err
			}
		}
		at := filepath.Join(dir, "clients/typescript")
		for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json", "generate.sh"} {
			text, err := os.ReadFile(filepath.Join(root, "clients/typescript", name))
			if err == nil {
				err = os.WriteFile(filepath.Join(at, name), text, 0o755)
			}
			if err != nil {
				return err
			}
		}
		if err := run(at, nil, "npm", "ci", "--no-audit", "--no-fund"); err != nil {
			return err
		}
		return run(at, nil, "npm", "run", "build")
	})
	driver, err := filepath.Abs("drivers/driver.mjs")
	fatal.If(t, err)
	return startDriver(t, nil, "node", append([]string{driver, filepath.Join(dir, "clients/typescript")}, way...)...)
}

// driver is a process that runs commands.
type driver struct {
	in    io.WriteCloser
	lines chan string
	errs  *bytes.Buffer
}

func startDriver(t *testing.T, environment []string, program string, args ...string) client {
	t.Helper()
	if further, ok := environments.Load(t.Name()); ok {
		environment = append(environment, further.([]string)...)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	d := &driver{lines: make(chan string), errs: new(bytes.Buffer)}
	cmd.Stderr = d.errs
	var err error
	d.in, err = cmd.StdinPipe()
	fatal.If(t, err)
	out, err := cmd.StdoutPipe()
	fatal.If(t, err)
	fatal.If(t, cmd.Start())
	over := make(chan struct{})
	go func() {
		defer close(d.lines)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			select {
			case d.lines <- lines.Text():
			case <-over:
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = d.in.Close()
		killed := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		for range d.lines { // discard the rest
		}
		close(over)
		err := cmd.Wait()
		if !killed.Stop() {
			err = errors.New("it did not end")
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", program, err, d.errs)
		}
	})
	return d
}

// environments are further variables of the drivers, []string by the test's name.
var environments sync.Map

func (d *driver) do(t *testing.T, command map[string]any) said {
	t.Helper()
	line, err := json.Marshal(command)
	fatal.If(t, err)
	if _, err := d.in.Write(append(line, '\n')); err != nil {
		t.Fatalf("the client is gone: %v", err)
	}
	select {
	case line, ok := <-d.lines:
		if !ok {
			t.Fatalf("the client ended")
		}
		var result said
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatalf("the client said %q: %v", line, err)
		}
		return result
	case <-time.After(patience):
		t.Fatalf("the client does not answer to %.200s", line)
		return said{}
	}
}

func open(t *testing.T, l language, c config) client {
	t.Helper()
	one := l.start(t)
	fatal.If(t, one.do(t, map[string]any{"op": "open", "config": c}).err())
	return one
}

func object(t *testing.T, message proto.Message) json.RawMessage {
	t.Helper()
	text, err := protojson.Marshal(message)
	fatal.If(t, err)
	return text
}

// into parses a client's answer.
func into[M proto.Message](t *testing.T, s said, message M) M {
	t.Helper()
	if s.Error != nil {
		t.Fatal(s.Error)
	}
	if err := protojson.Unmarshal(s.Answer, message); err != nil {
		t.Fatalf("%v in %s", err, s.Answer)
	}
	return message
}

// recommend requests a recommendation with a client.
func recommend(t *testing.T, c client, request *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, *failure) {
	t.Helper()
	result := c.do(t, map[string]any{"op": "recommend", "request": object(t, request)})
	if result.Error != nil {
		return nil, result.Error
	}
	return into(t, result, &setpointv1.RecommendResponse{}), nil
}

// wantCode fails the test unless a call failed so.
func wantCode(t *testing.T, got *failure, want string) {
	t.Helper()
	switch {
	case want == "OK" && got == nil:
	case got == nil:
		t.Fatalf("it succeeded, want %s", want)
	case got.Code != want:
		t.Fatalf("got %v, want %s", got, want)
	}
}
