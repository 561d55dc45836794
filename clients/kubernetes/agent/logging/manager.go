package logging

import (
	"context"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
)

// NewManager returns the logger for the controller runtime. Most of its lines are about its own
// working and logged at debug level, as are its errors once the agent stops: it reports
// releasing the leadership as one.
func NewManager(ctx context.Context, log *zap.Logger) logr.Logger {
	return logr.New(managerSink{Sink{log.Named("kubernetes")}, ctx})
}

// managerSink implements logr.LogSink.
type managerSink struct {
	Sink
	running context.Context
}

// Enabled implements logr.LogSink.
func (s managerSink) Enabled(level int) bool { return s.Sink.Enabled(level + 1) }

// Info implements logr.LogSink.
func (s managerSink) Info(_ int, message string, keysAndValues ...any) {
	s.Sink.Info(1, message, keysAndValues...)
}

// Error implements logr.LogSink.
func (s managerSink) Error(err error, message string, keysAndValues ...any) {
	if s.running.Err() != nil {
		s.Sink.Info(1, message, append(keysAndValues, "error", err)...)
		return
	}
	s.Sink.Error(err, message, keysAndValues...)
}

// WithValues implements logr.LogSink. The values are encoded when something is logged: the manager
// gives each reconcile a logger of its own, and few say anything.
func (s managerSink) WithValues(keysAndValues ...any) logr.LogSink {
	s.Log = s.Log.WithLazy(zapFields(keysAndValues)...)
	return s
}

// WithName implements logr.LogSink.
func (s managerSink) WithName(name string) logr.LogSink {
	s.Log = s.Log.Named(name)
	return s
}
