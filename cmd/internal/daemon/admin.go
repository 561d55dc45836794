package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/errorlog"
	"github.com/setpoint-dev/setpoint/server/connections"
)

// ServePages serves the operators' pages until the returned function is called, profiles only
// if no other machine can reach the listener; a nil listener: nothing. On loopback, web pages
// of hosts other than the given ones can't read them.
func ServePages(listener net.Listener, pages http.Handler, hosts []string, log *zap.Logger) (stop func()) {
	if listener != nil && !setpoint.OnLoopback(listener.Addr().String()) {
		pages = withoutProfiles(pages)
	}
	return ServeProfiles(listener, pages, hosts, log)
}

// adminConnections bounds the connections of the admin address. Beyond it the oldest one is
// closed, so that probes and scrapers are served however many are held open.
const adminConnections = 64

// ServeProfiles is ServePages with profiles wherever the listener is.
func ServeProfiles(listener net.Listener, pages http.Handler, hosts []string, log *zap.Logger) (stop func()) {
	if listener == nil {
		return func() {}
	}
	set := connections.New(connections.Options{Most: adminConnections})
	admin := &http.Server{
		Handler:           connections.GuardHost(listener.Addr(), hosts, pages, http.HandlerFunc(refuseHost)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          errorlog.New(log, zap.InfoLevel),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := admin.Serve(set.Listen(listener)); !errors.Is(err, http.ErrServerClosed) {
			log.Error("admin address not served", zap.Error(err))
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := admin.Shutdown(ctx); err != nil {
			_ = admin.Close()
		}
		<-done
	}
}

func refuseHost(w http.ResponseWriter, r *http.Request) {
	http.Error(w, connections.HostRefusal(r.Host), http.StatusForbidden)
}
