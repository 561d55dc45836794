//go:build linux

package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// pollInterval is the interval of polling.
const pollInterval = 5 * time.Millisecond

// With SETPOINT_E2E_RACE the service is built with the race detector, except for measurements.
func measuredProgram() (string, error)  { return process.Build("setpoint", false) }
func generatorProgram() (string, error) { return process.Build("test/e2e/edge/load/generator", false) }

// run runs the program to its end.
func run(t testing.TB, environment []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path, err := service.Program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(process.Environ(), environment...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
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

// instance is a service. Its addresses stay the same while it comes and goes.
type instance struct {
	*process.Process  // nil: none runs
	t                 testing.TB
	launch            launch
	grpc, rest, admin string
	log               string // the file's name
}

// start starts a service with flags that win over the kit's own, and waits until it is
// ready. It ends with the test, by SIGTERM, and must then exit with 0, whatever was
// done to it; each line of its log must be a JSON object.
func start(t testing.TB, flags ...string) *instance {
	t.Helper()
	return startAs(t, launch{flags: flags, cpu: -1})
}

func startAs(t testing.TB, l launch) *instance {
	t.Helper()
	p := newProcess(t, l)
	p.restart()
	return p
}

func newProcess(t testing.TB, l launch) *instance {
	t.Helper()
	ports, err := process.Reserve(3)
	must(t, err)
	t.Cleanup(ports.Release)
	p := &instance{
		t: t, launch: l, log: filepath.Join(t.TempDir(), "setpoint.log"),
		grpc: ports.Address(0), rest: ports.Address(1), admin: ports.Address(2),
	}
	must(t, os.WriteFile(p.log, nil, 0o600)) // end reads it, even if none was started
	t.Cleanup(p.end)
	return p
}

// end is that of the test.
func (p *instance) end() {
	if err := p.terminate(); err != nil {
		p.t.Error(err)
	}
	text := p.output()
	if crash := process.Crash([]byte(text)); crash != "" {
		p.t.Errorf("the service logged:\n%s", crash)
	}
	for line := range strings.Lines(text) {
		if !json.Valid([]byte(line)) || line[0] != '{' {
			p.t.Errorf("a line of the log is not a JSON object: %.300q", line)
			break
		}
	}
	if p.t.Failed() {
		p.t.Logf("end of the log of the service on %s:\n%s", p.grpc, process.End([]byte(text)))
	}
}

// output returns all that the process wrote.
func (p *instance) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Error(err)
	}
	return string(text)
}

// restart starts the process, on the same addresses, and waits until it is ready.
func (p *instance) restart() {
	p.t.Helper()
	must(p.t, p.begin())
	must(p.t, p.awaitReady())
}

// begin starts the process.
func (p *instance) begin() error {
	build := service.Program
	if p.launch.measured {
		build = measuredProgram
	}
	path, err := build()
	if err != nil {
		return err
	}
	command := process.Command{
		Name: "setpoint", Program: path, Log: p.log, Env: append([]string{"GORACE=halt_on_error=1"}, p.launch.environment...),
		Args: append([]string{"serve", "--grpc-address=" + p.grpc, "--rest-address=" + p.rest, "--admin-address=" + p.admin}, p.launch.flags...),
	}
	if p.launch.cpu >= 0 {
		command.Name, command.Program, command.Args = "taskset", "taskset", append([]string{"-c", strconv.Itoa(p.launch.cpu), path}, command.Args...)
	}
	p.Process, err = process.Start(command)
	return err
}

func (p *instance) awaitReady() error {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	err := p.Await("ready", process.Patience, func() error { return process.OK(client, "http://"+p.admin+"/readyz") })
	if err != nil && !p.Alive() {
		p.Process = nil
	}
	return err
}

// terminate ends the process by SIGTERM, and returns an error unless it exits with 0.
func (p *instance) terminate() error {
	if p.Process == nil {
		return nil
	}
	running := p.Process
	p.Process = nil
	return running.Stop()
}

// memory returns the resident memory, in MiB.
func (p *instance) memory() float64 {
	bytes, _ := process.Resident(p.PID()) // 0 where the service is gone
	return float64(bytes) / (1 << 20)
}

// scheduled is a process' scheduling: processor time, and the time that its threads waited for
// a busy processor.
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

// watched is a process' scheduling over time.
type watched struct {
	mu      sync.Mutex
	samples []scheduled // guarded by mu
}

// watch observes a process until the test ends.
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

// metrics returns the content of /metrics.
func (p *instance) metrics() string {
	p.t.Helper()
	response, err := http.Get("http://" + p.admin + "/metrics")
	must(p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(p.t, err)
	return string(text)
}

// must fails the test for an error.
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
