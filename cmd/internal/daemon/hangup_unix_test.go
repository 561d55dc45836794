//go:build unix

package daemon_test

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Scripts send SIGHUP to daemons after a file has changed. It does not end the process, and the log says that it was not needed. What
// is shown in a terminal ends with it, also what a script runs in the background, which would keep its ports.
func TestSIGHUPEndsNothing(t *testing.T) {
	if os.Getenv("SETPOINT_TEST_SIGNALS") != "" {
		told := make(chan string, 1)
		log := zap.New(zapcore.RegisterHooks(zap.NewExample().Core(), func(e zapcore.Entry) error { told <- e.Message; return nil }))
		defer daemon.TellSupervisor(t.Context(), log)()
		fatal.If(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		t.Log(<-told)
		return
	}
	for path, ends := range map[string]bool{os.DevNull: false, "/dev/ptmx": true} {
		shown, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil || term.IsTerminal(int(shown.Fd())) != ends {
			t.Logf("no terminal here: %v", err)
			continue
		}
		if ends && signal.Ignored(syscall.SIGHUP) {
			t.Log("whoever began this test, such as nohup, has its children ignore the signal, too")
			continue
		}
		defer func() { _ = shown.Close() }()
		cmd := exec.Command(os.Args[0], "-test.run=^TestSIGHUPEndsNothing$") // its input and output are /dev/null
		cmd.Env, cmd.Stderr = append(os.Environ(), "SETPOINT_TEST_SIGNALS=yes"), shown
		err = cmd.Run()
		// Go's runtime exits with 2 where the signal that it sends itself has not ended it at once, as on a busy machine.
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if (err != nil) != ends || ends && status.Signal() != syscall.SIGHUP && status.ExitStatus() != 2 {
			t.Errorf("shown on %s it ended with %v", path, cmd.ProcessState)
		}
	}
}

// The program that collects the log may end, as it does when it is upgraded: who serves calls goes on without it.
func TestALogWithoutAReaderEndsNothing(t *testing.T) {
	if os.Getenv("SETPOINT_TEST_READER") != "" {
		log, err := (&daemon.LogSettings{Level: "info", Format: "json"}).Open()
		fatal.If(t, err)
		stop := daemon.TellSupervisor(t.Context(), log)
		log.Info("nobody reads this")
		stop()
		log.Info("nor this")
		return
	}
	r, w, err := os.Pipe()
	fatal.If(t, err)
	fatal.If(t, r.Close())
	defer func() { _ = w.Close() }()
	cmd := exec.Command(os.Args[0], "-test.run=^TestALogWithoutAReaderEndsNothing$")
	cmd.Env, cmd.Stderr = append(os.Environ(), "SETPOINT_TEST_READER=none"), w
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}
