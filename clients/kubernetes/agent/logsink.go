package agent

import (
	"fmt"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// NewLogger returns a logger for Kubernetes' libraries that writes to log: level 0 as
// info, the more talkative ones as debug.
func NewLogger(log *zap.Logger) logr.Logger { return logr.New(logSink{log}) }

// logSink implements logr.LogSink.
type logSink struct{ log *zap.Logger }

// Init implements logr.LogSink.
func (logSink) Init(logr.RuntimeInfo) {}

func levelOf(level int) zapcore.Level {
	if level > 0 {
		return zapcore.DebugLevel
	}
	return zapcore.InfoLevel
}

// Enabled implements logr.LogSink. Beyond 1 even debugging is better off without.
func (s logSink) Enabled(level int) bool { return level <= 1 && s.log.Core().Enabled(levelOf(level)) }

// Info implements logr.LogSink.
func (s logSink) Info(level int, message string, keysAndValues ...any) {
	s.log.Log(levelOf(level), message, zapFields(keysAndValues)...)
}

// Error implements logr.LogSink. That the API server does not answer is told once, and
// not by everything that asks it.
func (s logSink) Error(err error, message string, keysAndValues ...any) {
	if unreached(err) {
		s.log.Debug(message, append(zapFields(keysAndValues), zap.Error(err))...)
		return
	}
	s.log.Error(message, append(zapFields(keysAndValues), zap.Error(err))...)
}

// WithValues implements logr.LogSink.
func (s logSink) WithValues(keysAndValues ...any) logr.LogSink {
	return logSink{s.log.With(zapFields(keysAndValues)...)}
}

// WithName implements logr.LogSink.
func (s logSink) WithName(name string) logr.LogSink { return logSink{s.log.Named(name)} }

// zapFields turns keys and values into fields; a value without a key is kept as "extra".
func zapFields(keysAndValues []any) []zap.Field {
	out := make([]zap.Field, 0, len(keysAndValues)/2)
	for i := 0; i < len(keysAndValues); i += 2 {
		if i+1 == len(keysAndValues) {
			return append(out, zap.Any("extra", keysAndValues[i]))
		}
		value := keysAndValues[i+1]
		if marshaler, ok := value.(logr.Marshaler); ok {
			value = marshaler.MarshalLog()
		}
		if stringer, ok := value.(fmt.Stringer); ok {
			out = append(out, zap.Stringer(fmt.Sprint(keysAndValues[i]), stringer))
			continue
		}
		out = append(out, zap.Any(fmt.Sprint(keysAndValues[i]), value))
	}
	return out
}
