//go:build unix

package daemon_test

import (
	"os"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
)

// Scripts send SIGHUP to daemons after a file has changed. It does not end the process, and the log says that it was not needed.
func TestSIGHUPEndsNothing(t *testing.T) {
	null, err := os.Open(os.DevNull) // a terminal's own process does end
	if err != nil {
		t.Fatal(err)
	}
	defer func(was *os.File) { os.Stdin = was }(os.Stdin)
	os.Stdin = null
	told := make(chan string, 1)
	log := zap.New(zapcore.RegisterHooks(zap.NewExample().Core(), func(e zapcore.Entry) error { told <- e.Message; return nil }))
	defer daemon.TellSupervisor(t.Context(), log)()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	t.Log(<-told)
}
