package admission

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/bounded"
	"github.com/setpoint-dev/setpoint/server/connections"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/server/unfinished"
)

// Options are the settings of a Guard.
type Options struct {
	// Access authenticates and authorizes callers. Nil: every caller may do everything.
	Access *access.Settings
	// Limits limit calls; the zero value sets no limits. The Guard sets its Limits.
	Limits limit.Options
	// RequestTimeout limits one check of the caller of a stream.
	RequestTimeout time.Duration
	// MaxConnections, MaxCallsPerConnection and MaxRequestBytes are those of the server.
	MaxConnections, MaxCallsPerConnection, MaxRequestBytes int
	// TokensIn are methods whose messages may contain the caller's token, with functions that
	// extract it ("": none). The messages of callers without any other credential are read
	// before the caller is authenticated, up to MostTokenMessage bytes.
	TokensIn map[string]func(message []byte) (token string)
	// CostLimits are the settings that limit lists in messages.
	CostLimits cost.Limits
	// Calls counts calls that are refused before they reach an interceptor.
	Calls *telemetry.Calls
	// Registerer gets the metrics; nil: they are not registered.
	Registerer prometheus.Registerer
	// Log gets a line for each refused caller. Required.
	Log *zap.Logger
}

// Guard decides which calls are admitted.
type Guard struct {
	options Options
	// Limiter is nil where there are no limits.
	Limiter *limit.Limiter
	// Unfinished counts the bytes of incomplete messages and of unread responses.
	Unfinished *unfinished.Meter
	// Connections are the connections of gRPC and REST together.
	Connections *connections.Set
	// callerLimits are the policy's limits for callers, by name.
	callerLimits *bounded.Map[string, limit.Limits]
	// decoding limits the memory of large messages of methods that decode none themselves, such as
	// Simulate, apart from that of recommendations.
	decoding *gate.Gate
	// reading limits the memory of what calls read from the store, apart from both.
	reading *gate.Gate
}

// New returns a guard, and registers its metrics.
func New(options Options) (*Guard, error) {
	g := &Guard{options: options, decoding: gate.OfProcess(waitingToDecode), reading: gate.OfProcess(waitingToRead)}
	if err := g.newLimiter(); err != nil {
		return nil, err
	}
	g.newUnfinished()
	if err := g.newConnections(); err != nil {
		return nil, err
	}
	return g, nil
}
