// Package connection is how the programs reach a server: its address, what to trust, and who
// they are.
package connection

import (
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/resolver/dns"

	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
)

// lookUp is the least time between two lookups of a server's name. gRPC looks it up again when a
// connection ends, but by default no sooner than 30 s after the last time: a program that has just
// looked would know none of the instances that came in the place of those that went.
const lookUp = 5 * time.Second

// It is one setting of a process, which gRPC takes before its first call only.
func init() { dns.SetMinResolutionInterval(lookUp) }

// Settings say how a server is reached.
type Settings struct {
	// Server is its address, or several; empty without a server.
	Server                    string
	CAFile, CertFile, KeyFile string
	ServerName                string
	TokenFile                 string
	Insecure                  bool
	// ClearOnLoopback has a server on this machine talked to in the clear, as it serves by
	// default, unless a flag says what to trust.
	ClearOnLoopback bool
}

// Bind adds a flag for each setting; what the settings hold is the default.
func (s *Settings) Bind(flags *pflag.FlagSet, of string) {
	flags.StringVar(&s.Server, "server", s.Server, "gRPC `addresses` of "+of+", host:port, several separated by commas, or a gRPC target such as dns:///setpoint:9090")
	flags.StringVar(&s.CAFile, "tls-ca-file", s.CAFile, "PEM `file` of the CAs that sign the server's certificate; empty means the system's")
	flags.StringVar(&s.CertFile, "tls-cert-file", s.CertFile, "PEM `file` of the client certificate; reloaded when it changes")
	flags.StringVar(&s.KeyFile, "tls-key-file", s.KeyFile, "PEM `file` of the certificate's key")
	flags.StringVar(&s.ServerName, "tls-server-name", s.ServerName, "expected `name` in the server's certificate; empty means the host of the address")
	flags.StringVar(&s.TokenFile, "token-file", s.TokenFile, "`file` with the bearer token for the server; reloaded when it changes")
	flags.BoolVar(&s.Insecure, "insecure", s.Insecure, "talk to the server without TLS")
}

// Variables are those from which commands take settings that ask a server once; of an agent
// each flag has one.
var Variables = []string{config.Variable("server"), config.Variable("token-file"), config.Variable("tls-ca-file")}

// FromEnvironment sets what those variables say.
func (s *Settings) FromEnvironment() {
	for i, setting := range []*string{&s.Server, &s.TokenFile, &s.CAFile} {
		if value := os.Getenv(Variables[i]); value != "" {
			*setting = value
		}
	}
}

// Validate refuses what can't be.
func (s *Settings) Validate(refuse func(flag, format string, args ...any)) {
	if s.Server == "" {
		refuse("server", "is required")
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		refuse("tls-cert-file", "and --tls-key-file go together")
	}
	if s.Insecure && s.hasTLS() {
		refuse("insecure", "contradicts the --tls flags")
	}
	if s.Insecure && s.TokenFile != "" && !s.onLoopback() {
		refuse("insecure", "would send the token of --token-file unencrypted")
	}
}

func (s *Settings) hasTLS() bool { return s.CAFile != "" || s.CertFile != "" || s.ServerName != "" }

// onLoopback reports whether all addresses are of this machine.
func (s *Settings) onLoopback() bool {
	for address := range strings.SplitSeq(s.Server, ",") {
		host, _, err := net.SplitHostPort(strings.TrimSpace(address))
		if err != nil {
			host = strings.TrimSpace(address)
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}

// Open returns a client that calls itself by that name; nothing is sent before the first
// call.
func (s *Settings) Open(name string, more ...setpoint.Option) (*setpoint.Client, error) {
	options := append([]setpoint.Option{setpoint.WithUserAgent(name + "/" + cli.Version())}, more...)
	if s.Insecure || s.ClearOnLoopback && !s.hasTLS() && s.onLoopback() {
		options = append(options, setpoint.WithInsecure())
		if s.onLoopback() {
			options = append(options, setpoint.WithTokenOverInsecure())
		}
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
