package main

import (
	"context"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/logging"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/buildmetric"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
	"github.com/setpoint-dev/setpoint/cmd/internal/managerflags"
)

func newAgent() *cobra.Command {
	s := defaultAgentSettings()
	check := false
	var report *agentcmd.ReportFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Scale the workloads of a Kubernetes cluster",
		Long: `Scale the workloads of a Kubernetes cluster as a server recommends. Choose one mode:

  --source=hpa         replaces the built-in HorizontalPodAutoscaler controller, which
                       must be off (--controllers=*,-horizontal-pod-autoscaler-controller)
  --source=autoscaler  runs beside it, for objects of the kind Autoscaler
  --source=both        does both
  --shadow             decides beside it and applies nothing

If another controller acts on the same objects, the agent gives way. While it can't reach
the server, it changes no count. Several agents of a cluster elect the one that acts
(--leader-elect).

Each flag can also be set by a variable (--cluster: SETPOINT_CLUSTER) and by a key of the
config file. The agent also accepts kube-controller-manager's flag
--horizontal-pod-autoscaler-sync-period; set the flags that affect decisions on
setpoint serve.`,
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
			if report.Wanted() {
				return report.Print(cmd, s.AdminAddress)
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
	report = agentcmd.AddReportFlags(cmd.Flags())
	managerflags.Bind(cmd.Flags(), managerflags.Agent)
	return cmd
}

// checkAgent checks all settings and the files they name, and prints the settings. It contacts
// neither the cluster nor the server.
func checkAgent(cmd *cobra.Command, s *agentSettings) error {
	if _, err := s.clusterConfig(); err != nil {
		return cli.BadInput(err)
	}
	if err := s.Check(); err != nil {
		return err
	}
	sources, err := s.openSources(prometheus.NewRegistry(), zap.NewNop())
	if err != nil {
		return err
	}
	sources.Close()
	return agentcmd.PrintChecked(cmd)
}

// runAgent runs until the context ends and reconciles in flight are done.
func runAgent(ctx context.Context, s *agentSettings) error {
	log, err := daemon.NewLog(s.LogLevel, s.LogFormat)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	klog.SetLogger(logging.New(log.Named("kubernetes")))
	runtimelog.SetLogger(logging.New(log.Named("kubernetes")))
	for _, note := range s.Notes {
		log.Warn(note)
	}
	agentcmd.TuneMemory()
	cluster, err := s.clusterConfig()
	if err != nil {
		return cli.BadInput(err)
	}
	client, err := s.OpenService()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	return serveAgent(ctx, s, cluster, client, log)
}

// openSources opens the metric sources.
func (s *agentSettings) openSources(metrics prometheus.Registerer, log *zap.Logger) (*samples.Set, error) {
	sources, err := agentcmd.OpenSources(s.SourcesFile, metrics, log)
	if err != nil {
		return nil, cli.BadInput(fmt.Errorf("--sources-file: %w", err))
	}
	return sources, nil
}

// serveAgent runs the agent and its admin address.
func serveAgent(ctx context.Context, s *agentSettings, cluster *rest.Config, client *setpoint.Client, log *zap.Logger) error {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(buildmetric.New())
	options, closeRecording, err := s.options(client, metrics, log)
	if err != nil {
		return cli.BadInput(err)
	}
	defer closeRecording()
	sources, err := s.openSources(metrics, log)
	if err != nil {
		return err
	}
	defer sources.Close()
	options.NamedMetrics = sources
	a, err := agent.New(cluster, agent.Service{
		Calls: client, Stream: client.Stream(s.InFlight()),
		Redial: client.Conn().ResetConnectBackoff,
	}, options)
	if err != nil {
		return cli.BadInput(err)
	}
	metrics.MustRegister(agentcmd.ReadyMetric(a.Ready))
	// The metrics of Kubernetes' libraries, of the runtime and of the process are in a
	// registry of their own.
	pages := agentcmd.Pages(prometheus.Gatherers{metrics, runtimemetrics.Registry}, a.Ready, "whether the cluster has been read", a.Shadows)
	err = s.Serve(ctx, pages, log, func(ctx context.Context) error {
		log.Info("agent starts", zap.String("version", cli.Version()), zap.String("cluster", s.Cluster),
			zap.String("source", s.source()), zap.Bool("shadow", s.Shadow), zap.Bool("leaderElection", s.LeaderElect))
		return a.Run(ctx)
	})
	if err != nil {
		return err
	}
	log.Info("agent stopped")
	return nil
}
