package serve

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
	"github.com/setpoint-dev/setpoint/cmd/internal/managerflags"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/sources"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// New returns the command.
func New() *cobra.Command {
	s := defaultSettings()
	check := false
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve recommendations over gRPC and REST",
		Long: `Serve recommendations over gRPC and REST. Histories are kept in this process, or in
a Redis that many instances share (--redis).

Each flag can also be set by a variable (--grpc-address: SETPOINT_GRPC_ADDRESS) and
by a key of the config file (grpc-address). The command line comes first, then the
environment, then the file. The flags of kube-controller-manager for its autoscaler
(--horizontal-pod-autoscaler-tolerance and so on) are taken under their own names, too.
The REST address has a web page at /ui/, and the API's description at /docs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Apply(cmd.Flags(), os.Environ()); err != nil {
				return cli.BadSettings(err)
			}
			if err := s.validate(); err != nil {
				return cli.BadSettings(err)
			}
			s.Notes = managerflags.WithoutEffect(cmd.Flags(), managerflags.Serve)
			if t, _ := conversion.Tolerance(s.Tolerance); t >= 1 { // valid, as of the controller manager
				s.Notes = append(s.Notes, fmt.Sprintf("--tolerance: %s is %g %% of the target, so metrics never ask for fewer replicas; 10 %% is 0.1", s.Tolerance, 100*t))
			}
			if !s.Redis.used() {
				cmd.Flags().Visit(func(f *pflag.Flag) {
					if strings.HasPrefix(f.Name, "redis-") || f.Name == "on-store-failure" {
						s.Notes = append(s.Notes, config.WithoutEffect(cmd.Flags(), "redis", f.Name)...)
					}
				})
			}
			if check {
				managerflags.TellNotes(cmd, s.Notes)
				return checkOnly(cmd, &s)
			}
			return serve(cmd.Context(), &s)
		},
	}
	s.list().Bind(cmd.Flags())
	config.AddFlag(cmd.Flags())
	config.AddCheck(cmd.Flags(), &check)
	managerflags.Bind(cmd.Flags(), managerflags.Serve)
	return cmd
}

// engine keeps histories and decision logs.
type engine interface {
	store.Engine
	store.Log
}

// openStore opens the store that the settings name.
func openStore(s *settings, log *zap.Logger, metrics prometheus.Registerer) (engine, error) {
	kept := s.Kept
	kept.LogLength, kept.KeptLength, kept.FeedLength = orNone(kept.LogLength), orNone(kept.KeptLength), orNone(kept.FeedLength)
	if !s.Redis.used() {
		return memory.New(kept), nil
	}
	opened, err := s.Redis.open(kept, log)
	if err != nil {
		return nil, cli.BadInput(err)
	}
	return opened, metrics.Register(redisCollector{opened.Store})
}

// serve runs until the context ends and calls are drained.
func serve(ctx context.Context, s *settings) error {
	log, err := s.Log.Open()
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	goredis.SetLogger(driverLog{log})
	for _, note := range s.Notes {
		log.Warn(note)
	}
	daemon.KeepWithin(serveMemoryShare)
	tuneCollector()
	metrics := newRegistry()
	histories, err := openStore(s, log, metrics)
	if err != nil {
		return err
	}
	defer func() { _ = histories.Close() }()
	options := s.options()
	options.Log, options.Registerer = log, metrics
	if limit, known := descriptorLimit(); known {
		options.MaxConnections = withinDescriptors(options.MaxConnections, limit, log)
	}
	edge, err := s.Edge.open(log, s.Kept.TTL)
	if err != nil {
		return cli.BadInput(err)
	}
	defer edge.close()
	for _, note := range edge.notes {
		log.Warn(note)
	}
	if r, ok := histories.(redisStore); ok {
		edge.counts.redis = r.files.status
	}
	if options.SignIn, err = s.SignIn.open(edge, log); err != nil {
		return cli.BadInput(err)
	}
	if err := metrics.Register(edge.counts); err != nil {
		return err
	}
	options.Access, options.TLS = edge.access, edge.tls
	fetching, err := s.openSources(metrics, log)
	if err != nil {
		return cli.BadInput(err)
	}
	defer fetching.Close()
	if fetching != nil {
		options.Sources = fetching
	}
	traces, stopTracing, err := openTracing(ctx, s.Tracing, log)
	if err != nil {
		return cli.BadInput(err)
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
	stopAdmin := serveAdmin(listeners.admin, srv, metrics, s.AdminProfiles, s.Server.AllowedHosts, log)
	defer stopAdmin()
	defer daemon.TellSupervisor(ctx, log)()
	defer releaseAfterStart().Stop()
	return srv.Serve(ctx, listeners.grpc, listeners.rest)
}

// listeners are the listeners of serve.
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

// orNone is the engine's form of a length: 0 would mean its default there.
func orNone(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// openSources opens the metric sources of stored specs; nil: none.
func (s *settings) openSources(metrics prometheus.Registerer, log *zap.Logger) (*sources.Sources, error) {
	o := s.Sources
	o.Registerer, o.Log = metrics, log
	return sources.New(o)
}
