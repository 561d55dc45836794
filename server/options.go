package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Options are the settings of a Server. Start from DefaultOptions.
type Options struct {
	// Recommend holds how to decide where a request says nothing.
	Recommend recommender.Options
	// AllowEvaluationTime lets requests choose the instant to decide for. For
	// replays and tests: a caller could write history ahead of time.
	AllowEvaluationTime bool
	// MaxRequestBytes bounds one message or body.
	MaxRequestBytes int
	// MaxPods bounds the pods of one request.
	MaxPods int
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
	// LoggedRepeats is how many decisions a second are logged that say what the
	// target's last one said; more of them are left out. What says something new is
	// always logged.
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
		Recommend:         recommender.DefaultOptions(),
		MaxRequestBytes:   16 << 20,
		MaxPods:           20000,
		MaxBatch:          1000,
		MaxStreamInFlight: 64,
		MaxAttempts:       64,
		AnswerRetention:   2 * time.Minute,
		AnswerLimit:       32,
		LoggedRepeats:     100,
		RequestTimeout:    10 * time.Second,
		DrainTimeout:      20 * time.Second,
		Version:           "dev",
	}
}
