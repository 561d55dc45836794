package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/moby/moby/client"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/swarm/nodes"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/buildmetric"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
)

// nodeSettings are the settings of node.
type nodeSettings struct {
	dockerHost   string
	agentAddress string
	secretFile   string
	tls          nodes.TLS
	interval     time.Duration
	timeout      time.Duration
	adminAddress string
	log          daemon.LogSettings
}

func (s *nodeSettings) list() config.List {
	return config.List{{Settings: append([]config.Setting{
		dockerHost(&s.dockerHost),
		config.String(&s.agentAddress, "agent-address", "`host:port` of the agent's --nodes-address; required", func(address string) error {
			if _, _, err := net.SplitHostPort(address); err != nil {
				return errors.New("must be host:port of the agent")
			}
			return nil
		}),
		config.String(&s.secretFile, "secret-file", "`file` with the secret to sign reports with, the first line; read again for each report"),
		config.String(&s.tls.CAFile, "agent-tls-ca-file", "PEM `file` of the CAs that sign the agent's certificate; in place of a secret"),
		config.String(&s.tls.CertFile, "agent-tls-cert-file", "PEM `file` of this node's certificate, whose common name is the node's id; read at each handshake"),
		config.String(&s.tls.KeyFile, "agent-tls-key-file", "PEM `file` of the certificate's key"),
		config.String(&s.tls.ServerName, "agent-tls-server-name", "expected `name` in the agent's certificate; empty means the host of the address"),
		config.Duration(&s.interval, "interval", "time between two reads of all containers, 1s to 10m: the window of the usage that is reported", config.Within(time.Second, 10*time.Minute)),
		config.Duration(&s.timeout, "request-timeout", "timeout of one request to the engine or to the agent", config.Positive),
		config.String(&s.adminAddress, "admin-address", "`host:port` of the admin server, plain HTTP without credentials: /metrics, /healthz, /readyz, /debug/pprof/; empty disables it", config.AddressOrNone),
	}, s.log.List()...)}}
}

func (s *nodeSettings) validate() error {
	var problems config.Problems
	s.list().Check(problems.Refuse)
	if (s.secretFile != "") == (s.tls != nodes.TLS{}) {
		problems.Refuse("secret-file", "give either this or all of --agent-tls-ca-file, --agent-tls-cert-file and --agent-tls-key-file: the agent accepts no unauthenticated reports")
	}
	refuseHalfTLS(problems.Refuse, "agent-tls", s.tls)
	return problems.Err()
}

func newNode() *cobra.Command {
	s := &nodeSettings{interval: 15 * time.Second, timeout: 10 * time.Second, adminAddress: "127.0.0.1:9094", log: daemon.DefaultLog()}
	check := false
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Report the usage of this node's tasks to the agent",
		Long: `Report the usage of this node's tasks to the agent. Run it on each node, as a global
service with access to the socket of the node's Docker Engine, from which it reads the
statistics of the containers. CPU usage is a rate between two reads, so a task is reported
from its second read on.

A node authenticates with a secret that all nodes share, or with a certificate whose common
name is the node's id, such as the one that Swarm gives to each node.`,
		Example: `  setpoint-swarm node --agent-address=agent:9093 --secret-file=/run/secrets/setpoint-nodes
  setpoint-swarm node --agent-address=agent:9093 --agent-tls-server-name=swarm-manager --agent-tls-ca-file=/swarm/swarm-root-ca.crt \
    --agent-tls-cert-file=/swarm/swarm-node.crt --agent-tls-key-file=/swarm/swarm-node.key   # /var/lib/docker/swarm/certificates`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := config.Apply(cmd.Flags(), os.Environ()); err != nil {
				return cli.BadSettings(err)
			}
			if err := s.validate(); err != nil {
				return cli.BadSettings(err)
			}
			n, err := s.open()
			if err != nil {
				return cli.BadInput(err)
			}
			defer n.close()
			if check {
				return config.PrintChecked(cmd)
			}
			return n.run(cmd.Context())
		},
	}
	s.list().Bind(cmd.Flags())
	config.AddFlag(cmd.Flags())
	config.AddCheck(cmd.Flags(), &check)
	return cmd
}

// node is the reporter of a node.
type node struct {
	*nodeSettings
	sampler *nodes.Sampler
	sender  *nodes.Sender
	metrics *prometheus.Registry
	reports *prometheus.CounterVec
	tasks   prometheus.Gauge
	failed  prometheus.Counter
	// last is why the last report did not reach the agent.
	last lastError
}

func (s *nodeSettings) open() (*node, error) {
	secrets, _, err := credentials(s.secretFile, s.tls, "secret-file", "agent-tls-ca-file")
	if err != nil {
		return nil, err
	}
	files := &s.tls
	if secrets != nil {
		files = nil
	}
	n := &node{nodeSettings: s, metrics: prometheus.NewRegistry(), last: lastError{err: errors.New("the agent has had no report yet")}}
	if n.sender, err = nodes.NewSender(s.agentAddress, secrets, files, s.timeout); err != nil {
		return nil, fmt.Errorf("--agent-address: %w", err)
	}
	if n.sampler, err = nodes.NewSampler(func() (*client.Client, error) {
		return client.New(append(engineOptions(s.dockerHost), client.WithTraceProvider(noop.NewTracerProvider()))...)
	}, nodes.SamplerOptions{Interval: s.interval, Timeout: s.timeout}); err != nil {
		return nil, fmt.Errorf("--docker-host: %w", err)
	}
	if err := n.measure(n.metrics); err != nil {
		return nil, err
	}
	n.metrics.MustRegister(buildmetric.New(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return n, nil
}

// measure makes and registers its own metrics.
func (n *node) measure(r prometheus.Registerer) error {
	n.reports = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "setpoint_swarm_node_reports_total", Help: "Reports to the agent, by what came of them."}, []string{"outcome"})
	n.tasks = prometheus.NewGauge(prometheus.GaugeOpts{Name: "setpoint_swarm_node_tasks", Help: "Tasks in the last report: those with a whole window."})
	n.failed = prometheus.NewCounter(prometheus.CounterOpts{Name: "setpoint_swarm_node_read_failures_total", Help: "Reads of containers that failed, also of those that ended meanwhile."})
	for _, outcome := range []string{"sent", "failed", "unread"} {
		n.reports.WithLabelValues(outcome)
	}
	return errors.Join(r.Register(n.reports), r.Register(n.tasks), r.Register(n.failed))
}

func (n *node) close() {
	n.sender.Close()
	n.sampler.Close()
}

func (n *node) run(ctx context.Context) error {
	log, err := n.log.Open()
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	agentcmd.TuneMemory(ctx)
	var admin net.Listener
	if n.adminAddress != "" {
		if admin, err = net.Listen("tcp", n.adminAddress); err != nil {
			return fmt.Errorf("--admin-address: %w", err)
		}
	}
	defer daemon.ServePages(admin, daemon.Routes(n.pages()), nil, log)()
	defer daemon.TellSupervisor(ctx, log)()
	log.Info("node starts", zap.String("version", cli.Version()), zap.String("agent", n.agentAddress), zap.Duration("interval", n.interval))
	ticker := time.NewTicker(n.interval)
	defer ticker.Stop()
	for {
		n.report(ctx, log)
		select {
		case <-ctx.Done():
			log.Info("node stopped")
			return nil
		case <-ticker.C:
		}
	}
}

// report reads and reports once.
func (n *node) report(ctx context.Context, log *zap.Logger) {
	report, failed, err := n.sampler.Sample(ctx)
	n.failed.Add(float64(failed))
	outcome := "unread"
	if err == nil {
		n.tasks.Set(float64(len(report.Tasks)))
		if err, outcome = n.sender.Send(ctx, report), "sent"; err != nil {
			outcome = "failed"
		}
	}
	if ctx.Err() != nil {
		return
	}
	n.reports.WithLabelValues(outcome).Inc()
	switch news, failed := n.last.set(err, time.Now()); {
	case err != nil && news: // and not in every reconcile
		log.Warn("usage not reported", zap.Int("in_a_row", failed), zap.Error(err))
	case err == nil && news:
		log.Info("usage reported", zap.Int("tasks", len(report.Tasks)), zap.Int("failed_before", failed))
	}
}

func (n *node) pages() []daemon.Page {
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }
	return append([]daemon.Page{
		daemon.MetricsPage(n.metrics, nil),
		{Path: "/healthz", About: "whether the process lives", Handler: http.HandlerFunc(ok)},
		{Path: "/readyz", About: "whether the last report reached the agent", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := n.last.get(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			ok(w, r)
		})},
	}, daemon.DebugPages()...)
}
