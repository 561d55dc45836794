package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/nomad"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
)

// settings are Nomad's own settings of the agent.
type settings struct {
	config      nomad.Config
	namespace   string
	concurrency int
	lock        string
}

// newProgram returns the program in an environment.
func newProgram(getenv func(string) string) agentcmd.Program {
	s := &settings{namespace: "*", concurrency: nomad.DefaultConcurrency}
	return agentcmd.Program{
		Platform: "nomad",
		Checked:  "Nomad, the token's capabilities, the policies of groups, and statistics",
		Short:    "Scale the task groups of Nomad as a server recommends",
		Long: `Scale the task groups of a Nomad region as a server recommends. A group opts in with a
setpoint block in the policy of its scaling block, which also sets its metrics. The agent
changes nothing but counts, and waits while a deployment of the job is active. It refuses
groups whose policy has check blocks, because the Nomad Autoscaler scales those. While it
can't reach the server, it changes no count.

The token needs list-scaling-policies, read-scaling-policy, read-job and scale-job on the
namespaces; --shadow only the first three. If the token also has node read, the agent
warns of servers before 1.8.2, which don't check the condition under which a count is set.
CPU and memory usage comes from Nomad itself, other metrics from the sources of
--sources-file.

Each flag can also be set by a variable (--cluster: SETPOINT_CLUSTER) and by a key of the
config file. Unset flags default to the variables of the nomad command: NOMAD_ADDR,
NOMAD_REGION, NOMAD_TOKEN, NOMAD_CACERT, NOMAD_CLIENT_CERT, NOMAD_CLIENT_KEY and
NOMAD_TLS_SERVER_NAME, but not NOMAD_NAMESPACE, which Nomad sets in the agent's own task.`,
		Example: `  setpoint agent nomad --cluster=demo --server=setpoint:9090 --nomad-address=https://nomad:4646 --nomad-token-file=/run/secrets/nomad-token
  setpoint agent nomad --cluster=demo --server=127.0.0.1:9090 --insecure --shadow
  setpoint agent nomad --report`,
		Settings: s.list(),
		Validate: func(_ *agentcmd.Settings, refuse config.Refuse) { s.validate(refuse, getenv) },
		Open:     func(parts agentcmd.Parts) (*agentcmd.Platform, error) { return s.open(parts, getenv) },
	}
}

func (s *settings) list() []config.Setting {
	c := &s.config
	return []config.Setting{
		config.String(&c.Address, "nomad-address", "`address` of a Nomad agent, http://, https:// or unix://; empty means $NOMAD_ADDR, or "+nomad.DefaultAddress),
		config.String(&c.Region, "nomad-region", "`region` to scale; empty means $NOMAD_REGION, or that of the Nomad agent"),
		config.String(&s.namespace, "nomad-namespace", "`namespace` whose groups are scaled; * means all that the token may see"),
		config.String(&c.TokenFile, "nomad-token-file", "`file` with the ACL token; reloaded when it changes; empty means $NOMAD_TOKEN"),
		config.String(&c.TLS.CAFile, "nomad-tls-ca-file", "PEM `file` of the CAs that sign Nomad's certificates, read at each handshake; empty means $NOMAD_CACERT, or the system's"),
		config.String(&c.TLS.CertFile, "nomad-tls-cert-file", "PEM `file` of the agent's certificate, read at each handshake; empty means $NOMAD_CLIENT_CERT, or none"),
		config.String(&c.TLS.KeyFile, "nomad-tls-key-file", "PEM `file` of the certificate's key; empty means $NOMAD_CLIENT_KEY"),
		config.String(&c.TLS.ServerName, "nomad-tls-server-name", "expected `name` in Nomad's certificate, such as server.global.nomad; empty means $NOMAD_TLS_SERVER_NAME, or the host"),
		config.String(&s.lock, "nomad-lock", "`path` of a Nomad variable, or path@namespace, which agents of one cluster lock so that one of them acts; empty means none", checkLock),
		config.Int(&s.concurrency, "statistics-concurrency", fmt.Sprintf("maximum concurrent reads of allocations' statistics, at most %d", nomad.MaxConcurrency), config.Within(1, nomad.MaxConcurrency)),
	}
}

// lockPath matches what Nomad takes for the path of a variable, and the namespace after it.
var lockPath = regexp.MustCompile(`^[A-Za-z0-9_~/-]{1,128}(@[A-Za-z0-9-]{1,128})?$`)

func checkLock(path string) error {
	if path != "" && !lockPath.MatchString(path) {
		return fmt.Errorf("%q: must be 1 to 128 characters of [A-Za-z0-9_~/-], with @NAMESPACE after it where that is not default", path)
	}
	return nil
}

func (s *settings) validate(refuse config.Refuse, getenv func(string) string) {
	c := s.environment(getenv)
	if err := c.ValidateAddress(); err != nil {
		refuse("nomad-address", "%v", err)
	}
	if (s.config.TLS.CertFile == "") != (s.config.TLS.KeyFile == "") {
		refuse("nomad-tls-cert-file", "must be given together with --nomad-tls-key-file")
	}
	if s.namespace == "" {
		refuse("nomad-namespace", "is empty: name a namespace, or * for all")
	}
}

// environment sets unset settings from the variables of Nomad's own command.
func (s *settings) environment(getenv func(string) string) nomad.Config {
	c := s.config
	fill := func(field *string, variable string) {
		if *field == "" {
			*field = getenv(variable)
		}
	}
	fill(&c.Address, "NOMAD_ADDR")
	fill(&c.Region, "NOMAD_REGION")
	fill(&c.TLS.CAFile, "NOMAD_CACERT")
	if c.TLS.CertFile == "" && c.TLS.KeyFile == "" {
		fill(&c.TLS.CertFile, "NOMAD_CLIENT_CERT")
		fill(&c.TLS.KeyFile, "NOMAD_CLIENT_KEY")
	}
	fill(&c.TLS.ServerName, "NOMAD_TLS_SERVER_NAME")
	if c.TokenFile == "" {
		fill(&c.Token, "NOMAD_TOKEN")
	}
	return c
}

func (s *settings) open(parts agentcmd.Parts, getenv func(string) string) (*agentcmd.Platform, error) {
	config := s.environment(getenv)
	config.Registerer = parts.Metrics
	client, err := nomad.Connect(config)
	if err != nil {
		return nil, fmt.Errorf("nomad: %w", err)
	}
	platform, err := nomad.New(client, nomad.Options{
		Namespace: s.namespace, Region: config.Region, Sources: parts.Sources, ReadTimeout: parts.RequestTimeout, Concurrency: s.concurrency, Log: parts.Log,
	})
	if err != nil {
		return nil, err
	}
	seen := &patient{client: client, platform: platform, namespace: s.namespace, region: config.Region, shadow: parts.Shadow}
	opened := &agentcmd.Platform{Platform: platform, Kinds: map[string]string{nomad.Kind: "taskgroup"}, Ready: platform.Ready, Checks: seen.checks()}
	opened.Asks = func(context.Context) []agentcmd.Ask { return seen.asks }
	opened.Acts = func(ctx context.Context) ([]agent.Acting, error) { return nomad.Acting(ctx, client, s.namespace) }
	if s.lock != "" {
		lock := &nomad.Lock{Client: client, Log: parts.Log}
		var named bool
		if lock.Path, lock.Namespace, named = strings.Cut(s.lock, "@"); !named {
			lock.Namespace = api.DefaultNamespace
		}
		opened.Lead, opened.Standby = lock.Lead, lock.Standby
		parts.Metrics.MustRegister(lock.Collector())
	}
	return opened, nil
}
