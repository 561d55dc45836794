package logging

import (
	"fmt"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/transport"
)

// New returns a logger for Kubernetes' libraries that writes to log: level 0 as
// info, the more talkative ones as debug.
func New(log *zap.Logger) logr.Logger { return logr.New(Sink{log}) }

// Sink implements logr.LogSink.
type Sink struct{ Log *zap.Logger }

// Init implements logr.LogSink.
func (Sink) Init(logr.RuntimeInfo) {}

func levelOf(level int) zapcore.Level {
	if level > 0 {
		return zapcore.DebugLevel
	}
	return zapcore.InfoLevel
}

// Enabled implements logr.LogSink. Lines beyond level 1 are too many even for debugging.
func (s Sink) Enabled(level int) bool { return level <= 1 && s.Log.Core().Enabled(levelOf(level)) }

// Info implements logr.LogSink.
func (s Sink) Info(level int, message string, keysAndValues ...any) {
	s.Log.Log(levelOf(level), message, zapFields(keysAndValues)...)
}

// Error implements logr.LogSink. Package transport logs once that the API server does not
// answer, so this drops such errors.
func (s Sink) Error(err error, message string, keysAndValues ...any) {
	if transport.Unreached(err) {
		s.Log.Debug(message, append(zapFields(keysAndValues), zap.Error(err))...)
		return
	}
	s.Log.Error(message, append(zapFields(keysAndValues), zap.Error(err))...)
}

// WithValues implements logr.LogSink.
func (s Sink) WithValues(keysAndValues ...any) logr.LogSink {
	return Sink{s.Log.With(zapFields(keysAndValues)...)}
}

// WithName implements logr.LogSink.
func (s Sink) WithName(name string) logr.LogSink { return Sink{s.Log.Named(name)} }

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
