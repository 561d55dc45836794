package serve

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/server/tracing"
)

// traceFlush is the time for the last traces at a stop: with the rest of the shutdown at most a
// second, so that an unreachable collector does not delay the exit.
const traceFlush = 700 * time.Millisecond

// openTracing begins to trace, nil without an endpoint, until the function that it returns is called.
func openTracing(ctx context.Context, o tracing.Options, log *zap.Logger) (*tracing.Tracing, func(), error) {
	if o.Endpoint == "" {
		return nil, func() {}, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("exporting traces failed", zap.Error(err)) }))
	t, err := tracing.Open(context.WithoutCancel(ctx), o)
	if err != nil {
		return nil, nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	return t, func() {
		ctx, cancel := context.WithTimeout(context.Background(), traceFlush)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			log.Warn("exporting traces failed", zap.Error(err))
		}
	}, nil
}
