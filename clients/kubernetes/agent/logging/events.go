package logging

import (
	"github.com/go-logr/logr"
	"go.uber.org/zap"
)

// NewEvents returns the logger for the library that sends events.
func NewEvents(log *zap.Logger) logr.Logger {
	return logr.New(eventSink{Sink{log.Named("kubernetes")}})
}

// eventSink implements logr.LogSink for the library that sends events. Its lines without an
// error mean that it gave up, because the API server was away or this agent stops.
type eventSink struct{ Sink }

// Error implements logr.LogSink.
func (s eventSink) Error(err error, message string, keysAndValues ...any) {
	if err == nil {
		s.Info(1, message, keysAndValues...)
		return
	}
	s.Sink.Error(err, message, keysAndValues...)
}
