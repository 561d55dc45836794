//go:build linux

// Package process runs programs for tests: with their output in a file, and ended
// with the test process, however that ends.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// shownLog is how much of a log is shown, bytes.
const shownLog = 6 << 10

// Process is one run of a program.
type Process struct {
	cmd     *exec.Cmd
	name    string
	logName string
	ended   chan struct{}
	err     error // of Wait, once ended is closed
}

// Command says what to run.
type Command struct {
	// Name of the program for people, and its first argument.
	Name string
	// Program is its path.
	Program string
	Args    []string
	// Env is added to the environment, from which the tester's own settings of
	// Setpoint are left out.
	Env []string
	// Log is the file that gets the output, at its end. It need not be there.
	Log string
}

// Start starts the command.
func Start(command Command) (*Process, error) {
	log, err := os.OpenFile(command.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(command.Program)
	cmd.Args = append([]string{command.Name}, command.Args...)
	cmd.Env = append(withoutSettings(os.Environ()), command.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, name: command.Name, logName: command.Log, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func withoutSettings(environment []string) []string {
	return slices.DeleteFunc(environment, func(variable string) bool { return strings.HasPrefix(variable, "SETPOINT_") })
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process as a crash would, and waits for that.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only for one that is gone
	<-p.ended
}

// Signal sends a signal.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// Stop ends the process by SIGTERM, after which it must exit with 0 in that time.
// One that ended by itself is an error.
func (p *Process) Stop(within time.Duration) error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended by itself: %w\n%s", p.name, p.failure(), p.Log())
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(within):
		p.Kill()
		return fmt.Errorf("%s was still running %v after SIGTERM\n%s", p.name, within, p.Log())
	}
	if p.err != nil {
		return fmt.Errorf("%s after SIGTERM: %w\n%s", p.name, p.err, p.Log())
	}
	return nil
}

// failure is why it ended.
func (p *Process) failure() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Await polls until done, or until the process has ended or the time is over, which
// are errors with the end of the log.
func (p *Process) Await(what string, within time.Duration, done func() bool) error {
	deadline := time.Now().Add(within)
	for !done() {
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %w\n%s", p.name, p.failure(), p.Log())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s was not %s within %v\n%s", p.name, what, within, p.Log())
		}
	}
	return nil
}

// Log returns the end of the log.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.logName)
	if err != nil {
		return err.Error()
	}
	if len(text) > shownLog {
		return "…" + string(text[len(text)-shownLog:])
	}
	return string(text)
}

// PeakMemory returns the most memory that the process has had resident so far, bytes.
// It must run.
func (p *Process) PeakMemory() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no peak in the status of %s", p.name)
}

// ticksPerSecond is the unit of processor time in /proc, which Linux tells all programs.
const ticksPerSecond = 100

// Processor returns the processor time that a process has taken so far, of all its threads.
// It must run.
func Processor(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name may have spaces and brackets in it; what counts comes after it.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest)
	const user, system = 14 - 3, 15 - 3 // as proc(5) numbers them, from the third on
	if len(fields) <= system {
		return 0, fmt.Errorf("no times in the stat of process %d", pid)
	}
	var ticks int64
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("the stat of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}
