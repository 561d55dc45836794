package daemon

import (
	"bytes"
	"fmt"
	"io"
	stdlog "log"
	"os"
	"sync/atomic"
	"unicode"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/grpclog"

	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/errorlog"
)

// LogSettings are the settings of a program's log.
type LogSettings struct{ Level, Format string }

// DefaultLog returns their defaults.
func DefaultLog() LogSettings { return LogSettings{"info", "json"} }

// List are the settings.
func (s *LogSettings) List() []config.Setting {
	return []config.Setting{
		config.String(&s.Level, "log-level", "least severe `level` that is logged: debug, info, warn or error", func(level string) error {
			if _, err := zapcore.ParseLevel(level); err != nil {
				return fmt.Errorf("%q is not one of debug, info, warn, error", level)
			}
			return nil
		}),
		config.String(&s.Format, "log-format", "`form` of log lines: json, or console for people", config.OneOf("json", "console")),
	}
}

// Open returns the log, on standard error; lines that nobody reads there are lost. Errors of grpc and its gateway, which they write to
// standard error otherwise, enter it at info: peers cause them, by ending a connection.
func (s *LogSettings) Open() (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(s.Level)
	if err != nil {
		return nil, err
	}
	c := zap.NewProductionConfig()
	c.Level = zap.NewAtomicLevelAt(level)
	c.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	c.EncoderConfig.EncodeDuration = zapcore.StringDurationEncoder
	c.DisableStacktrace, c.DisableCaller = true, true
	c.Sampling = nil
	out := &lossy{file: os.Stderr, patience: logPatience}
	log := s.to(out, c)
	out.tell = func(lines int) {
		log.Warn("log lines were lost: nobody read them from standard error", zap.Int("lines", lines))
	}
	transport.log.Store(errorlog.Of(log, zap.InfoLevel, "grpc"))
	return log, nil
}

// to returns a log that writes to w.
func (s *LogSettings) to(w io.Writer, c zap.Config) *zap.Logger {
	encoder := zapcore.NewJSONEncoder(c.EncoderConfig)
	if s.Format == "console" {
		encoder = zapcore.NewConsoleEncoder(c.EncoderConfig)
	}
	out := zapcore.Lock(zapcore.AddSync(printing{w}))
	return zap.New(zapcore.NewCore(encoder, out, c.Level), zap.ErrorOutput(out))
}

// printing replaces what moves a terminal's cursor or turns the direction of writing around: lines have texts of
// callers. The encoders escape what is ASCII only.
type printing struct{ io.Writer }

func (p printing) Write(line []byte) (int, error) {
	if !bytes.ContainsFunc(line, isHidden) {
		return p.Writer.Write(line)
	}
	shown := bytes.Map(func(r rune) rune {
		if isHidden(r) {
			return unicode.ReplacementChar
		}
		return r
	}, line)
	if _, err := p.Writer.Write(shown); err != nil {
		return 0, err
	}
	return len(line), nil
}

func isHidden(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }

// transport is where grpc writes one line, with its time and level, for each error: few of them enter the log, for strangers
// cause them, as by a header that can't be read.
var transport transportLog

// grpc reads its logger without a lock, so it has to be set before the first call.
func init() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, &transport)) }

type transportLog struct{ log atomic.Pointer[stdlog.Logger] }

func (t *transportLog) Write(line []byte) (int, error) {
	log := t.log.Load()
	if log == nil { // a command without a log
		return os.Stderr.Write(line)
	}
	_, text, _ := bytes.Cut(line, []byte("ERROR: "))
	log.Print(string(text))
	return len(line), nil
}
