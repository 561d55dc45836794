package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/setpoint-dev/setpoint/cmd/setpoint/config"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func newServe() *cobra.Command {
	s := defaultSettings()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve recommendations over gRPC and REST",
		Long: `Serve recommendations over gRPC and REST, with histories kept in this process.

Each flag can also be set by a variable (--grpc-address: SETPOINT_GRPC_ADDRESS) and
by a key of the config file (grpc-address). The command line comes first, then the
environment, then the file. The API is described at /docs of the REST address.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Apply(cmd.Flags(), os.Environ(), clientVariables...); err != nil {
				return badInput(err)
			}
			if err := s.validate(); err != nil {
				return badInput(err)
			}
			return serve(cmd.Context(), &s)
		},
	}
	s.bind(cmd.Flags())
	config.AddFlag(cmd.Flags())
	return cmd
}

// serve runs until the context ends and calls are drained.
func serve(ctx context.Context, s *settings) error {
	log, err := newLog(s)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	options := s.options()
	options.Log = log
	engine := memory.New(memory.Options{TTL: s.HistoryTTL, LogLength: logLength(s.DecisionLogLength)})
	defer func() { _ = engine.Close() }()
	srv, err := server.New(engine, engine, options)
	if err != nil {
		return err
	}
	grpcListener, err := net.Listen("tcp", s.GRPCAddress)
	if err != nil {
		srv.Close()
		return fmt.Errorf("--grpc-address: %w", err)
	}
	restListener, err := net.Listen("tcp", s.RESTAddress)
	if err != nil {
		srv.Close()
		_ = grpcListener.Close()
		return fmt.Errorf("--rest-address: %w", err)
	}
	return srv.Serve(ctx, grpcListener, restListener)
}

// logLength is the engine's form of a length: 0 would mean its default there.
func logLength(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

func newLog(s *settings) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(s.LogLevel)
	if err != nil {
		return nil, err
	}
	c := zap.NewProductionConfig()
	c.Level = zap.NewAtomicLevelAt(level)
	c.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	c.EncoderConfig.EncodeDuration = zapcore.StringDurationEncoder
	c.DisableStacktrace, c.DisableCaller = true, true
	c.Sampling = nil
	if s.LogFormat == "console" {
		c.Encoding = "console"
	}
	return c.Build()
}
