package main

import (
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/clients/setpoint"
)

// serviceSettings say how an agent reaches the server.
type serviceSettings struct {
	Server                    string
	CAFile, CertFile, KeyFile string
	ServerName                string
	TokenFile                 string
	Insecure                  bool
}

func defaultServiceSettings() serviceSettings { return serviceSettings{Server: "127.0.0.1:9090"} }

func (s *serviceSettings) bind(flags *pflag.FlagSet) {
	flags.StringVar(&s.Server, "server", s.Server, "gRPC `addresses` of the server, host:port, several separated by commas, or a gRPC target such as dns:///setpoint:9090")
	flags.StringVar(&s.CAFile, "tls-ca-file", s.CAFile, "`file` with the PEM certificates of the CAs that the server's may be of; empty: the system's")
	flags.StringVar(&s.CertFile, "tls-cert-file", s.CertFile, "`file` with the agent's own PEM certificate, read again when it changes")
	flags.StringVar(&s.KeyFile, "tls-key-file", s.KeyFile, "`file` with its key")
	flags.StringVar(&s.ServerName, "tls-server-name", s.ServerName, "`name` that the server's certificate must be for; empty: the host of the address")
	flags.StringVar(&s.TokenFile, "token-file", s.TokenFile, "`file` with the bearer token for the server, read again when it changes")
	flags.BoolVar(&s.Insecure, "insecure", s.Insecure, "talk to the server in the clear")
}

func (s *serviceSettings) validate(refuse func(flag, format string, args ...any)) {
	if s.Server == "" {
		refuse("server", "is required")
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		refuse("tls-cert-file", "and --tls-key-file go together")
	}
	if s.Insecure && (s.CAFile != "" || s.CertFile != "" || s.ServerName != "") {
		refuse("insecure", "contradicts the --tls flags")
	}
	if s.Insecure && s.TokenFile != "" {
		refuse("insecure", "would send the token of --token-file unencrypted")
	}
}

// open returns a client; nothing is sent before the first call.
func (s *serviceSettings) open() (*setpoint.Client, error) {
	options := []setpoint.Option{setpoint.WithUserAgent("setpoint-agent/" + version())}
	if s.Insecure {
		options = append(options, setpoint.WithInsecure())
	} else {
		options = append(options, setpoint.WithTLS(setpoint.TLS{
			CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile, ServerName: s.ServerName,
		}))
	}
	if s.TokenFile != "" {
		options = append(options, setpoint.WithTokenFile(s.TokenFile))
	}
	return setpoint.New(s.Server, options...)
}
