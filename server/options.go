package server

import (
	"crypto/tls"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
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
	// MaxCallsPerConnection bounds the calls in flight on one HTTP/2 connection, MaxHeaderBytes
	// the headers of a call, over gRPC and REST.
	MaxCallsPerConnection, MaxHeaderBytes int
	// TLS secures gRPC and REST. Nil: they are served in the clear. It must offer h2.
	TLS *tls.Config
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
	// AnswerRetention is how long answers are remembered by request id, and
	// AnswerLimit how many a target.
	AnswerRetention time.Duration
	AnswerLimit     int
	// LoggedRepeats is how many decisions a second that say what the target's last one
	// said are logged; of more, none are. What says something new is always logged, and
	// the last decision is known in any case.
	LoggedRepeats int
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
	LogCalls CallLog
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
		LoggedRepeats:     100,
		LogCalls:          LogFailedCalls,
		RequestTimeout:    10 * time.Second,
		DrainTimeout:      20 * time.Second,
		Version:           "dev",
	}
}
