package server

import (
	"crypto/tls"
	"io/fs"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/requests"
	"github.com/setpoint-dev/setpoint/server/signin"
	"github.com/setpoint-dev/setpoint/server/stored"
)

// Options are the settings of a Server. Start from DefaultOptions.
type Options struct {
	// Options are the settings of decisions and their storage.
	decision.Options
	// Settings are those of requests.
	requests.Settings
	// Sources fetch metrics that stored specs name. Nil: none are fetched.
	Sources stored.Sources
	// Access authenticates and authorizes callers. Nil: every caller may do everything.
	Access *Access
	// Limits limit calls, in total and per caller, and shed load. The zero value: no such
	// limits. The server sets its Limits.
	Limits limit.Options
	// MaxConnectionAge is the maximum age of a gRPC connection, so that callers spread over
	// instances; calls in flight get ConnectionGrace to finish. 0: no maximum.
	MaxConnectionAge, ConnectionGrace time.Duration
	// MaxConnections limits the connections of gRPC and REST together, and with them the calls
	// that have no other limit, such as health checks. Beyond it idle connections are closed.
	// 0: unlimited.
	MaxConnections int
	// MaxCallsPerConnection limits the calls in flight on one HTTP/2 connection, MaxHeaderBytes
	// the headers of a call, over gRPC and REST.
	MaxCallsPerConnection, MaxHeaderBytes int
	// KEDATokens authenticates KEDA's calls without any other credential by a token in
	// the trigger's metadata. Their messages are then read before the caller is
	// authenticated.
	KEDATokens bool
	// TLS secures gRPC and REST. Nil: plain text. It must offer h2.
	TLS *tls.Config
	// AllowedHosts are host names that REST requests may use, besides localhost and IP
	// addresses, while REST is on loopback without TLS and callers need no credentials. See
	// connections.GuardHost.
	AllowedHosts []string
	// MaxRequestBytes limits one message or body.
	MaxRequestBytes int
	// MaxStreamInFlight limits the unanswered requests of one stream; beyond it the server
	// stops reading the stream.
	MaxStreamInFlight int
	// LoggedRepeats is how many unchanged decisions per second are logged; above this rate
	// only changes are. The last decision is in the record in any case.
	LoggedRepeats int
	// MaxWatchers limits the calls of WatchDecisions on this instance, and MaxWatchersPerCaller
	// those of one authenticated caller. 0: unlimited.
	MaxWatchers, MaxWatchersPerCaller int
	// WatchHeartbeat is the maximum time between two responses to a watcher; above 0.
	WatchHeartbeat time.Duration
	// MaxSimulations limits the concurrent calls of Simulate, one processor each; 0: none are
	// allowed. MaxSimulationWork limits the work of one call, in evaluations of a pod: 100
	// million take some seconds.
	MaxSimulations, MaxSimulationWork int
	// UnreadTimeout is how long a response of WatchDecisions or Simulate over gRPC may wait for
	// a caller that reads nothing; the stream ends then. 0: a minute.
	UnreadTimeout time.Duration
	// ShutdownDelay is how long a stopping server still takes calls, but says that it is not ready.
	ShutdownDelay time.Duration
	// DrainTimeout limits how long a stop then waits for calls in flight, and for a store that is away.
	DrainTimeout time.Duration
	// LogCalls selects the calls that are logged.
	LogCalls calls.Logged
	// Registerer gets the server's metrics; nil: they are not registered.
	Registerer prometheus.Registerer
	// Page has the files of the web page, with an index.html; it is served at /ui/. Nil: no page.
	Page fs.FS
	// PageLinks are shown with each target.
	PageLinks []PageLink
	// SignIn signs users of the page in with an OpenID Connect issuer. Nil: not offered. It
	// needs Page and Access.
	SignIn *signin.Options
	// StoreKind is the kind of the store, memory or redis, for display.
	StoreKind string
	// Version is shown in the API's description and logs.
	Version string
}

// DefaultOptions returns the defaults of all settings.
func DefaultOptions() Options {
	return Options{
		Options:          decision.DefaultOptions(),
		Settings:         requests.DefaultSettings(),
		Limits:           limit.DefaultOptions(),
		MaxConnectionAge: 30 * time.Minute,
		ConnectionGrace:  time.Minute,

		MaxConnections:        4096,
		MaxCallsPerConnection: 1000,
		MaxHeaderBytes:        16 << 10,

		MaxRequestBytes:   16 << 20,
		MaxStreamInFlight: 64,
		LoggedRepeats:     100,
		LogCalls:          calls.LogFailed,
		DrainTimeout:      20 * time.Second,

		MaxWatchers:          1000,
		MaxWatchersPerCaller: 100,
		WatchHeartbeat:       5 * time.Second,

		MaxSimulations:    1,
		MaxSimulationWork: 100_000_000,

		StoreKind: "memory",
		Version:   "dev",
	}
}

// CallLog selects the calls that are logged; see calls.Logged.
type CallLog = calls.Logged

// The choices.
const (
	LogNoCalls     = calls.LogNone
	LogFailedCalls = calls.LogFailed
	LogAllCalls    = calls.LogAll
)

// CallLogs are the choices, least to most logged.
func CallLogs() []CallLog { return calls.LoggedChoices() }

// Access configures authentication and authorization; see access.Settings.
type Access = access.Settings
