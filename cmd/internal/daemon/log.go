package daemon

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// NewLog returns a log of that level (debug, info, warn or error) and format (json, or
// console for people) on standard error.
func NewLog(logLevel, format string) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(logLevel)
	if err != nil {
		return nil, err
	}
	c := zap.NewProductionConfig()
	c.Level = zap.NewAtomicLevelAt(level)
	c.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	c.EncoderConfig.EncodeDuration = zapcore.StringDurationEncoder
	c.DisableStacktrace, c.DisableCaller = true, true
	c.Sampling = nil
	if format == "console" {
		c.Encoding = "console"
	}
	return c.Build()
}
