// Package logging writes the log of Kubernetes' libraries to the agent's log, at levels that
// suit an agent: package transport logs once that the API server does not answer.
package logging

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/transport"
)

// New returns a logger for Kubernetes' libraries that writes to log: level 0 as
// info, the more talkative ones as debug.
func New(log *zap.Logger) logr.Logger { return logr.New(Sink{Log: log}) }

// NewEvents returns the logger for the library that sends events. Its lines without an error mean
// that it gave up, because the API server was away or this agent stops; each line with one is about one event, and only
// the first of a minute is logged.
func NewEvents(log *zap.Logger) logr.Logger {
	first := zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Minute, 1, 0)
	})
	return logr.New(Sink{Log: log.Named("kubernetes").WithOptions(first), asDebug: func(err error) bool { return err == nil }})
}

// NewManager returns the logger for the controller runtime. Most of its lines are about its own
// working and logged at debug level, as are its errors once the agent stops: it reports
// releasing the leadership as one.
func NewManager(ctx context.Context, log *zap.Logger) logr.Logger {
	return logr.New(Sink{Log: log.Named("kubernetes"), more: 1, asDebug: func(error) bool { return ctx.Err() != nil }})
}

// Sink implements logr.LogSink.
type Sink struct {
	Log *zap.Logger
	// more is added to levels.
	more int
	// asDebug reports whether an error is logged at debug level. Nil: none is.
	asDebug func(error) bool
}

// Init implements logr.LogSink.
func (Sink) Init(logr.RuntimeInfo) {}

func levelOf(level int) zapcore.Level {
	if level > 0 {
		return zapcore.DebugLevel
	}
	return zapcore.InfoLevel
}

// Enabled implements logr.LogSink. Lines beyond level 1 are too many even for debugging.
func (s Sink) Enabled(level int) bool {
	level += s.more
	return level <= 1 && s.Log.Core().Enabled(levelOf(level))
}

// Info implements logr.LogSink.
func (s Sink) Info(level int, message string, keysAndValues ...any) {
	s.Log.Log(levelOf(level+s.more), message, zapFields(keysAndValues)...)
}

// Error implements logr.LogSink. Package transport logs once that the API server does not
// answer, so such errors are logged at debug level.
func (s Sink) Error(err error, message string, keysAndValues ...any) {
	level := zapcore.ErrorLevel
	if transport.Unreached(err) || s.asDebug != nil && s.asDebug(err) {
		level = zapcore.DebugLevel
	}
	s.Log.Log(level, message, append(zapFields(keysAndValues), zap.Error(err))...)
}

// WithValues implements logr.LogSink. The values are encoded when something is logged: the manager
// gives each reconcile a logger of its own, and few say anything.
func (s Sink) WithValues(keysAndValues ...any) logr.LogSink {
	s.Log = s.Log.WithLazy(zapFields(keysAndValues)...)
	return s
}

// WithName implements logr.LogSink.
func (s Sink) WithName(name string) logr.LogSink {
	s.Log = s.Log.Named(name)
	return s
}

// zapFields turns keys and values into fields; a value without a key is kept as "extra".
func zapFields(keysAndValues []any) []zap.Field {
	out := make([]zap.Field, 0, len(keysAndValues)/2)
	for i := 0; i < len(keysAndValues); i += 2 {
		if i+1 == len(keysAndValues) {
			return append(out, zap.Any("extra", keysAndValues[i]))
		}
		key, ok := keysAndValues[i].(string)
		if !ok {
			key = fmt.Sprint(keysAndValues[i])
		}
		value := keysAndValues[i+1]
		if marshaler, ok := value.(logr.Marshaler); ok {
			value = marshaler.MarshalLog()
		}
		if stringer, ok := value.(fmt.Stringer); ok {
			out = append(out, zap.Stringer(key, stringer))
			continue
		}
		out = append(out, zap.Any(key, value))
	}
	return out
}
