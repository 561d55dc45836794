package serve

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/server/tracing"
)

// observeSettings are the settings of logs, metrics and traces.
type observeSettings struct {
	AccessLog          string
	TargetMetrics      bool
	TargetMetricsLimit int
	OTLPEndpoint       string
	OTLPInsecure       bool
	TraceRatio         float64
}

func defaultObserveSettings() observeSettings {
	return observeSettings{
		AccessLog:          string(server.DefaultOptions().LogCalls),
		TargetMetricsLimit: telemetry.DefaultMaxTargets,
		TraceRatio:         tracing.DefaultRatio,
	}
}

func (s *observeSettings) bind(flags *pflag.FlagSet) {
	flags.StringVar(&s.AccessLog, "access-log", s.AccessLog, "`calls` logged at level info: none, failed (up to 100 a second) or all; replica changes and internal errors are always logged")
	flags.BoolVar(&s.TargetMetrics, "target-metrics", s.TargetMetrics, "export metrics per target: its current and desired replicas")
	flags.IntVar(&s.TargetMetricsLimit, "target-metrics-limit", s.TargetMetricsLimit, "maximum targets with metrics of their own; further ones are only counted")
	flags.StringVar(&s.OTLPEndpoint, "otlp-endpoint", s.OTLPEndpoint, "`host:port` or URL of the OpenTelemetry collector, OTLP over gRPC; the OTEL_… variables are read, too; empty disables tracing")
	flags.BoolVar(&s.OTLPInsecure, "otlp-insecure", s.OTLPInsecure, "send traces without TLS")
	flags.Float64Var(&s.TraceRatio, "trace-ratio", s.TraceRatio, "share of calls traced, 0 to 1, where the caller's traceparent does not decide")
}

func (s *observeSettings) validate(refuse func(flag, format string, args ...any)) {
	if !slices.Contains(server.CallLogs(), server.CallLog(s.AccessLog)) {
		refuse("access-log", "%q is not one of %q", s.AccessLog, server.CallLogs())
	}
	if s.TargetMetricsLimit <= 0 {
		refuse("target-metrics-limit", "%d is not above 0", s.TargetMetricsLimit)
	}
	if err := tracing.ValidateRatio(s.TraceRatio); err != nil {
		refuse("trace-ratio", "%v", err)
	}
	if s.OTLPEndpoint == "" {
		return
	}
	o := s.tracing()
	if err := o.ValidateEndpoint(); err != nil {
		refuse("otlp-endpoint", "%v", err)
	}
}

// apply sets the server's options.
func (s *observeSettings) apply(o *server.Options) {
	o.LogCalls = server.CallLog(s.AccessLog)
	if s.TargetMetrics {
		o.TargetMetrics = s.TargetMetricsLimit
	}
}

func (s *observeSettings) tracing() tracing.Options {
	return tracing.Options{Endpoint: s.OTLPEndpoint, Insecure: s.OTLPInsecure, Ratio: s.TraceRatio, Version: cli.Version()}
}

// traceFlush is the time for the last traces at a stop: with the rest of the shutdown at most a
// second, so that an unreachable collector does not delay the exit.
const traceFlush = 700 * time.Millisecond

// openTracing begins to trace, nil if that is not wanted, until the function that it
// returns is called.
func (s *observeSettings) openTracing(ctx context.Context, log *zap.Logger) (*tracing.Tracing, func(), error) {
	if s.OTLPEndpoint == "" {
		return nil, func() {}, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces lost", zap.Error(err)) }))
	t, err := tracing.Open(context.WithoutCancel(ctx), s.tracing())
	if err != nil {
		return nil, nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	return t, func() {
		ctx, cancel := context.WithTimeout(context.Background(), traceFlush)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			log.Warn("traces lost", zap.Error(err))
		}
	}, nil
}
