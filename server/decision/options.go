package decision

import (
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/recordings"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/server/tracing"
)

// Options are the settings of decisions and their storage. Start from DefaultOptions.
type Options struct {
	// MaxAttempts limits the attempts of one decision while other callers change the target.
	MaxAttempts int
	// AnswerRetention is how long answers are kept by request id, AnswerLimit how many per
	// target, AnswerBytes their total size; the newest is always kept.
	AnswerRetention time.Duration
	AnswerLimit     int
	AnswerBytes     int
	// ClusterTargets is how many targets a cluster may have, and ClusterBytes the estimated size
	// of their histories, above which new targets are refused; existing ones continue, each up
	// to 512 KiB. Specs and observations are each limited in the same way, and may not grow
	// beyond ClusterBytes. Targets that instances add within a few seconds may exceed it. The policy may
	// set other limits for a caller. 0: unlimited.
	ClusterTargets int
	ClusterBytes   int
	// MaxClockSkew is the maximum difference from the clock of the store that instances
	// share. Beyond it an instance is not ready and decides nothing, and records twice as
	// far in the future are corrected. 0: unlimited. If requests may set their instants,
	// records may have any.
	MaxClockSkew time.Duration
	// RequestTimeout limits calls without a deadline.
	RequestTimeout time.Duration
	// HoldDown serves calls while the store is unreachable, from the last history that this
	// instance knows: the count may rise, but not fall. Otherwise such calls are UNAVAILABLE.
	HoldDown bool
	// HistoryTTL is how long the store keeps the record of an idle target; 0: for ever.
	HistoryTTL time.Duration
	// CacheBytes limits the cache of records, some 450 bytes per target, which saves loads. 0:
	// no cache, which suits a store in this process.
	CacheBytes int
	// TargetMetrics is how many targets get their own metrics. 0: none.
	TargetMetrics int
	// Recordings says how much is kept of what targets are asked.
	Recordings recordings.Options
	// Tracing sends traces of calls; nil: none. Its owner closes it.
	Tracing *tracing.Tracing
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time
	// Log gets the server's log lines; nil drops them.
	Log *zap.Logger
}

// DefaultOptions returns the defaults.
func DefaultOptions() Options {
	return Options{
		MaxAttempts:     64,
		AnswerRetention: 2 * time.Minute,
		AnswerLimit:     32,
		AnswerBytes:     64 << 10,
		ClusterTargets:  2_000_000,
		ClusterBytes:    16 << 30,
		MaxClockSkew:    30 * time.Second,
		RequestTimeout:  10 * time.Second,
		Recordings:      recordings.Options{Age: recordings.DefaultAge, Total: recordings.DefaultTotal, Buffer: recordings.DefaultBuffer},
	}
}

func (o *Options) answers() record.Limits {
	return record.Limits{Retention: o.AnswerRetention, Count: o.AnswerLimit, Bytes: o.AnswerBytes}
}

// Shares are the settings that limit clusters.
func (o *Options) Shares() shares.Options {
	return shares.Options{ClusterTargets: o.ClusterTargets, ClusterBytes: o.ClusterBytes, Clock: o.Clock, Log: o.Log}
}
