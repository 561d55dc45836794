//go:build linux

// Package service runs setpoint serve as users do, as processes, for tests: built
// once for all test binaries, on free loopback ports, to be killed and started again.
//
//	s := service.Start(t, "--redis", url)
//	answer, err := s.Recommendations().Recommend(ctx, request)
//	s.Kill()    // as a crash would
//	s.Restart() // on the same ports
//
// An instance ends with its test, by SIGTERM, and must then exit with 0. One that
// exits by itself, panics or meets a data race fails the test. Of a test that failed
// the end of each log is shown. Nothing outlives the test process, however that ends.
//
// With SETPOINT_E2E_RACE set the service is built with the race detector.
//
// Methods that can fail end the test that the instance was started for, so they are
// called on that test's goroutine; the clients may be used on any.
package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// Instance is one service. Its addresses and flags stay the same while its process
// comes and goes.
type Instance struct {
	Settings
	t        testing.TB
	program  string // empty: that of the working tree
	ports    *process.Ports
	logName  string
	conn     *grpc.ClientConn
	process  *process.Process // nil: not started yet, killed or stopped
	starting time.Duration
}

// Settings say how a service is started. They count from the next start on.
type Settings struct {
	Flags []string
	// Shipped has the settings as users have them: load is shed, and the log has its usual lines.
	Shipped bool
	// Measured starts the program without the race detector, on the first processor only.
	Measured bool
}

// RESTAddress stands in flags for host and port of REST, which are known only when the service
// starts.
const RESTAddress = "{rest-address}"

// Start starts a service with the flags given, which win over the kit's own, and
// waits until it is ready.
func Start(t testing.TB, flags ...string) *Instance {
	t.Helper()
	return StartAll(t, 1, flags...)[0]
}

// StartAll starts n services with the same flags, all at once.
func StartAll(t testing.TB, n int, flags ...string) []*Instance {
	t.Helper()
	instances := make([]*Instance, n)
	for i := range instances {
		instances[i] = New(t, Settings{Flags: flags})
	}
	RestartAll(instances)
	return instances
}

// RestartAll starts all of them at once, each after a Stop if it runs.
func RestartAll(instances []*Instance) {
	if len(instances) == 0 {
		return
	}
	instances[0].t.Helper()
	errs := make([]error, len(instances))
	var wg sync.WaitGroup
	for i, s := range instances {
		wg.Go(func() { errs[i] = s.restart() })
	}
	wg.Wait()
	fatal.If(instances[0].t, errors.Join(errs...))
}

// New returns a service that does not run yet: Restart starts it.
func New(t testing.TB, settings Settings) *Instance {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "setpoint-*.log")
	fatal.If(t, err)
	fatal.If(t, log.Close())
	s := &Instance{Settings: settings, t: t, logName: log.Name()}
	s.ports, err = process.Reserve(3)
	fatal.If(t, err)
	t.Cleanup(s.ports.Release)
	// Retry an absent service soon, not after the usual second or more.
	s.conn, err = grpc.NewClient(s.GRPCAddr(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	fatal.If(t, err)
	t.Cleanup(s.end)
	return s
}

// end is that of the test.
func (s *Instance) end() {
	_ = s.conn.Close()
	if err := s.stop(); err != nil {
		s.t.Error(err)
	}
	text := []byte(s.Log())
	for line := range bytes.Lines(text) {
		if !json.Valid(line) || line[0] != '{' {
			s.t.Errorf("a line of the log is not a JSON object: %.300q", line)
			break
		}
	}
	checkLog(s.t, "the service on "+s.GRPCAddr(), text)
}

// Log returns all that it has logged.
func (s *Instance) Log() string { return logged(s.t, s.logName) }

func logged(t testing.TB, file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// Logged reports whether a line of the log has all of the texts.
func (s *Instance) Logged(texts ...string) bool {
	for line := range strings.Lines(s.Log()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			return true
		}
	}
	return false
}

// Conn returns a connection, which stays usable when the process comes back.
func (s *Instance) Conn() *grpc.ClientConn { return s.conn }

// Recommendations returns a client of the service's recommendations.
func (s *Instance) Recommendations() setpointv1.RecommendationServiceClient {
	return setpointv1.NewRecommendationServiceClient(s.conn)
}

// Targets returns a client of its targets.
func (s *Instance) Targets() setpointv1.TargetServiceClient {
	return setpointv1.NewTargetServiceClient(s.conn)
}

// GRPCAddr returns host and port of gRPC.
func (s *Instance) GRPCAddr() string { return s.ports.Address(0) }

// RESTAddr returns host and port of REST.
func (s *Instance) RESTAddr() string { return s.ports.Address(1) }

// AdminAddr returns host and port of metrics and health.
func (s *Instance) AdminAddr() string { return s.ports.Address(2) }

// StartTime returns how long the last start took until the service was ready.
func (s *Instance) StartTime() time.Duration { return s.starting }

// PID is the process id; 0: not running.
func (s *Instance) PID() int {
	if s.process == nil {
		return 0
	}
	return s.process.PID()
}

// Kill kills the process with SIGKILL, like a crash, and waits for its end. Without a process
// it does nothing.
func (s *Instance) Kill() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	s.process = nil
}

// Stop ends the process by SIGTERM. It must exit with 0.
func (s *Instance) Stop() {
	s.t.Helper()
	fatal.If(s.t, s.stop())
}

func (s *Instance) stop() error {
	p := s.process
	if p == nil {
		return nil
	}
	s.process = nil
	return p.Stop()
}

// Restart starts the process again on the same ports, after a Stop if it runs, and
// waits until it is ready.
func (s *Instance) Restart() {
	s.t.Helper()
	fatal.If(s.t, s.restart())
}

func (s *Instance) restart() error {
	if err := s.stop(); err != nil {
		return err
	}
	started := time.Now()
	if err := s.Begin(); err != nil {
		return err
	}
	if err := s.awaitReady(true); err != nil {
		return err
	}
	s.starting = time.Since(started)
	// The connection may yet wait since it was refused, and refuse calls for as long.
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	s.conn.ResetConnectBackoff()
	for s.conn.GetState() == connectivity.TransientFailure {
		if !s.conn.WaitForStateChange(ctx, connectivity.TransientFailure) {
			return fmt.Errorf("the connection to %s does not come back", s.GRPCAddr())
		}
	}
	return nil
}

// Use has the next starts run another program, such as an older version of setpoint, in place of
// the working tree's; "" that again.
func (s *Instance) Use(program string) { s.program = program }

// Begin starts the process, and does not wait until it is ready.
func (s *Instance) Begin() (err error) {
	program := s.program
	if program == "" {
		if program, err = process.Build("setpoint", race() && !s.Measured); err != nil {
			return err
		}
	}
	command := process.Command{
		Name: "setpoint", Program: program, Log: s.logName, Env: []string{"GORACE=halt_on_error=1"},
		Args: append([]string{"serve"}, s.Args()...),
	}
	if s.Measured {
		command.Name, command.Program, command.Args = "taskset", "taskset", append([]string{"-c", "0", program}, command.Args...)
	}
	s.process, err = process.Start(command)
	return err
}

// Args are the arguments of serve.
func (s *Instance) Args() []string {
	args := []string{"--grpc-address=" + s.GRPCAddr(), "--rest-address=" + s.RESTAddr(), "--admin-address=" + s.AdminAddr()}
	if !s.Shipped {
		args = append(args, "--log-level=warn", "--shed-load=false")
	}
	for _, flag := range s.Flags {
		args = append(args, strings.ReplaceAll(flag, RESTAddress, s.RESTAddr()))
	}
	return args
}

// AwaitReady waits until the service is ready.
func (s *Instance) AwaitReady() {
	s.t.Helper()
	fatal.If(s.t, s.awaitReady(true))
}

// AwaitUnready waits until the service says that it is not ready.
func (s *Instance) AwaitUnready() {
	s.t.Helper()
	fatal.If(s.t, s.awaitReady(false))
}

func (s *Instance) awaitReady(want bool) error {
	if s.process == nil {
		return fmt.Errorf("the service on %s does not run", s.GRPCAddr())
	}
	what := map[bool]string{true: "ready", false: "unready"}[want]
	return s.process.Await(what, process.Patience, func() error {
		ready, err := s.ready()
		if err == nil && ready != want {
			err = fmt.Errorf("/readyz says ready: %v", ready)
		}
		return err
	})
}

// Ready reports whether the service says that it is ready; false where it does not
// answer.
func (s *Instance) Ready() bool {
	ready, err := s.ready()
	return err == nil && ready
}

func (s *Instance) ready() (bool, error) {
	code, _, err := get(s.AdminAddr(), "/readyz")
	return code == http.StatusOK, err
}

// Metrics returns the metrics as text, "" if the service does not answer.
func (s *Instance) Metrics() string {
	_, body, _ := get(s.AdminAddr(), "/metrics")
	return string(body)
}

// Metric returns the sum of a metric's series, 0 if there is none or the service does not
// answer.
func (s *Instance) Metric(name string) float64 {
	var sum float64
	for line := range strings.Lines(s.Metrics()) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if labels, ok := strings.CutPrefix(series, name); !ok || labels != "" && labels[0] != '{' {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			sum += v
		}
	}
	return sum
}

// get requests a page of an admin address.
func get(address, path string) (code int, body []byte, err error) {
	response, err := adminClient.Get("http://" + address + path)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// Setpoint runs a command of the program for this service, as a person types it, and returns what it
// prints. The error has what it complains about.
func (s *Instance) Setpoint(args ...string) (string, error) {
	program, err := Program()
	if err != nil {
		return "", err
	}
	var output, complaints bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "SETPOINT_SERVER="+s.GRPCAddr())
	cmd.Stdout, cmd.Stderr = &output, &complaints
	if err := cmd.Run(); err != nil {
		return output.String(), fmt.Errorf("setpoint %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return output.String(), nil
}
