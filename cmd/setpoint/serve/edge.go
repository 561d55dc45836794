package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/certs"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// edgeSettings are the settings of TLS, authentication and authorization.
type edgeSettings struct {
	TLSCert, TLSKey string
	TLSClientCA     string
	TLSClientCRL    string
	TLSClientAuth   string
	TokensFile      string
	OIDCFile        string
	PolicyFile      string
	KEDATokens      bool
	AllowAnonymous  bool
	Insecure        bool
}

func (s *edgeSettings) bind(flags *pflag.FlagSet) {
	flags.StringVar(&s.TLSCert, "tls-cert-file", s.TLSCert, "PEM `file` of the certificate of gRPC and REST, followed by intermediate ones; reloaded when it changes; empty: no TLS")
	flags.StringVar(&s.TLSKey, "tls-key-file", s.TLSKey, "PEM `file` of the certificate's key")
	flags.StringVar(&s.TLSClientCA, "tls-client-ca-file", s.TLSClientCA, "`file` with the PEM certificates of the CAs whose client certificates are credentials")
	flags.StringVar(&s.TLSClientCRL, "tls-client-crl-file", s.TLSClientCRL, "`file` with PEM revocation lists of those CAs")
	flags.StringVar(&s.TLSClientAuth, "tls-client-auth", s.TLSClientAuth, "client certificates: none, optional or require; empty means optional with --tls-client-ca-file, else none")
	flags.StringVar(&s.TokensFile, "auth-tokens-file", s.TokensFile, "`file` with the SHA-256 of bearer tokens and their owners; reloaded when it changes")
	flags.StringVar(&s.OIDCFile, "auth-oidc-file", s.OIDCFile, "`file` with the OpenID Connect issuers whose JWTs are accepted as bearer tokens; reloaded when it changes")
	flags.BoolVar(&s.KEDATokens, "keda-metadata-tokens", s.KEDATokens, "accept a token in a trigger's metadata (token, tokenFromEnv) from KEDA's calls without other credentials; reads up to 64 KiB before authentication")
	flags.BoolVar(&s.AllowAnonymous, "auth-allow-anonymous", s.AllowAnonymous, "accept callers without credentials as \"anonymous\"; the policy decides what they may do")
	flags.StringVar(&s.PolicyFile, "policy-file", s.PolicyFile, "`file` with the rights, limits and options of callers; reloaded when it changes; empty: every authenticated caller may do everything")
	flags.BoolVar(&s.Insecure, "insecure", s.Insecure, "allow addresses that other machines can reach without authentication or without TLS")
}

// limitSettings are the callers' limits.
type limitSettings struct {
	InFlight          int
	InFlightPerCaller int
	RatePerCaller     float64
	BurstPerCaller    int
	StreamsPerCaller  int
	Streams           int
	Shedding          bool
	MaxConnectionAge  time.Duration
	Connections       int
	CallsPerConn      int
	HeaderBytes       int
	ClusterTargets    int
	ClusterBytes      int
}

func defaultLimitSettings() limitSettings {
	o := server.DefaultOptions()
	return limitSettings{
		InFlight: o.Limits.InFlight, Streams: o.Limits.Streams, Shedding: !o.Limits.Shedding.Off,
		MaxConnectionAge: o.MaxConnectionAge, Connections: o.MaxConnections, CallsPerConn: o.MaxCallsPerConnection, HeaderBytes: o.MaxHeaderBytes,
		ClusterTargets: o.ClusterTargets, ClusterBytes: o.ClusterBytes,
	}
}

func (s *limitSettings) bind(flags *pflag.FlagSet) {
	flags.IntVar(&s.InFlight, "max-in-flight", s.InFlight, "maximum calls in flight, all callers together; a batch counts as its requests")
	flags.IntVar(&s.InFlightPerCaller, "max-in-flight-per-caller", s.InFlightPerCaller, "maximum calls in flight per caller, unless the policy file says otherwise; 0 means no fixed limit: authenticated callers share equally once three quarters of --max-in-flight are used")
	flags.Float64Var(&s.RatePerCaller, "max-rate-per-caller", s.RatePerCaller, "maximum requests per second per caller, unless the policy file says otherwise; 0 means no limit")
	flags.IntVar(&s.BurstPerCaller, "max-burst-per-caller", s.BurstPerCaller, "burst of one caller above its rate, requests; 0 means one second's worth")
	flags.IntVar(&s.Streams, "max-streams", s.Streams, "maximum open streams, all callers together; one authenticated caller gets three quarters of them; 0 means no limit")
	flags.IntVar(&s.StreamsPerCaller, "max-streams-per-caller", s.StreamsPerCaller, "maximum open streams per caller, unless the policy file says otherwise; 0 means no limit")
	flags.BoolVar(&s.Shedding, "shed-load", s.Shedding, "shed load when the CPUs are saturated, so that accepted calls stay fast")
	flags.DurationVar(&s.MaxConnectionAge, "max-connection-age", s.MaxConnectionAge, "maximum age of a gRPC connection, so that callers spread over instances; 0 means no limit")
	flags.IntVar(&s.Connections, "max-connections", s.Connections, "maximum open connections, gRPC and REST together, and open health watches; beyond it idle ones are closed")
	flags.IntVar(&s.CallsPerConn, "max-calls-per-connection", s.CallsPerConn, "calls in flight on one HTTP/2 connection")
	flags.IntVar(&s.HeaderBytes, "max-header-bytes", s.HeaderBytes, "maximum header size of one call, bytes")
	flags.IntVar(&s.ClusterTargets, "max-targets-per-cluster", s.ClusterTargets, "targets per cluster above which new ones are refused, unless the policy file says otherwise; 0 means no limit")
	flags.IntVar(&s.ClusterBytes, "max-bytes-per-cluster", s.ClusterBytes, "estimated bytes of a cluster's histories, specs or observations, each, above which new targets and longer specs and observations are refused, unless the policy file says otherwise; 0 means no limit")
}

func (s *limitSettings) options() limit.Options {
	o := limit.DefaultOptions()
	o.InFlight, o.Streams = s.InFlight, s.Streams
	o.Identity = limit.Limits{InFlight: s.InFlightPerCaller, Rate: s.RatePerCaller, Burst: s.BurstPerCaller, Streams: s.StreamsPerCaller}
	o.Shedding.Off = !s.Shedding
	return o
}

func (s *limitSettings) validate(refuse func(flag, format string, args ...any)) {
	if err := s.options().Validate(); err != nil {
		refuse("max-in-flight", "%v", err)
	}
	for flag, n := range map[string]int{"max-connections": s.Connections, "max-calls-per-connection": s.CallsPerConn, "max-header-bytes": s.HeaderBytes} {
		if n <= 0 {
			refuse(flag, "%d is not above 0", n)
		}
	}
	for flag, n := range map[string]int{"max-targets-per-cluster": s.ClusterTargets, "max-bytes-per-cluster": s.ClusterBytes} {
		if n < 0 {
			refuse(flag, "%d is negative", n)
		}
	}
	if s.MaxConnectionAge < 0 {
		refuse("max-connection-age", "%s is negative", s.MaxConnectionAge)
	}
}

// asks reports whether callers are authenticated.
func (s *edgeSettings) asks() bool {
	return s.TokensFile != "" || s.OIDCFile != "" || s.clientAuth() != string(certs.None)
}

func (s *edgeSettings) clientAuth() string {
	switch {
	case s.TLSClientAuth != "":
		return s.TLSClientAuth
	case s.TLSClientCA != "":
		return string(certs.Optional)
	}
	return string(certs.None)
}

func (s *edgeSettings) certOptions() certs.Options {
	return certs.Options{
		CertFile: s.TLSCert, KeyFile: s.TLSKey, CAFile: s.TLSClientCA, CRLFile: s.TLSClientCRL,
		ClientAuth: certs.ClientAuth(s.clientAuth()),
	}
}

// validate refuses invalid settings; addresses are those of gRPC and REST, by their flags.
func (s *edgeSettings) validate(refuse func(flag, format string, args ...any), addresses map[string]string) {
	if err := s.certOptions().Validate(); err != nil {
		refuse("tls-cert-file", "%v", err)
	}
	if s.TLSCert == "" && (s.TLSClientCA != "" || s.clientAuth() != string(certs.None)) {
		refuse("tls-client-ca-file", "client certificates need TLS: give --tls-cert-file and --tls-key-file")
	}
	if s.AllowAnonymous && !s.asks() {
		refuse("auth-allow-anonymous", "authentication is off: give --auth-tokens-file, --auth-oidc-file or --tls-client-ca-file")
	}
	if s.AllowAnonymous && s.PolicyFile == "" {
		refuse("auth-allow-anonymous", "must come with --policy-file, which says what anonymous callers may do")
	}
	if s.KEDATokens && s.TokensFile == "" && s.OIDCFile == "" {
		refuse("keda-metadata-tokens", "there are no tokens: give --auth-tokens-file or --auth-oidc-file")
	}
	if s.PolicyFile != "" && !s.asks() {
		refuse("policy-file", "authentication is off: give --auth-tokens-file, --auth-oidc-file or --tls-client-ca-file")
	}
	if s.Insecure {
		return
	}
	for flag, address := range addresses {
		if daemon.IsLoopback(address) {
			continue
		}
		if !s.asks() {
			refuse(flag, "other machines can reach %s without authentication: give --auth-tokens-file, --auth-oidc-file or --tls-client-ca-file, or allow it with --insecure", address)
		}
		if s.TLSCert == "" {
			refuse(flag, "other machines can reach %s without TLS: give --tls-cert-file and --tls-key-file, or allow it with --insecure", address)
		}
	}
}

// edge is the running part of the settings.
type edge struct {
	access *server.Access
	tls    *tls.Config
	source *certs.Source
	stop   context.CancelFunc
	done   sync.WaitGroup
	// counts has the sources of metrics.
	counts edgeCollector
}

// open reads the files; kept is how long, 0: for ever, histories are kept. Close the result.
func (s *edgeSettings) open(log *zap.Logger, kept time.Duration) (*edge, error) {
	ctx, cancel := context.WithCancel(context.Background())
	e := &edge{stop: cancel}
	if err := errors.Join(s.openTLS(ctx, e, log), s.openAccess(ctx, e, log, kept)); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (s *edgeSettings) openTLS(ctx context.Context, e *edge, log *zap.Logger) error {
	if s.TLSCert == "" {
		return nil
	}
	o := s.certOptions()
	o.OnChange = func(err error) {
		if err != nil {
			log.Error("certificate reload failed, keeping the previous certificates", zap.Error(err))
			return
		}
		log.Info("certificates taken")
	}
	o.OnExpiring = func(notAfter time.Time) {
		log.Warn("the certificate expires soon", zap.Time("notAfter", notAfter))
	}
	var err error
	if e.source, err = certs.New(o); err != nil {
		return fmt.Errorf("--tls-cert-file: %w", err)
	}
	if e.tls, err = e.source.ServerConfig(); err != nil {
		return fmt.Errorf("--tls-cert-file: %w", err)
	}
	e.counts.certs = e.source.Status
	e.done.Go(func() { e.source.Run(ctx) })
	return nil
}

func (s *edgeSettings) openAccess(ctx context.Context, e *edge, log *zap.Logger, kept time.Duration) error {
	if !s.asks() {
		return nil
	}
	watched := files.Options{OnChange: func(event files.Event) {
		if event.Err != nil {
			log.Error("reload failed, keeping the previous contents", zap.Strings("files", event.Paths), zap.Error(event.Err))
			return
		}
		log.Info("file taken", zap.Strings("files", event.Paths))
	}}
	options := auth.Options{
		Certificates: s.clientAuth() != string(certs.None),
		TokensFile:   s.TokensFile, OIDCFile: s.OIDCFile, AllowAnonymous: s.AllowAnonymous, Files: watched,
		OnIssuer: func(issuer string, err error) {
			if err != nil {
				log.Warn("an issuer's keys can't be fetched", zap.String("issuer", issuer), zap.Error(err))
				return
			}
			log.Info("an issuer's keys are known", zap.String("issuer", issuer))
		},
	}
	if e.source != nil && options.Certificates {
		options.Clients = e.source
	}
	authenticator, err := auth.New(options)
	if err != nil {
		return s.withFlags(err)
	}
	e.counts.auth, e.counts.tokens, e.counts.issuers = authenticator.Stats, s.TokensFile != "", s.OIDCFile != ""
	e.access = &server.Access{Authenticator: authenticator, Policy: files.Fixed(policy.Default(false))}
	if s.PolicyFile == "" {
		return nil
	}
	p, err := policy.OpenWithin(s.PolicyFile, kept, watched)
	if err != nil {
		return s.withFlags(err)
	}
	e.access.Policy, e.counts.policy = p, p.Stats
	e.done.Go(func() { p.Run(ctx) })
	return nil
}

// withFlags prefixes the error of an unreadable file with its flag; an error within a file has
// its path and line.
func (s *edgeSettings) withFlags(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, each := range joined.Unwrap() {
			all = append(all, s.withFlags(each))
		}
		return errors.Join(all...)
	}
	var unread *fs.PathError
	if !errors.As(err, &unread) {
		return err
	}
	for _, named := range []struct{ flag, path string }{
		{"auth-tokens-file", s.TokensFile}, {"auth-oidc-file", s.OIDCFile}, {"policy-file", s.PolicyFile},
	} {
		if named.path == unread.Path {
			return fmt.Errorf("--%s: %w", named.flag, err)
		}
	}
	return err
}

func (e *edge) close() {
	e.stop()
	e.done.Wait()
	if e.access != nil {
		e.access.Authenticator.Close()
	}
}
