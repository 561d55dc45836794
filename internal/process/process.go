//go:build linux

package process

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// Patience is long enough for a service to start or stop on a busy machine.
	Patience = 90 * time.Second
	// shownLog is how many bytes of a log an error shows.
	shownLog = 6 << 10
)

// Command is a command to run.
type Command struct {
	// Name of the program for people, and its first argument.
	Name string
	// Program is its path, or a name on the PATH.
	Program string
	Args    []string
	// Env is added to Environ.
	Env []string
	// Log is the file to append the output to. It need not exist.
	Log string
	// Stdin is the standard input; nil: none.
	Stdin io.Reader
	// Stdout gets the standard output instead of Log; nil: Log does. The process counts as
	// ended only when all its output was read.
	Stdout io.Writer
}

// Environ returns this process's environment without variables that would change our
// programs or their Go runtime: the developer's own settings.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "SETPOINT_") || strings.HasPrefix(variable, "OTEL_") || strings.HasPrefix(variable, "GO")
	})
}

// Process is one run of a program.
type Process struct {
	cmd     *exec.Cmd
	command Command
	ended   chan struct{}
	err     error // the result of Wait, valid once ended is closed
	stopped atomic.Bool
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
	cmd.Env = append(Environ(), command.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = command.Stdin, log, log
	if command.Stdout != nil {
		cmd.Stdout = command.Stdout
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Name, err)
	}
	p := &Process{cmd: cmd, command: command, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Alive reports whether the process runs.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Signal sends a signal.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// Kill kills the process as a crash would, and waits for its end.
func (p *Process) Kill() {
	p.stopped.Store(true)
	_ = p.cmd.Process.Kill() // fails only if it is already gone
	<-p.ended
}

// Stop stops the process by SIGTERM, after which it must exit with 0 within Patience. It
// fails if the process exited by itself, but not if it was stopped or killed before.
func (p *Process) Stop() error {
	if p.stopped.Swap(true) {
		return nil
	}
	if !p.Alive() {
		return fmt.Errorf("%s ended by itself: %w\n%s", p.command.Name, p.failure(), p.Log())
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(Patience):
		p.Kill()
		return fmt.Errorf("%s was still running %v after SIGTERM\n%s", p.command.Name, Patience, p.Log())
	}
	if p.err != nil {
		return fmt.Errorf("%s after SIGTERM: %w\n%s", p.command.Name, p.err, p.Log())
	}
	return nil
}

// failure returns why it ended.
func (p *Process) failure() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Await calls problem until it returns nil. It fails, with the end of the log, when the
// process ends or the time is over.
func (p *Process) Await(what string, within time.Duration, problem func() error) error {
	for began := time.Now(); ; {
		err := problem()
		if err == nil {
			return nil
		}
		waited := time.Since(began)
		if waited > within {
			return fmt.Errorf("%s was not %s within %v: %w\n%s", p.command.Name, what, within, err, p.Log())
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %w\n%s", p.command.Name, p.failure(), p.Log())
		case <-time.After(max(time.Millisecond, min(waited/20, 50*time.Millisecond))): // short at first, because start-up times are measured
		}
	}
}

// OK requests a URL, and returns an error unless the status is 200.
func OK(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// Log returns the end of the log.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.command.Log)
	if err != nil {
		return err.Error()
	}
	return End(text)
}

// End returns the end of a log, as much of it as people are shown.
func End(log []byte) string {
	if len(log) > shownLog {
		return "…" + string(log[len(log)-shownLog:])
	}
	return string(log)
}

// Crash returns the part of a Go program's log about a crash or a data race; "": there
// is none.
func Crash(log []byte) string {
	for _, sign := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: ", `"msg":"panic"`} {
		if at := strings.Index(string(log), sign); at >= 0 {
			return string(log[at:min(len(log), at+shownLog)])
		}
	}
	return ""
}
