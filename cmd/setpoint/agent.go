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
	"github.com/setpoint-dev/setpoint/cmd/setpoint/config"
)

// newAgent groups the agents.
func newAgent() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Scale the workloads of a platform as a server recommends",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAgentKubernetes())
	return cmd
}

func newAgentKubernetes() *cobra.Command {
	s := defaultAgentSettings()
	check, report, output := false, false, newOutputFlag(asText, asJSON)
	cmd := &cobra.Command{
		Use:   "kubernetes",
		Short: "Scale the workloads of a Kubernetes cluster",
		Long: `Scale the workloads of a Kubernetes cluster as a server recommends: in place of the
built-in HorizontalPodAutoscaler controller (--source=hpa), which must be switched off
then (--controllers=*,-horizontal-pod-autoscaler-controller), beside it for objects of
the kind Autoscaler (--source=autoscaler), or as a shadow of it that applies nothing
(--shadow). While the server is away no count is changed.

Several agents of a cluster elect the one that acts (--leader-elect). Each flag can also
be set by a variable (--cluster: SETPOINT_CLUSTER) and by a key of the config file.`,
		Example: `  setpoint agent kubernetes --cluster=demo --server=setpoint:9090 --token-file=/var/run/secrets/setpoint/token
  setpoint agent kubernetes --cluster=demo --server=127.0.0.1:9090 --insecure --shadow
  setpoint agent kubernetes --shadow --report`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Apply(cmd.Flags(), os.Environ()); err != nil {
				return badInput(err)
			}
			if report {
				return shadowReport(cmd, &s, output.form)
			}
			if err := s.validate(); err != nil {
				return badInput(err)
			}
			if check {
				return checkAgent(cmd, &s)
			}
			return runAgent(cmd.Context(), &s)
		},
	}
	s.bind(cmd.Flags())
	config.AddFlag(cmd.Flags())
	config.AddCheck(cmd.Flags(), &check)
	addReportFlags(cmd.Flags(), &report, output)
	return cmd
}

// checkAgent looks at everything that the settings name and that can be wrong, and
// prints the settings. It asks neither the cluster nor the server.
func checkAgent(cmd *cobra.Command, s *agentSettings) error {
	if _, err := s.clusterConfig(); err != nil {
		return badInput(err)
	}
	client, err := s.Service.open()
	if err != nil {
		return badInput(err)
	}
	if err := client.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "# The configuration is valid. What was set says so.\n%s", config.Effective(cmd.Flags(), mask))
	return err
}

// runAgent runs until the context ends and rounds in flight are done.
func runAgent(ctx context.Context, s *agentSettings) error {
	log, err := newLog(&settings{LogLevel: s.LogLevel, LogFormat: s.LogFormat})
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	klog.SetLogger(agent.NewLogger(log.Named("kubernetes")))
	runtimelog.SetLogger(agent.NewLogger(log.Named("kubernetes")))
	collectOften()
	cluster, err := s.clusterConfig()
	if err != nil {
		return badInput(err)
	}
	client, err := s.Service.open()
	if err != nil {
		return badInput(err)
	}
	defer func() { _ = client.Close() }()
	return serveAgent(ctx, s, cluster, client, log)
}

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
		return badInput(err)
	}
	defer closeRecording()
	a, err := agent.New(cluster, agent.Service{
		Calls: client, Stream: client.Stream(min(s.Workers, setpoint.DefaultInFlight)),
		Redial: client.Conn().ResetConnectBackoff,
	}, options)
	if err != nil {
		return badInput(err)
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
	defer servePages(admin, routes(pages), log)()
	defer tellSupervisor(ctx, log)()
	log.Info("agent starts", zap.String("version", version()), zap.String("cluster", s.Cluster),
		zap.String("source", s.Source), zap.Bool("shadow", s.Shadow), zap.Bool("leaderElection", s.LeaderElect))
	if err := a.Run(ctx); err != nil {
		return err
	}
	log.Info("agent stopped")
	return nil
}
