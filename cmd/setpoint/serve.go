package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/setpoint-dev/setpoint/cmd/setpoint/config"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func newServe() *cobra.Command {
	s := defaultSettings()
	check := false
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve recommendations over gRPC and REST",
		Long: `Serve recommendations over gRPC and REST. Histories are kept in this process, or in
a Redis that many instances share (--redis).

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
			if check {
				return checkOnly(cmd, &s)
			}
			return serve(cmd.Context(), &s)
		},
	}
	s.bind(cmd.Flags())
	config.AddFlag(cmd.Flags())
	config.AddCheck(cmd.Flags(), &check)
	return cmd
}

// engine keeps histories and decision logs.
type engine interface {
	store.Store
	store.Log
}

// openStore opens the store that the settings name.
func openStore(s *settings, log *zap.Logger, metrics prometheus.Registerer) (engine, error) {
	if !s.Redis.used() {
		return memory.New(memory.Options{TTL: s.HistoryTTL, LogLength: logLength(s.DecisionLogLength)}), nil
	}
	opened, err := s.Redis.open(s.HistoryTTL, logLength(s.DecisionLogLength), log)
	if err != nil {
		return nil, badInput(err)
	}
	return opened, metrics.Register(redisCollector{opened})
}

// serve runs until the context ends and calls are drained.
func serve(ctx context.Context, s *settings) error {
	log, err := newLog(s)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	goredis.SetLogger(driverLog{log})
	tuneCollector()
	metrics := newRegistry()
	histories, err := openStore(s, log, metrics)
	if err != nil {
		return err
	}
	defer func() { _ = histories.Close() }()
	options := s.options()
	options.Log, options.Registerer = log, metrics
	edge, err := s.Edge.open(log)
	if err != nil {
		return badInput(err)
	}
	defer edge.close()
	if err := metrics.Register(edge.counts); err != nil {
		return err
	}
	options.Access, options.TLS = edge.access, edge.tls
	traces, stopTracing, err := s.Observe.openTracing(ctx, log)
	if err != nil {
		return badInput(err)
	}
	defer stopTracing()
	options.Tracing = traces
	srv, err := server.New(histories, histories, options)
	if err != nil {
		return err
	}
	listeners, err := listen(s)
	if err != nil {
		srv.Close()
		return err
	}
	stopAdmin := serveAdmin(listeners.admin, srv, metrics, s.AdminProfiles, log)
	defer stopAdmin()
	defer tellSupervisor(ctx, log)()
	return srv.Serve(ctx, listeners.grpc, listeners.rest)
}

// listeners are what serve listens on.
type listeners struct{ grpc, rest, admin net.Listener }

// listen opens all listeners, or none.
func listen(s *settings) (l listeners, err error) {
	for _, open := range []struct {
		flag, address string
		listener      *net.Listener
	}{
		{"grpc-address", s.GRPCAddress, &l.grpc}, {"rest-address", s.RESTAddress, &l.rest}, {"admin-address", s.AdminAddress, &l.admin},
	} {
		if open.flag == "admin-address" && open.address == "" {
			continue
		}
		if *open.listener, err = net.Listen("tcp", open.address); err != nil {
			for _, opened := range []net.Listener{l.grpc, l.rest} {
				if opened != nil {
					_ = opened.Close()
				}
			}
			return listeners{}, fmt.Errorf("--%s: %w", open.flag, err)
		}
	}
	return l, nil
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
