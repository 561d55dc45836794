package agentcmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"

	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/cmd/internal/connection"
	"github.com/setpoint-dev/setpoint/internal/target"
)

// Settings are the settings of every platform's agent.
type Settings struct {
	Cluster        string
	Shadow         bool
	Service        connection.Settings
	SyncPeriod     time.Duration
	Workers        int
	RequestTimeout time.Duration
	DrainTimeout   time.Duration
	AdminAddress   string
	LogLevel       string
	LogFormat      string
	Record         Record
}

// Defaults returns the settings of an agent without flags.
func Defaults() Settings {
	return Settings{
		Service:    connection.Settings{Server: "127.0.0.1:9090"},
		SyncPeriod: 15 * time.Second, Workers: 32, RequestTimeout: 10 * time.Second, DrainTimeout: 20 * time.Second,
		AdminAddress: "127.0.0.1:9092",
		LogLevel:     "info", LogFormat: "json",
		Record: defaultRecord(),
	}
}

// Bind adds a flag for each setting; the current values are the defaults. pages are additional
// pages of the admin address of this platform's agent.
func (s *Settings) Bind(flags *pflag.FlagSet, pages string) {
	flags.StringVar(&s.Cluster, "cluster", s.Cluster, "`name` of this cluster at the server; required. Agents of different clusters must use different names")
	flags.BoolVar(&s.Shadow, "shadow", s.Shadow, "decide beside the acting controller with a history of its own; apply and write nothing")
	s.Service.Bind(flags, "the server")
	flags.DurationVar(&s.SyncPeriod, periodFlag, s.SyncPeriod, "time between two reconciles of an object that sets no period, 1s to 1h")
	flags.IntVar(&s.Workers, "workers", s.Workers, "maximum concurrent reconciles")
	flags.DurationVar(&s.RequestTimeout, "request-timeout", s.RequestTimeout, "timeout of one request to the server, and of one read of the cluster")
	flags.DurationVar(&s.DrainTimeout, "drain-timeout", s.DrainTimeout, "how long shutdown waits for reconciles in flight")
	bindAdmin(flags, &s.AdminAddress, "`host:port` of the admin server, plain HTTP without credentials: /metrics, /healthz, /readyz, "+pages+"/shadow, /debug/pprof/; empty disables it")
	flags.StringVar(&s.LogLevel, "log-level", s.LogLevel, "least severe `level` that is logged: debug, info, warn or error")
	flags.StringVar(&s.LogFormat, "log-format", s.LogFormat, "`form` of log lines: json, or console for people")
	s.Record.bind(flags)
}

// Names of flags that are spoken of.
const (
	periodFlag = "sync-period"
	adminFlag  = "admin-address"
)

func bindAdmin(flags *pflag.FlagSet, address *string, usage string) {
	flags.StringVar(address, adminFlag, *address, usage)
}

// Refuse adds a problem of a flag, named without its dashes.
type Refuse func(flag, format string, args ...any)

// Problems collects the problems of flags.
type Problems []error

// Refuse adds a problem.
func (p *Problems) Refuse(flag, format string, args ...any) {
	*p = append(*p, fmt.Errorf("--"+flag+": "+format, args...))
}

// Err joins all problems, nil without any.
func (p *Problems) Err() error { return errors.Join(*p...) }

// Validate refuses invalid settings.
func (s *Settings) Validate(refuse Refuse) {
	switch {
	case s.Cluster == "":
		refuse("cluster", "is required")
	case !target.IsSegment(s.Cluster), s.Cluster == ".", s.Cluster == "..", s.Cluster == "-":
		refuse("cluster", "cluster %q: must be 1 to 253 characters of [A-Za-z0-9._-], and not ., .. or -", s.Cluster)
	}
	if s.SyncPeriod < pace.MinPeriod || s.SyncPeriod > pace.MaxPeriod {
		refuse(periodFlag, "%s is not from 1s to 1h", s.SyncPeriod)
	}
	RefuseUnlessAbove(refuse, "workers", s.Workers)
	RefuseUnlessAbove(refuse, "request-timeout", s.RequestTimeout)
	RefuseUnlessAbove(refuse, "drain-timeout", s.DrainTimeout)
	s.Service.Validate(refuse)
	if _, err := zapcore.ParseLevel(s.LogLevel); err != nil {
		refuse("log-level", "%q is not one of debug, info, warn, error", s.LogLevel)
	}
	if s.LogFormat != "json" && s.LogFormat != "console" {
		refuse("log-format", "%q is neither json nor console", s.LogFormat)
	}
	s.Record.validate(refuse)
}

// RefuseUnlessAbove refuses a number or a duration that is not above 0.
func RefuseUnlessAbove[N ~int | ~int64](refuse Refuse, flag string, n N) {
	if n <= 0 {
		refuse(flag, "%v is not above 0", n)
	}
}
