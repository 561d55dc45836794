// Package connection is how the programs connect to a server: its address, trust, and
// credentials.
package connection

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/dns"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/files"
)

// lookUp is the minimum time between two lookups of a server's name. gRPC repeats the lookup
// when a connection ends, but by default no sooner than after 30 s: a program that has just
// looked would know none of the new instances.
const lookUp = 5 * time.Second

// A setting of the whole process, which gRPC accepts only before its first call.
func init() { dns.SetMinResolutionInterval(lookUp) }

// DefaultServer is the default gRPC address of setpoint serve.
const DefaultServer = "127.0.0.1:9090"

// Settings say how a server is reached.
type Settings struct {
	// Server is its address, or several; empty without a server.
	Server                    string
	CAFile, CertFile, KeyFile string
	ServerName                string
	TokenFile                 string
	Insecure                  bool
}

// List are the settings.
func (s *Settings) List(of string) []config.Setting {
	return []config.Setting{
		config.String(&s.Server, "server", "gRPC `addresses` of "+of+", host:port, several separated by commas, or a gRPC target such as dns:///setpoint:9090"),
		config.String(&s.CAFile, "tls-ca-file", "PEM `file` of the CAs that sign the server's certificate, read at each handshake; empty means the system's"),
		config.String(&s.CertFile, "tls-cert-file", "PEM `file` of the client certificate, read at each handshake"),
		config.String(&s.KeyFile, "tls-key-file", "PEM `file` of the certificate's key, read with it"),
		config.String(&s.ServerName, "tls-server-name", "expected `name` in the server's certificate; empty means the host of the address"),
		config.String(&s.TokenFile, "token-file", "`file` with the bearer token for the server; reloaded when it changes"),
		config.Bool(&s.Insecure, "insecure", "talk to the server without TLS, as with one on this machine unless a --tls flag is given"),
	}
}

// Bind returns the settings of a command that calls a server once, and adds a flag for each. Their
// defaults come from config.OfClients; an agent has a variable for each flag.
func Bind(flags *pflag.FlagSet, server, of string) *Settings {
	s := &Settings{Server: server}
	for i, setting := range []*string{&s.Server, &s.TokenFile, &s.CAFile} {
		if value := os.Getenv(config.OfClients[i]); value != "" {
			*setting = value
		}
	}
	config.List{{Settings: s.List(of)}}.Bind(flags)
	for i, flag := range []string{"server", "token-file", "tls-ca-file"} {
		if i > 0 || server != "" { // without a default the command's own words say what the variable does
			flags.Lookup(flag).Usage += "; also " + config.OfClients[i]
		}
	}
	return s
}

// Validate refuses invalid settings.
func (s *Settings) Validate(refuse config.Refuse) {
	if s.Server == "" {
		refuse("server", "is required")
	}
	for address := range strings.SplitSeq(s.Server, ",") {
		scheme, rest, is := strings.Cut(strings.TrimSpace(address), "://")
		if is && resolver.Get(strings.ToLower(scheme)) == nil { // gRPC has dns:///, unix:/// and others
			refuse("server", "is no URL: drop %s://, and give the gRPC address, host:port, such as %s", scheme, strings.TrimRight(rest, "/"))
		}
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		refuse("tls-cert-file", "must be given together with --tls-key-file")
	}
	if s.Insecure && s.hasTLS() {
		refuse("insecure", "contradicts the --tls flags, or the variables that set them")
	}
	if s.Insecure && s.TokenFile != "" && !setpoint.OnLoopback(s.Server) {
		refuse("insecure", "would send the token of --token-file unencrypted")
	}
}

func (s *Settings) hasTLS() bool { return s.CAFile != "" || s.CertFile != "" || s.ServerName != "" }

// Open returns a client with that user agent; it sends nothing before the first call.
func (s *Settings) Open(name string, more ...setpoint.Option) (*setpoint.Client, error) {
	options := []setpoint.Option{setpoint.WithUserAgent(name + "/" + cli.Version())}
	if s.Insecure {
		options = append(options, setpoint.WithInsecure())
	} else if s.hasTLS() {
		options = append(options, setpoint.WithTLS(setpoint.TLS{
			CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile, ServerName: s.ServerName,
		}))
	}
	if s.TokenFile != "" {
		file := files.NewSecret(s.TokenFile, nil) // keeps what it has read: a pipe has it once
		if _, err := file.Get(); err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		options = append(options, setpoint.WithTokenSource(func(context.Context) (string, error) { return file.Get() }))
	}
	client, err := setpoint.New(s.Server, append(options, more...)...)
	if unread, is := errors.AsType[*fs.PathError](err); is {
		for _, named := range []struct{ flag, path string }{{"tls-ca-file", s.CAFile}, {"tls-cert-file", s.CertFile}, {"tls-key-file", s.KeyFile}} {
			if named.path == unread.Path {
				return nil, fmt.Errorf("--%s: %w", named.flag, unread)
			}
		}
	}
	return client, err
}

// Dial returns a client of a command that calls a server once; it sends nothing before the first call. A
// person waits: calls have no timeout, and the person may interrupt them.
func (s *Settings) Dial(options ...setpoint.Option) (*setpoint.Client, error) {
	var problems config.Problems
	s.Validate(problems.Refuse)
	if err := problems.Err(); err != nil {
		return nil, cli.BadInput(err)
	}
	client, err := s.Open("setpoint", append(options, setpoint.WithTimeout(0))...)
	return client, cli.BadInput(err)
}

// Call dials, and passes the connection to do.
func (s *Settings) Call(do func(grpc.ClientConnInterface) error) error {
	return s.Use(func(client *setpoint.Client) error { return do(client.Conn()) })
}

// Use dials, and passes the client to do. Where the server lacks a method the error has its version, too.
func (s *Settings) Use(do func(*setpoint.Client) error) error {
	client, err := s.Dial()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	if err = do(client); status.Code(err) == codes.Unimplemented {
		return cli.Lacking(err, versions(client))
	}
	return err
}

// versions are those of a server's instances; nil: it does not tell this caller.
func versions(client *setpoint.Client) (all []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	resp, _ := setpointv1.NewOperationsServiceClient(client.Conn()).ListInstances(ctx, &setpointv1.ListInstancesRequest{})
	for _, instance := range resp.GetInstances() {
		all = append(all, instance.GetVersion())
	}
	slices.Sort(all)
	return slices.Compact(all)
}
