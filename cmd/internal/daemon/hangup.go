package daemon

import (
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"
	"golang.org/x/term"
)

// survive keeps SIGHUP from ending the process, with which scripts ask daemons to read their files again; stop ends that.
// A process in a terminal still ends with it.
func survive(log *zap.Logger) (stop func()) {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			log.Info("SIGHUP changes nothing: files that change are read by themselves, other settings with a restart")
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
	}
}
