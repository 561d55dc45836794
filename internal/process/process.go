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
	// Patience is long enough for a service to start, or to end, on a busy machine.
	Patience = 90 * time.Second
	// shownLog is how much of a log an error shows, bytes.
	shownLog = 6 << 10
)

// Command says what to run.
type Command struct {
	// Name of the program for people, and its first argument.
	Name string
	// Program is its path, or a name on PATH.
	Program string
	Args    []string
	// Env is added to Environ.
	Env []string
	// Log is the file that gets the output, at its end. It need not be there.
	Log string
	// Stdin is what the process reads; nil: nothing.
	Stdin io.Reader
	// Stdout gets the standard output instead of Log; nil: Log does. A process has only ended
	// when all it wrote is taken.
	Stdout io.Writer
}

// Environ is this process's environment without what would change a program of ours, or Go's
// runtime in it: the tester's own settings.
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
	err     error // of Wait, once ended is closed
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

// PID is the process's number.
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

// Kill ends the process as a crash would, and waits for that.
func (p *Process) Kill() {
	p.stopped.Store(true)
	_ = p.cmd.Process.Kill() // fails only for one that is gone
	<-p.ended
}

// Stop ends the process by SIGTERM, after which it must exit with 0 within Patience. It is
// an error if the process ended by itself, and none if it was stopped or killed before.
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

// failure is why it ended.
func (p *Process) failure() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Await asks until there is no problem, or until the process has ended or the time is over,
// which are errors with the end of the log.
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
		case <-time.After(max(time.Millisecond, min(waited/20, 50*time.Millisecond))): // starts are measured
		}
	}
}

// OK asks a URL, and returns an error unless the answer is 200.
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

// End returns the end of a log, as much of it as is shown to people.
func End(log []byte) string {
	if len(log) > shownLog {
		return "…" + string(log[len(log)-shownLog:])
	}
	return string(log)
}

// Crash returns what a log of Go's says about a crash or a data race; "": nothing.
func Crash(log []byte) string {
	for _, sign := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: ", `"msg":"panic"`} {
		if at := strings.Index(string(log), sign); at >= 0 {
			return string(log[at:min(len(log), at+shownLog)])
		}
	}
	return ""
}
