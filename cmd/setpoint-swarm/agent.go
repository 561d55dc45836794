package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/clients/swarm"
	"github.com/setpoint-dev/setpoint/clients/swarm/nodes"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/errorlog"
	"github.com/setpoint-dev/setpoint/server/connections"
)

// settings are Swarm's own settings of the agent.
type settings struct {
	dockerHost   string
	nodesAddress string
	nodesSecret  string
	nodesTLS     nodes.TLS
	usageAge     time.Duration
	usageSource  string
	usageWindow  time.Duration
}

func newProgram() agentcmd.Program {
	s := &settings{usageAge: nodes.DefaultUsageAge, usageWindow: time.Minute}
	return agentcmd.Program{
		Platform:   "swarm",
		Unresolved: "correct the name in --server; in a stack it is the service's name, on a network that both are on: docker network inspect --verbose NETWORK",
		Unanswered: "is the service's task healthy (docker service ps)? Between all nodes an overlay network needs TCP and UDP 7946, UDP 4789 and, if it is encrypted, IP protocol 50",
		Object:     "shop/shop_web",
		Checked:    "what Docker lets the agent do",
		Short:      "Scale the services of a Docker Swarm as a server recommends",
		Long: `Scale the services of a Docker Swarm as a server recommends. A service opts in with the
label setpoint.enable=true; further labels set its bounds and metrics. The agent needs the
Docker Engine of a manager, and changes nothing but replica counts. While it can't reach
the server, it changes no count.

CPU and memory usage comes from setpoint-swarm node, which runs on each node and reports
to --nodes-address, or from a Prometheus that scrapes cAdvisor on each node
(--usage-source). Other metrics come from the sources of --sources-file.

Each flag can also be set by a variable (--cluster: SETPOINT_CLUSTER) and by a key of the
config file.`,
		Example: `  setpoint agent swarm --cluster=demo --server=setpoint:9090 --nodes-address=:9093 --nodes-secret-file=/run/secrets/setpoint-nodes
  setpoint agent swarm --cluster=demo --server=127.0.0.1:9090 --insecure --shadow
  setpoint agent swarm --report`,
		Settings: s.list(), Validate: s.validate, Open: s.open,
	}
}

func (s *settings) list() []config.Setting {
	return []config.Setting{
		dockerHost(&s.dockerHost),
		config.String(&s.nodesAddress, "nodes-address", "`host:port` to receive reports of setpoint-swarm node on; empty disables it", config.AddressOrNone),
		config.String(&s.nodesSecret, "nodes-secret-file", "`file` with the secrets that nodes sign reports with, one a line, all accepted; read for each report"),
		config.String(&s.nodesTLS.CAFile, "nodes-tls-ca-file", "PEM `file` of the CAs that sign nodes' certificates, whose common name is the node's id; in place of a secret"),
		config.String(&s.nodesTLS.CertFile, "nodes-tls-cert-file", "PEM `file` of the certificate that the agent shows to nodes; read at each handshake"),
		config.String(&s.nodesTLS.KeyFile, "nodes-tls-key-file", "PEM `file` of the certificate's key"),
		config.Duration(&s.usageAge, "usage-max-age", "maximum age of usage that nodes report; a task with older usage has none", config.Positive),
		config.String(&s.usageSource, "usage-source", "`name` of the source in --sources-file whose Prometheus scrapes cAdvisor on each node; in place of --nodes-address"),
		config.Duration(&s.usageWindow, "usage-window", "range of the CPU rate query, at least two scrape intervals", config.Within(time.Second, time.Hour)),
	}
}

func dockerHost(at *string) config.Setting {
	return config.String(at, "docker-host", "`address` of the Docker Engine, such as unix:///var/run/docker.sock; empty means $DOCKER_HOST with its TLS variables, or that socket", checkHost)
}

// checkHost refuses addresses of an engine that only the command docker can reach, and those over which
// Docker's client can read, but no count could be written.
func checkHost(host string) error {
	host = cmp.Or(host, os.Getenv("DOCKER_HOST"))
	scheme, at, ok := strings.Cut(host, "://")
	user := strings.LastIndexByte(at, '@') + 1
	switch {
	case host == "":
	case !ok || !slices.Contains([]string{"unix", "tcp", "npipe"}, scheme):
		return fmt.Errorf("%q: must begin with unix:// or tcp://, which is with TLS if DOCKER_CERT_PATH is set; for ssh, forward the socket (ssh -L /tmp/docker.sock:/var/run/docker.sock HOST) and name that", host[:len(host)-len(at)]+at[user:])
	case scheme == "tcp" && user > 0:
		// The Engine knows none, and errors of Docker's client quote the address.
		return errors.New("must contain no user or password: the Engine takes certificates, which DOCKER_CERT_PATH names")
	case scheme == "tcp":
		// Docker's client would read below a path, and no count could be written there.
		if to, err := url.Parse(host); err != nil || to.Hostname() == "" || to.Port() == "" || to.Host != strings.TrimSuffix(at, "/") {
			return fmt.Errorf("%q: must be tcp://HOST:PORT", host)
		}
	case at == "":
		return fmt.Errorf("%q: names no socket", host)
	}
	return nil
}

func (s *settings) validate(_ *agentcmd.Settings, refuse config.Refuse) {
	byTLS := s.nodesTLS != nodes.TLS{}
	switch {
	case s.nodesAddress == "" && (s.nodesSecret != "" || byTLS):
		refuse("nodes-address", "is required with the other --nodes flags")
	case s.nodesAddress == "":
	case s.usageSource != "":
		refuse("usage-source", "can't be used together with --nodes-address: usage comes from one or the other")
	case s.nodesSecret != "" && byTLS:
		refuse("nodes-secret-file", "can't be used together with the --nodes-tls flags: unset one or the other, also SETPOINT_NODES_SECRET_FILE of a stack file")
	case s.nodesSecret == "" && !byTLS:
		refuse("nodes-address", "needs either --nodes-secret-file or all of --nodes-tls-ca-file, --nodes-tls-cert-file and --nodes-tls-key-file: without them anybody could report")
	}
	refuseHalfTLS(refuse, "nodes-tls", s.nodesTLS)
}

// refuseHalfTLS refuses some of the three files without the others.
func refuseHalfTLS(refuse config.Refuse, prefix string, files nodes.TLS) {
	if files.CAFile+files.CertFile+files.KeyFile != "" && (files.CAFile == "" || files.CertFile == "" || files.KeyFile == "") {
		refuse(prefix+"-ca-file", "must be given together with --%[1]s-cert-file and --%[1]s-key-file", prefix)
	}
}

// engineOptions lead to the engine.
func engineOptions(host string) []client.Opt {
	options := []client.Opt{client.FromEnv, client.WithUserAgent("setpoint-agent/" + cli.Version())}
	if host != "" {
		options = append(options, client.WithHost(host))
	}
	return options
}

func (s *settings) open(parts agentcmd.Parts) (*agentcmd.Platform, error) {
	options := swarm.Options{Sources: parts.Sources, Timeout: parts.RequestTimeout}
	if s.usageSource != "" {
		options.Usage = swarm.Cadvisor(s.usageSource, s.usageWindow)
		if err := checkUsage(parts.Sources, options.Usage); err != nil {
			return nil, cli.BadSettings(fmt.Errorf("--usage-source: %w", err))
		}
	}
	var take func(ctx context.Context) error
	if s.nodesAddress != "" {
		options.Nodes = nodes.NewStore(s.usageAge)
		var err error
		if take, err = s.receiver(options.Nodes, parts); err != nil {
			return nil, err
		}
	}
	engine, err := swarm.Connect(engineOptions(s.dockerHost)...)
	if err != nil {
		return nil, fmt.Errorf("--docker-host: %w", err)
	}
	if err := engine.Register(parts.Metrics); err != nil {
		engine.Close()
		return nil, err
	}
	var notes []string
	if s.nodesAddress == "" {
		notes = config.WithoutEffect(parts.Flags, "nodes-address", "usage-max-age")
	}
	if s.usageSource == "" {
		notes = append(notes, config.WithoutEffect(parts.Flags, "usage-source", "usage-window")...)
	}
	platform := swarm.New(engine, options)
	return &agentcmd.Platform{
		Platform: platform, Kinds: map[string]string{swarm.Kind: "service"},
		ClusterUID: engine.ClusterID, Acts: func(ctx context.Context) ([]agent.Acting, error) {
			id, err := engine.ClusterID(ctx)
			return []agent.Acting{{Platform: "swarm " + id}}, err
		},
		Ready: platform.Ready, Problem: platform.Problem, Run: take, Close: engine.Close,
		Checks: checks(engine, platform), Notes: notes,
		Asks: func(ctx context.Context) []agentcmd.Ask { return asks(ctx, engine, platform) },
	}, nil
}

// checkUsage returns the problems of the queries for usage, before any service uses them.
func checkUsage(sources *samples.Set, usage swarm.Usage) error {
	for _, resource := range []string{"cpu", "memory"} {
		if err := sources.CheckQuery(usage(resource, "service")); err != nil {
			return err
		}
	}
	return nil
}

// Bounds of connections of nodes.
const (
	mostConnections = 4096
	readTimeout     = 10 * time.Second
	maxHeaderBytes  = 8 << 10
)

// receiver returns a function that receives reports until its context ends.
func (s *settings) receiver(store *nodes.Store, parts agentcmd.Parts) (func(ctx context.Context) error, error) {
	secrets, config, err := credentials(s.nodesSecret, s.nodesTLS, "nodes-secret-file", "nodes-tls-ca-file")
	if err != nil {
		return nil, err
	}
	handler, err := nodes.NewHandler(store, secrets, s.nodesTLS, parts.Metrics)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.nodesAddress)
		if err != nil {
			return fmt.Errorf("--nodes-address: %w", err)
		}
		return serveReports(ctx, listener, handler, config, parts.Log)
	}, nil
}

// credentials are how nodes and the agent authenticate: secrets, or certificates. It checks the
// files once.
func credentials(secretFile string, files nodes.TLS, secretFlag, tlsFlag string) (secrets func() ([][]byte, error), config *tls.Config, err error) {
	if secretFile == "" {
		if err := files.Check(); err != nil {
			return nil, nil, fmt.Errorf("--%s: %w", tlsFlag, err)
		}
		return nil, files.Server(), nil
	}
	secrets = func() ([][]byte, error) { return nodes.ReadSecrets(secretFile) }
	if _, err := secrets(); err != nil {
		return nil, nil, fmt.Errorf("--%s: %w", secretFlag, err)
	}
	return secrets, nil, nil
}

// serveReports receives reports on a listener, with TLS if there is a configuration.
func serveReports(ctx context.Context, listener net.Listener, handler http.Handler, config *tls.Config, log *zap.Logger) error {
	set := connections.New(connections.Options{Most: mostConnections})
	listener = set.Listen(listener)
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	reports := &http.Server{
		Handler: handler, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: readTimeout,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes, ErrorLog: errorlog.New(log.Named("nodes"), zap.WarnLevel),
	}
	stop := context.AfterFunc(ctx, func() { _ = reports.Close() })
	defer stop()
	log.Info("receiving node reports", zap.Stringer("address", listener.Addr()), zap.Bool("tls", config != nil))
	if err := reports.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
