package server

import (
	"crypto/tls"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/tracing"
)

// Options are the settings of a Server. Start from DefaultOptions.
type Options struct {
	// Recommend holds how to decide where a request says nothing.
	Recommend recommender.Options
	// Access says who calls and what they may do. Nil: anybody, everything.
	Access *Access
	// Limits bound calls, all and by caller, and shed what is too much. The zero value:
	// no such limits. Its Limits is the server's own.
	Limits limit.Options
	// MaxConnectionAge is when a gRPC connection is to make way for a new one, which may
	// lead elsewhere; calls in flight get ConnectionGrace to end. 0: connections stay.
	MaxConnectionAge, ConnectionGrace time.Duration
	// MaxConnections bounds the connections of gRPC and REST together, and with them the calls
	// that no other limit bounds, such as health checks. Beyond it those that nobody needs make
	// way. 0: any number.
	MaxConnections int
	// MaxCallsPerConnection bounds the calls in flight on one HTTP/2 connection, MaxHeaderBytes
	// the headers of a call, over gRPC and REST.
	MaxCallsPerConnection, MaxHeaderBytes int
	// TLS secures gRPC and REST. Nil: they are served in the clear. It must offer h2.
	TLS *tls.Config
	// AllowedHosts are names by which REST may be asked where it is on loopback without TLS
	// and callers need no credentials, beside localhost and IP addresses. See GuardHost.
	AllowedHosts []string
	// AllowEvaluationTime lets requests choose the instant to decide for. For
	// replays and tests: a caller could write history ahead of time.
	AllowEvaluationTime bool
	// MaxRequestBytes bounds one message or body.
	MaxRequestBytes int
	// MaxPods bounds the pods of one request.
	MaxPods int
	// MaxMetrics bounds the metrics of one spec: each value is compared with each.
	MaxMetrics int
	// MaxBatch bounds the requests of one batch.
	MaxBatch int
	// MaxStreamInFlight bounds the unanswered requests of one stream; beyond
	// them the stream is read no further.
	MaxStreamInFlight int
	// MaxAttempts bounds how often a decision is made again because another
	// caller changed the target meanwhile.
	MaxAttempts int
	// AnswerRetention is how long answers are remembered by request id, AnswerLimit how
	// many a target, and AnswerBytes how much they may take; the newest is remembered in
	// any case.
	AnswerRetention time.Duration
	AnswerLimit     int
	AnswerBytes     int
	// ClusterTargets is how many targets a cluster may have, and ClusterBytes what their
	// histories may take together, about, before new ones are refused; those that are there
	// go on, each up to 512 KiB. What instances add within a few seconds comes on top. The
	// policy may say otherwise of a caller. 0: any.
	ClusterTargets int
	ClusterBytes   int
	// LoggedRepeats is how many decisions a second that say what the target's last one
	// said are logged; of more, none are. What says something new is always logged, and
	// the last decision is known in any case.
	LoggedRepeats int
	// MaxClockSkew is how far the clock may be from that of the store that instances
	// share. Beyond it an instance is not ready and decides nothing, and records that lie
	// twice as far in the future are corrected. 0: any. Where requests choose their
	// instants, records may lie anywhere.
	MaxClockSkew time.Duration
	// RequestTimeout bounds calls that come without a deadline.
	RequestTimeout time.Duration
	// DrainTimeout bounds how long a stop waits for calls in flight.
	DrainTimeout time.Duration
	// HoldDown answers while the store is away, from what this instance last knew of
	// a target: the count may rise, not fall. Else such calls are UNAVAILABLE.
	HoldDown bool
	// CacheBytes bounds the records that are remembered so that they need not be
	// loaded, some 450 bytes a target. 0: none, which suits a store in this process.
	CacheBytes int
	// LogCalls says which calls are logged.
	LogCalls calls.Logged
	// TargetMetrics is how many targets have metrics of their own. 0: none.
	TargetMetrics int
	// Tracing sends traces of calls; nil: there are none. It stays its owner's to close.
	Tracing *tracing.Tracing
	// Registerer takes the server's metrics; nil: nobody reads them.
	Registerer prometheus.Registerer
	// Version is shown in the API's description and logs.
	Version string
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time
	// Log takes the server's lines; nil drops them.
	Log *zap.Logger
}

// DefaultOptions returns the defaults of all settings.
func DefaultOptions() Options {
	return Options{
		Recommend:        recommender.DefaultOptions(),
		Limits:           limit.DefaultOptions(),
		MaxConnectionAge: 30 * time.Minute,
		ConnectionGrace:  time.Minute,

		MaxConnections:        4096,
		MaxCallsPerConnection: 1000,
		MaxHeaderBytes:        16 << 10,

		MaxRequestBytes:   16 << 20,
		MaxPods:           20000,
		MaxMetrics:        100,
		MaxBatch:          1000,
		MaxStreamInFlight: 64,
		MaxAttempts:       64,
		AnswerRetention:   2 * time.Minute,
		AnswerLimit:       32,
		AnswerBytes:       64 << 10,
		ClusterTargets:    2_000_000,
		ClusterBytes:      16 << 30,
		LoggedRepeats:     100,
		MaxClockSkew:      30 * time.Second,
		LogCalls:          calls.LogFailed,
		RequestTimeout:    10 * time.Second,
		DrainTimeout:      20 * time.Second,
		Version:           "dev",
	}
}

func (o *Options) answers() recommender.AnswerLimits {
	return recommender.AnswerLimits{Retention: o.AnswerRetention, Count: o.AnswerLimit, Bytes: o.AnswerBytes}
}

// costLimits are the settings that bound lists.
func (o *Options) costLimits() cost.Limits {
	return cost.Limits{Pods: o.MaxPods, Metrics: o.MaxMetrics, Batch: o.MaxBatch}
}

// CallLog says which calls are logged; see calls.Logged.
type CallLog = calls.Logged

// The choices.
const (
	LogNoCalls     = calls.LogNone
	LogFailedCalls = calls.LogFailed
	LogAllCalls    = calls.LogAll
)

// CallLogs are the choices, in order of how much they log.
func CallLogs() []CallLog { return calls.LoggedChoices() }

// Access says who calls and what they may do; see access.Settings.
type Access = access.Settings
