package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
	"github.com/setpoint-dev/setpoint/cmd/internal/managerflags"
)

func newAgent() *cobra.Command {
	s := defaultAgentSettings()
	check := false
	var report *reportFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Scale the workloads of a Kubernetes cluster",
		Long: `Scale the workloads of a Kubernetes cluster as a server recommends: in place of the
built-in HorizontalPodAutoscaler controller (--source=hpa), which must be switched off
then (--controllers=*,-horizontal-pod-autoscaler-controller), beside it for objects of
the kind Autoscaler (--source=autoscaler), or as a shadow of it that applies nothing
(--shadow). Which of these must be said. Where another controller acts on the same
objects the agent gives way. While the server is away no count is changed.

Several agents of a cluster elect the one that acts (--leader-elect). Each flag can also
be set by a variable (--cluster: SETPOINT_CLUSTER) and by a key of the config file. The
flag --horizontal-pod-autoscaler-sync-period of kube-controller-manager is taken as it
is; those that decide are for setpoint serve.`,
		Example: `  setpoint agent kubernetes --cluster=demo --source=autoscaler --server=setpoint:9090 --token-file=/var/run/secrets/setpoint/token
  setpoint agent kubernetes --cluster=demo --server=127.0.0.1:9090 --insecure --shadow
  setpoint agent kubernetes --shadow --report
  setpoint agent kubernetes --shadow --report-differing`,
		Args: cli.UsageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Apply(cmd.Flags(), os.Environ()); err != nil {
				return cli.BadInput(err)
			}
			s.PeriodSet = cmd.Flags().Changed("sync-period")
			if report.all || report.differing {
				return shadowReport(cmd, &s, report)
			}
			if err := s.validate(); err != nil {
				return cli.BadInput(err)
			}
			s.Notes = managerflags.WithoutEffect(cmd.Flags(), managerflags.Agent)
			if check {
				managerflags.TellNotes(cmd, s.Notes)
				return checkAgent(cmd, &s)
			}
			return runAgent(cmd.Context(), &s)
		},
	}
	s.bind(cmd.Flags())
	config.AddFlag(cmd.Flags())
	config.AddCheck(cmd.Flags(), &check)
	report = addReportFlags(cmd.Flags())
	managerflags.Bind(cmd.Flags(), managerflags.Agent)
	return cmd
}

// checkAgent looks at everything that the settings name and that can be wrong, and
// prints the settings. It asks neither the cluster nor the server.
func checkAgent(cmd *cobra.Command, s *agentSettings) error {
	if _, err := s.clusterConfig(); err != nil {
		return cli.BadInput(err)
	}
	client, err := s.Service.Open("setpoint-agent")
	if err != nil {
		return cli.BadInput(err)
	}
	if err := client.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "# The configuration is valid. What was set says so.\n%s", config.Effective(cmd.Flags(), config.Mask))
	return err
}

// runAgent runs until the context ends and rounds in flight are done.
func runAgent(ctx context.Context, s *agentSettings) error {
	log, err := daemon.NewLog(s.LogLevel, s.LogFormat)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	klog.SetLogger(agent.NewLogger(log.Named("kubernetes")))
	runtimelog.SetLogger(agent.NewLogger(log.Named("kubernetes")))
	for _, note := range s.Notes {
		log.Warn(note)
	}
	daemon.KeepWithin(memoryShare)
	collectOften()
	cluster, err := s.clusterConfig()
	if err != nil {
		return cli.BadInput(err)
	}
	client, err := s.Service.Open("setpoint-agent")
	if err != nil {
		return cli.BadInput(err)
	}
	defer func() { _ = client.Close() }()
	return serveAgent(ctx, s, cluster, client, log)
}

// memoryShare is the share of a memory limit that the agent's collector keeps to: most of
// its memory lives.
const memoryShare = 90

// collectOftenAt is how much the agent's heap grows, in percent, before garbage is
// collected: unlike a server's most of it lives, as the cluster's pods do, so that room
// for garbage costs much memory and saves little time.
const collectOftenAt = 35

// collectOften sets how often garbage is collected, unless the user has said so.
func collectOften() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectOftenAt)
	}
}

// serveAgent runs the agent and its admin address.
func serveAgent(ctx context.Context, s *agentSettings, cluster *rest.Config, client *setpoint.Client, log *zap.Logger) error {
	metrics := prometheus.NewRegistry()
	options, closeRecording, err := s.options(client, metrics, log)
	if err != nil {
		return cli.BadInput(err)
	}
	defer closeRecording()
	a, err := agent.New(cluster, agent.Service{
		Calls: client, Stream: client.Stream(min(s.Workers, setpoint.DefaultInFlight)),
		Redial: client.Conn().ResetConnectBackoff,
	}, options)
	if err != nil {
		return cli.BadInput(err)
	}
	var admin net.Listener
	if s.AdminAddress != "" {
		if admin, err = net.Listen("tcp", s.AdminAddress); err != nil {
			return fmt.Errorf("--admin-address: %w", err)
		}
	}
	// The metrics of Kubernetes' libraries, of the runtime and of the process are in a
	// registry of their own.
	pages := agentPages(a, prometheus.Gatherers{metrics, runtimemetrics.Registry})
	defer daemon.ServePages(admin, daemon.Routes(pages), nil, log)()
	defer daemon.TellSupervisor(ctx, log)()
	log.Info("agent starts", zap.String("version", cli.Version()), zap.String("cluster", s.Cluster),
		zap.String("source", s.source()), zap.Bool("shadow", s.Shadow), zap.Bool("leaderElection", s.LeaderElect))
	if err := a.Run(ctx); err != nil {
		return err
	}
	log.Info("agent stopped")
	return nil
}
