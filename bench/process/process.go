// Package process starts and stops the programs that are measured, each a process of its
// own on this machine, and tells what they take: processor time, memory, garbage.
//
// All listen on loopback only. They end when they are stopped, and when this process does.
package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// readyTimeout and stopTimeout bound a start and a stop on a busy machine.
	readyTimeout = 90 * time.Second
	stopTimeout  = 90 * time.Second
	// shownOutput is how much of a program's output an error shows, in bytes.
	shownOutput = 2 << 10
)

// Process is a program that runs.
type Process struct {
	PID    int
	output string // the file's name
	cmd    *exec.Cmd
	ended  chan struct{} // err is set
	err    error
}

// start starts a program whose output goes to a file in the folder.
func start(folder, name string, cmd *exec.Cmd) (*Process, error) {
	output, err := os.CreateTemp(folder, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer output.Close()
	if cmd.Stdout == nil { // nobody reads it
		cmd.Stdout = output
	}
	cmd.Stderr = output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	p := &Process{PID: cmd.Process.Pid, output: output.Name(), cmd: cmd, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// await waits until ready returns nil.
func (p *Process) await(ready func() error) error {
	for deadline := time.Now().Add(readyTimeout); ; {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %w\n%s", filepath.Base(p.cmd.Path), p.err, p.said())
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %v: %w\n%s", filepath.Base(p.cmd.Path), readyTimeout, err, p.said())
		}
	}
}

// said returns the end of what the process wrote.
func (p *Process) said() string {
	text, _ := os.ReadFile(p.output)
	return strings.TrimSpace(string(text[max(0, len(text)-shownOutput):]))
}

// Stop ends the process by SIGTERM, or SIGKILL if that does not help. Stopping twice is
// harmless.
func (p *Process) Stop() error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s was still running %v after SIGTERM", filepath.Base(p.cmd.Path), stopTimeout)
	}
}

// FreeAddress returns a loopback address that nobody listens on.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
