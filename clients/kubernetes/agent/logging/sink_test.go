package logging_test

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/logging"
)

func TestLinesHaveTheLevelOfTheLibraryThatWritesThem(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	const debug, info, wrong = zapcore.DebugLevel, zapcore.InfoLevel, zapcore.ErrorLevel
	for name, tt := range map[string]struct {
		of func(*zap.Logger) logr.Logger
		// of lines of level 0 and 1, and of an error, of none, and of one without an answer.
		want []zapcore.Level
	}{
		"a library":         {logging.New, []zapcore.Level{info, debug, wrong, wrong, debug}},
		"of events":         {logging.NewEvents, []zapcore.Level{info, debug, wrong, debug, debug}},
		"the manager":       {func(log *zap.Logger) logr.Logger { return logging.NewManager(t.Context(), log) }, []zapcore.Level{debug, wrong, wrong, debug}},
		"a stopped manager": {func(log *zap.Logger) logr.Logger { return logging.NewManager(stopped, log) }, []zapcore.Level{debug, debug, debug, debug}},
	} {
		core, lines := observer.New(zapcore.DebugLevel)
		log := tt.of(zap.New(core)).WithName("of").WithValues("a", 1)
		log.V(2).Info("too much")
		log.Info("line")
		log.V(1).Info("more")
		log.Error(errors.New("no"), "wrong")
		log.Error(nil, "gave up")
		log.Error(&url.Error{Err: errors.New("no route")}, "away")
		all := lines.All()
		if len(all) != len(tt.want) {
			t.Fatalf("%s: got %d lines, want %d", name, len(all), len(tt.want))
		}
		for i, line := range all {
			if line.Level != tt.want[i] || line.ContextMap()["a"] != int64(1) {
				t.Errorf("%s: %q has the level %s and %v, want %s", name, line.Message, line.Level, line.ContextMap(), tt.want[i])
			}
		}
	}
}
