package calls

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/telemetry"
)

// Logged selects the calls that are logged at the level info, beside those that are audited. Calls that
// fail by the server's own fault are always logged as errors, up to a hundred per second; all others at the level debug. The zero
// value is LogNone.
type Logged string

// The choices.
const (
	LogNone Logged = "none"
	// LogFailed logs failed calls, up to a hundred per second.
	LogFailed Logged = "failed"
	LogAll    Logged = "all"
)

// LoggedChoices are the choices, least to most logged.
func LoggedChoices() []Logged { return []Logged{LogNone, LogFailed, LogAll} }

// callMessage is the message of a call's log line.
const callMessage = "call"

// level is the level of a call's log line. A delete that found nothing is what its caller wanted:
// agents send one for each new object.
func (o *Observer) level(method string, audited bool, code codes.Code) zapcore.Level {
	probe := strings.HasPrefix(method, "grpc.health.")
	switch {
	case code == codes.NotFound && o.which != LogAll && strings.HasSuffix(method, "/DeleteTarget"):
		return zap.DebugLevel
	case code == codes.Internal || code == codes.Unknown || code == codes.DataLoss:
		return zap.ErrorLevel
	case code == codes.OK && audited,
		code != codes.OK && o.which != LogNone && o.which != "",
		code == codes.OK && o.which == LogAll && !probe:
		return zap.InfoLevel
	}
	return zap.DebugLevel
}

// line returns the log line of a call, nil for none.
func (o *Observer) line(method *telemetry.Method, code codes.Code) *zapcore.CheckedEntry {
	return o.check(o.level(method.Name, method.Audited, code), code)
}

func (o *Observer) check(level zapcore.Level, code codes.Code) *zapcore.CheckedEntry {
	if !o.log.Core().Enabled(level) {
		return nil
	}
	if level == zap.ErrorLevel && !o.faults.Allow() || level == zap.InfoLevel && code != codes.OK && o.which == LogFailed && !o.failures.Allow() {
		o.suppressed.Add(1)
		return nil
	}
	return o.log.Check(level, callMessage)
}

// fields are the fields of every call.
func (o *Observer) fields(c *Call, method *telemetry.Method, code codes.Code, took time.Duration, err error) []zap.Field {
	transport := "grpc"
	if IsFromGateway(c) {
		transport = "rest"
	}
	fields := append(make([]zap.Field, 0, 16),
		zap.String("requestId", c.ID()), zap.String("transport", transport), zap.String("method", method.Name),
		zap.String("peer", peerOf(c)), zap.String("identity", c.identity),
		zap.Stringer("code", code), zap.Duration("duration", took))
	return o.rare(c, fields, err)
}

// rare adds the fields that most lines do not have.
func (o *Observer) rare(ctx context.Context, fields []zap.Field, err error) []zap.Field {
	if err != nil {
		fields = append(fields, zap.String("error", apierror.ClipMarked(status.Convert(err).Message())))
	}
	if trace := o.tracing.ID(ctx); trace != "" {
		fields = append(fields, zap.String("trace", trace))
	}
	if n := o.suppressed.Swap(0); n > 0 {
		fields = append(fields, zap.Uint64("suppressed", n))
	}
	return fields
}

// Message logs a request of a stream like a call.
func (o *Observer) Message(ctx context.Context, method, target string, err error, took time.Duration) {
	c := Of(ctx)
	if c == nil {
		return
	}
	code := apierror.CodeOf(err)
	m := o.Calls.Of(method)
	if line := o.line(m, code); line != nil {
		fields := o.fields(c, m, code, took, err)
		line.Write(append(fields, zap.String("target", apierror.Clip(target)), zap.Bool("streamed", true))...)
	}
}
