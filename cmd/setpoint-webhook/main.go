// Command setpoint-webhook is the agent of whatever answers three HTTP calls: it scales the
// targets that a server lists. `setpoint agent webhook` runs it.
package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/clients/webhook"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
)

func main() { cli.Main(newRoot()) }

func newRoot() *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "setpoint-webhook",
		Short: "Scale the targets that a webhook server lists",
		Long: `Scale the targets of a webhook server, which answers three HTTP calls: list, observe
and apply. "setpoint agent webhook" runs it.

Exit codes: 0 success; 1 failure, or a negative result; 2 invalid flags or input.`,
	}, append(agentcmd.New(new(settings).program()), cli.NewVersion())...)
}

// settings are the platform's own.
type settings struct {
	server    webhook.Server
	listEvery time.Duration
	limits    webhook.Limits
}

func (s *settings) program() agentcmd.Program {
	return agentcmd.Program{
		Platform: "webhook",
		Checked:  "the webhook",
		Short:    "Scale the targets that a webhook server lists",
		Long: `Scale the targets of a webhook server: the agent lists them with GET /targets, reads
their state with POST /observe, and sets the count with POST /apply. Both sides sign
with a shared key.`,
		Example: `  echo "k1:$(openssl rand -hex 32)" >keys
  setpoint-webhook agent --cluster=demo --insecure --webhook-url=http://127.0.0.1:8000 --webhook-key-file=keys`,
		Bind:     s.bind,
		Validate: s.validate,
		Open:     s.open,
	}
}

const (
	urlFlag  = "webhook-url"
	keyFlag  = "webhook-key-file"
	listFlag = "list-every"
)

func (s *settings) bind(flags *pflag.FlagSet) {
	s.server, s.listEvery, s.limits = webhook.Server{Timeout: 5 * time.Second}, 10*time.Second, webhook.DefaultLimits()
	flags.StringVar(&s.server.URL, urlFlag, "", "`URL` that /targets, /observe and /apply are added to; required; http on loopback only")
	flags.StringVar(&s.server.KeyFile, keyFlag, "", "`file` of signing keys, NAME:SECRET a line; the first signs; reloaded when it changes; required")
	flags.StringVar(&s.server.CAFile, "webhook-ca-file", "", "`file` of the authorities that sign the webhook server's certificate, PEM; empty means the system's")
	flags.StringVar(&s.server.CertFile, "webhook-cert-file", "", "`file` of the client certificate shown to the webhook server, PEM; empty shows none")
	flags.StringVar(&s.server.KeyOfCertFile, "webhook-cert-key-file", "", "`file` of the key of --webhook-cert-file, PEM")
	flags.BoolVar(&s.server.Plain, "webhook-plain", false, "allow plain http to other machines: third parties can read the calls, but not change them")
	flags.DurationVar(&s.server.Timeout, "webhook-timeout", s.server.Timeout, "timeout of one call of the webhook server")
	flags.DurationVar(&s.listEvery, listFlag, s.listEvery, "time between two lists of the targets, 1s to 10m")
	flags.IntVar(&s.limits.Targets, "max-targets", s.limits.Targets, "maximum targets; a longer list is refused as a whole")
	flags.IntVar(&s.limits.Pods, "max-pods", s.limits.Pods, "maximum pods of one observation; a larger one is refused")
	flags.IntVar(&s.limits.Samples, "max-samples", s.limits.Samples, "maximum samples of one observation; a larger one is refused")
}

func (s *settings) validate(refuse agentcmd.Refuse) {
	if s.server.URL == "" {
		refuse(urlFlag, "is required")
	}
	if s.server.KeyFile == "" {
		refuse(keyFlag, "is required: requests and answers are signed")
	}
	if s.listEvery < time.Second || s.listEvery > 10*time.Minute {
		refuse(listFlag, "%s is not from 1s to 10m", s.listEvery)
	}
	agentcmd.RefuseUnlessAbove(refuse, "webhook-timeout", s.server.Timeout)
	agentcmd.RefuseUnlessAbove(refuse, "max-targets", s.limits.Targets)
	agentcmd.RefuseUnlessAbove(refuse, "max-pods", s.limits.Pods)
	agentcmd.RefuseUnlessAbove(refuse, "max-samples", s.limits.Samples)
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
		Watched: platform, Kinds: map[string]string{webhook.Kind: "target"},
		Ready: platform.Ready, Problem: platform.Problem, Close: client.Close,
	}, nil
}
