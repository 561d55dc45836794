package daemon

import (
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"
	"golang.org/x/term"
)

// survive keeps SIGHUP from ending the process, with which scripts ask daemons to read their files again; stop ends that. Nor does
// the process end when the reader of its log is gone.
// A process in a terminal still ends with it, also one that a script has begun in the background, whose input is none.
func survive(log *zap.Logger) (stop func()) {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if term.IsTerminal(int(f.Fd())) {
			return func() {}
		}
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // else a line that nobody can read ends it, the last ones too
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
