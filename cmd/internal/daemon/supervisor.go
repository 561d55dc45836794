package daemon

import (
	"context"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// TellSupervisor notifies systemd, if it started the process (Type=notify), that the service
// listens, and, when the context ends, that it drains. From then on SIGHUP does not end the process. Call the returned function at the end.
func TellSupervisor(ctx context.Context, log *zap.Logger) func() {
	notify := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn("notifying systemd failed", zap.String("state", state), zap.Error(err))
		}
	}
	notify(daemon.SdNotifyReady)
	stop := context.AfterFunc(ctx, func() { notify(daemon.SdNotifyStopping) })
	hangups := survive(log)
	return func() {
		stop()
		hangups()
	}
}
