package daemon

import (
	"context"
	"net"
	"os"

	"go.uber.org/zap"
)

// TellSupervisor tells systemd, if it started the process (Type=notify), that the
// service listens, and, when the context ends, that it drains. The function that it
// returns is to be called at the end.
func TellSupervisor(ctx context.Context, log *zap.Logger) func() {
	notify := func(state string) {
		if err := tell(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
			log.Warn("systemd not told", zap.String("state", state), zap.Error(err))
		}
	}
	notify("READY=1")
	stop := context.AfterFunc(ctx, func() { notify("STOPPING=1") })
	return func() { stop() }
}

// tell sends a state to the supervisor's socket, as sd_notify(3) has it: a path, or @ and a name
// that no file has. Empty: there is nobody to tell.
func tell(socket, state string) error {
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte(state))
	return err
}
