//go:build linux

package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// readyTimeout and stopTimeout bound a start and a stop on a busy machine.
	readyTimeout = 90 * time.Second
	stopTimeout  = 90 * time.Second
	pollInterval = 5 * time.Millisecond
	// shownLog is how much of a log is shown of a test that failed, bytes.
	shownLog = 4 << 10
)

// Programs are built once each. What they return is a path that lasts as long as this
// process; the file has no name any more. With SETPOINT_E2E_RACE set the service is built
// with the race detector, but for what is measured.
var (
	program          = builder(serviceModule, "./cmd/setpoint", os.Getenv("SETPOINT_E2E_RACE") != "")
	measuredProgram  = builder(serviceModule, "./cmd/setpoint", false)
	generatorProgram = builder(serviceModule+"/test/e2e", "./edge/load/generator", false)
)

const serviceModule = "github.com/setpoint-dev/setpoint"

// built are the programs' files, which stay open.
var built struct {
	sync.Mutex
	files []*os.File
}

func builder(module, folder string, race bool) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			return "", fmt.Errorf("find %s: %w", module, err)
		}
		file, err := os.CreateTemp("", "setpoint-edge-")
		if err != nil {
			return "", err
		}
		defer os.Remove(file.Name())
		if err := file.Close(); err != nil {
			return "", err
		}
		args := []string{"build", "-tags=grpcnotrace", "-o", file.Name()}
		if race {
			args = append(args, "-race")
		}
		cmd := exec.Command("go", append(args, folder)...)
		cmd.Dir = strings.TrimSpace(string(root))
		if output, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go %s: %w\n%s", strings.Join(cmd.Args[1:], " "), err, bytes.TrimSpace(output))
		}
		kept, err := os.Open(file.Name())
		if err != nil {
			return "", err
		}
		built.Lock()
		defer built.Unlock()
		built.files = append(built.files, kept)
		return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), kept.Fd()), nil
	})
}

// run runs the program to its end.
func run(t testing.TB, environment []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(withoutSettings(os.Environ()), environment...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// withoutSettings leaves the tester's own settings of the service out.
func withoutSettings(environment []string) []string {
	var kept []string
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "SETPOINT_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// launch says how to start a service.
type launch struct {
	flags       []string
	environment []string
	// cpu pins the process to one processor and has Go use one; -1: it may use all.
	cpu int
	// measured starts the program without the race detector.
	measured bool
}

// process is a service. Its addresses stay the same while it comes and goes.
type process struct {
	t                 testing.TB
	launch            launch
	grpc, rest, admin string
	log               string // the file's name
	cmd               *exec.Cmd
	ended             chan struct{} // of cmd, with err
	err               error
}

// start starts a service with flags that win over the kit's own, and waits until it is
// ready. It ends with the test, by SIGTERM, and must then exit with 0, whatever was
// done to it; each line of its log must be a JSON object.
func start(t testing.TB, flags ...string) *process {
	t.Helper()
	return startAs(t, launch{flags: flags, cpu: -1})
}

func startAs(t testing.TB, l launch) *process {
	t.Helper()
	p := newProcess(t, l)
	p.restart()
	return p
}

func newProcess(t testing.TB, l launch) *process {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "setpoint-*.log")
	must(t, err)
	must(t, file.Close())
	p := &process{t: t, launch: l, log: file.Name()}
	for _, address := range []*string{&p.grpc, &p.rest, &p.admin} {
		*address = reservePort(t)
	}
	t.Cleanup(p.end)
	return p
}

// end is that of the test.
func (p *process) end() {
	if err := p.terminate(); err != nil {
		p.t.Error(err)
	}
	text := p.output()
	for _, sign := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: ", "\"msg\":\"panic\""} {
		if at := strings.Index(text, sign); at >= 0 {
			p.t.Errorf("the service logged:\n%s", text[at:min(len(text), at+shownLog)])
		}
	}
	for line := range strings.Lines(text) {
		if !json.Valid([]byte(line)) || line[0] != '{' {
			p.t.Errorf("a line of the log is not a JSON object: %.300q", line)
			break
		}
	}
	if p.t.Failed() {
		p.t.Logf("end of the log of the service on %s:\n%s", p.grpc, text[max(0, len(text)-shownLog):])
	}
}

// output returns all that the process wrote.
func (p *process) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Error(err)
	}
	return string(text)
}

// begin starts the process.
func (p *process) begin() error {
	build := program
	if p.launch.measured {
		build = measuredProgram
	}
	path, err := build()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{path, "serve", "--grpc-address=" + p.grpc, "--rest-address=" + p.rest, "--admin-address=" + p.admin}, p.launch.flags...)
	environment := append(withoutSettings(os.Environ()), "GORACE=halt_on_error=1")
	if p.launch.cpu >= 0 {
		args = append([]string{"taskset", "-c", strconv.Itoa(p.launch.cpu)}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(environment, p.launch.environment...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() {
		p.err = cmd.Wait()
		close(ended)
	}()
	return nil
}

// restart starts the process, on the same addresses, and waits until it is ready.
func (p *process) restart() {
	p.t.Helper()
	must(p.t, p.begin())
	must(p.t, p.awaitReady())
}

func (p *process) awaitReady() error {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(readyTimeout); ; {
		if response, err := client.Get("http://" + p.admin + "/readyz"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.ended:
			err := fmt.Errorf("the service exited: %w\n%s", p.err, p.output())
			p.cmd = nil
			return err
		case <-time.After(pollInterval):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready within %v", readyTimeout)
		}
	}
}

// alive reports whether the process runs.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return p.cmd != nil
	}
}

// terminate ends the process by SIGTERM, and returns an error unless it exits with 0.
func (p *process) terminate() error {
	if p.cmd == nil {
		return nil
	}
	cmd := p.cmd
	p.cmd = nil
	select {
	case <-p.ended:
		return fmt.Errorf("the service exited by itself: %w", p.err)
	default:
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		_ = cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("the service was still running %v after SIGTERM", stopTimeout)
	}
	if p.err != nil {
		return fmt.Errorf("the service after SIGTERM: %w", p.err)
	}
	return nil
}

// memory returns the resident memory, in MiB.
func (p *process) memory() float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.ParseFloat(strings.Fields(rest + " 0")[0], 64)
	if err != nil {
		return 0
	}
	return kilobytes / 1024
}

// scheduled is what the system has given a process: processor time, and time that its
// threads waited for a processor that others had.
type scheduled struct {
	at           time.Time
	ran, waiting time.Duration
}

func scheduledOf(pid int) scheduled {
	now := scheduled{at: time.Now()}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return now
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		var ran, waited int64
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			now.ran += time.Duration(ran)
			now.waiting += time.Duration(waited)
		}
	}
	return now
}

// watched is what the system has given a process over time.
type watched struct {
	mu      sync.Mutex
	samples []scheduled // guarded by mu
}

// watch looks at a process until the test ends.
func watch(t testing.TB, pid int) *watched {
	w := &watched{}
	ctx := t.Context()
	go func() {
		for ctx.Err() == nil {
			now := scheduledOf(pid)
			w.mu.Lock()
			w.samples = append(w.samples, now)
			w.mu.Unlock()
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return w
}

// between returns the shares of the time in which a process on one processor ran, and in
// which it could have run but for other processes. Its threads wait for each other, too.
func (w *watched) between(from, to time.Time) (ran, heldBack float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, last := scheduled{}, scheduled{}
	for _, s := range w.samples {
		if first.at.IsZero() || !s.at.After(from) {
			first = s
		}
		if !s.at.After(to) {
			last = s
		}
	}
	if wall := float64(last.at.Sub(first.at)); wall > 0 {
		ran = float64(last.ran-first.ran) / wall
		return ran, max(0, min(float64(last.waiting-first.waiting)/wall, 1-ran))
	}
	return 0, 0
}

// metrics returns what /metrics says.
func (p *process) metrics() string {
	p.t.Helper()
	response, err := http.Get("http://" + p.admin + "/metrics")
	must(p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(p.t, err)
	return string(text)
}

// Ports are below those that systems give to outgoing connections, one of which would
// keep a service from coming back to its port. A UDP socket on the number keeps other
// tests away.
const firstPort, portCount = 30000, 2700

func reservePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(portCount)))
		held, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		free, err := net.Listen("tcp", address)
		if err != nil {
			_ = held.Close()
			continue
		}
		_ = free.Close()
		t.Cleanup(func() { _ = held.Close() })
		return address
	}
	t.Fatal("found no free port")
	return ""
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually calls f until it returns nil, and returns how long that took. The test
// ends with f's last error if it takes longer than the bound.
func eventually(t testing.TB, bound time.Duration, what string, f func() error) time.Duration {
	t.Helper()
	for began := time.Now(); ; {
		err := f()
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > bound {
			t.Fatalf("%s: not within %v: %v", what, bound, err)
		}
		<-time.After(10 * pollInterval)
	}
}
