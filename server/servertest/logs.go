package servertest

import (
	"context"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/metadata"

	"github.com/setpoint-dev/setpoint/server"
)

// Logged keeps the lines of a service from that level on.
func Logged(level zapcore.Level, which server.CallLog, logs **observer.ObservedLogs) func(*Setup) {
	core, observed := observer.New(level)
	*logs = observed
	return func(su *Setup) { su.Options.Log, su.Options.LogCalls = zap.New(core), which }
}

// Lines are those with a message, as their fields; each with its level.
func Lines(logs *observer.ObservedLogs, message string) []map[string]any {
	var all []map[string]any
	for _, entry := range logs.FilterMessage(message).All() {
		fields := entry.ContextMap()
		fields["level"] = entry.Level.String()
		all = append(all, fields)
	}
	return all
}

// Named is a call with an id of the caller's.
func Named(ctx context.Context, id string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-request-id", id)
}
