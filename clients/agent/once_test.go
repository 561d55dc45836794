package agent

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A cause that tells a time or a port is the same cause a second later.
func TestCausesAreAlikeButForDigits(t *testing.T) {
	t.Parallel()
	core, lines := observer.New(zapcore.DebugLevel)
	log := zap.New(core)
	var o once
	for _, cause := range []string{"the value is of 12:00:01", "the value is of 12:00:16", "connection refused", "the value is of 12:00:31"} {
		o.say(log, zapcore.WarnLevel, "evaluated with an error", cause)
	}
	if lines.Len() != 2 {
		t.Errorf("%d lines of two causes: %v", lines.Len(), lines.All())
	}
}
