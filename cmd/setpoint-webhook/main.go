// Command setpoint-webhook is the agent of whatever answers three HTTP calls: it scales the
// targets that a server lists. `setpoint agent webhook` runs it.
package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/clients/webhook"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
)

func main() { cli.Main(newRoot()) }

func newRoot() *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "setpoint-webhook",
		Short: "Scale the targets that a webhook server lists",
		Long: `Scale the targets of a webhook server, which answers three HTTP calls: list, observe
and apply. "setpoint agent webhook" runs it.

Exit codes: 0 success; 1 failure, or a negative result; 2 invalid flags or input;
78 invalid settings (flags, variables, config file) of agent or doctor.`,
	}, append(agentcmd.New(new(settings).program()), cli.NewVersion())...)
}

// settings are the platform's own.
type settings struct {
	server    webhook.Server
	listEvery time.Duration
	limits    webhook.Limits
}

func (s *settings) program() agentcmd.Program {
	s.server.Timeout, s.listEvery, s.limits = 5*time.Second, 10*time.Second, webhook.DefaultLimits()
	return agentcmd.Program{
		Platform: "webhook",
		Checked:  "the webhook",
		Short:    "Scale the targets that a webhook server lists",
		Long: `Scale the targets of a webhook server: the agent lists them with GET /targets, reads
their state with POST /observe, and sets the count with POST /apply. Both sides sign
with a shared key.`,
		Example: `  echo "k1:$(openssl rand -hex 32)" >keys
  setpoint-webhook agent --cluster=demo --insecure --webhook-url=http://127.0.0.1:8000 --webhook-key-file=keys`,
		DoctorExample: "  setpoint-webhook doctor --cluster=demo --server=setpoint:9090 --token-file=token --webhook-url=https://queue.example.com --webhook-key-file=keys",
		Settings:      s.list(),
		Validate: func(_ *agentcmd.Settings, refuse config.Refuse) {
			if err := s.server.ValidateURL(); s.server.URL != "" && err != nil {
				refuse("webhook-url", "%v", err)
			}
			if (s.server.CertFile == "") != (s.server.KeyOfCertFile == "") {
				refuse("webhook-tls-cert-file", "must be given together with --webhook-tls-key-file")
			}
		},
		Open: s.open,
	}
}

func (s *settings) list() []config.Setting {
	return []config.Setting{
		config.String(&s.server.URL, "webhook-url", "`URL` that /targets, /observe and /apply are added to; required; http on loopback only", config.Required),
		config.String(&s.server.KeyFile, "webhook-key-file", "`file` of signing keys, NAME:SECRET a line; the first signs; reloaded when it changes; required", config.Required),
		config.String(&s.server.CAFile, "webhook-tls-ca-file", "`file` of the authorities that sign the webhook server's certificate, PEM; empty means the system's"),
		config.String(&s.server.CertFile, "webhook-tls-cert-file", "`file` of the client certificate shown to the webhook server, PEM; empty shows none"),
		config.String(&s.server.KeyOfCertFile, "webhook-tls-key-file", "`file` of the key of --webhook-tls-cert-file, PEM"),
		config.Bool(&s.server.Plain, "webhook-plain", "allow plain http to other machines: third parties can read the calls, but not change them"),
		config.Duration(&s.server.Timeout, "webhook-timeout", "timeout of one call of the webhook server", config.Positive),
		config.Duration(&s.listEvery, "list-every", "time between two lists of the targets, 1s to 10m", config.Within(time.Second, 10*time.Minute)),
		config.Int(&s.limits.Targets, "max-targets", "maximum targets; a longer list is refused as a whole", config.Positive),
		config.Int(&s.limits.Pods, "max-pods", "maximum pods of one observation; a larger one is refused", config.Positive),
		config.Int(&s.limits.Samples, "max-samples", "maximum samples of one observation; a larger one is refused", config.Positive),
	}
}

func (s *settings) open(parts agentcmd.Parts) (*agentcmd.Platform, error) {
	server := s.server
	server.Log = parts.Log
	client, err := webhook.Connect(server)
	if err != nil {
		return nil, err
	}
	platform := webhook.New(client, webhook.Options{ListEvery: s.listEvery, Limits: s.limits, Sources: parts.Sources, Log: parts.Log})
	return &agentcmd.Platform{
		Platform: platform, Kinds: map[string]string{webhook.Kind: "target"},
		Acts: client.Acting, Checks: checks(platform),
		Asks:  func(ctx context.Context) []agentcmd.Ask { return asks(ctx, platform) },
		Ready: platform.Ready, Problem: platform.Problem, Close: client.Close,
	}, nil
}
