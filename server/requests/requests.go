package requests

import (
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/server/tracing"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// Settings are the settings of requests. Start from DefaultSettings.
type Settings struct {
	// Recommend are the defaults of the options of requests.
	Recommend recommender.Options
	// AllowEvaluationTime lets requests set the instant of the decision. Only for replays
	// and tests: a caller could write history ahead of time.
	AllowEvaluationTime bool
	// MaxPods limits the pods of one request.
	MaxPods int
	// MaxMetrics limits the metrics of one spec, because each value is compared with each metric.
	MaxMetrics int
	// MaxBatch limits the requests of one batch.
	MaxBatch int
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{Recommend: recommender.DefaultOptions(), MaxPods: 20000, MaxMetrics: 100, MaxBatch: 1000}
}

// CostLimits are the settings that limit lists.
func (s *Settings) CostLimits() cost.Limits {
	return cost.Limits{Pods: s.MaxPods, Metrics: s.MaxMetrics, Batch: s.MaxBatch}
}

// Reader reads requests, and encodes their answers. It is safe for concurrent use.
type Reader struct {
	Settings *Settings
	Metrics  *metrics
	// Observer logs requests of streams; nil: nothing does.
	Observer *calls.Observer
	// Gate limits the memory of requests in progress; Limiter counts what it refuses, nil:
	// none.
	Gate    *gate.Gate
	Limiter *limit.Limiter

	targets *telemetry.Targets // nil: they are not counted apart
	clock   func() time.Time
	tracing *tracing.Tracing
	log     *zap.Logger
	decoder *wire.Decoder
	shares  shares.Options
}

// New returns a reader of requests about targets. Set Limiter and Observer before the first call, if
// there are any.
func New(targets *decision.Targets, settings *Settings, calls *telemetry.Calls) *Reader {
	options := targets.Options
	return &Reader{
		Settings: settings, Metrics: newMetrics(calls), Gate: gate.OfProcess(mostWaiting), targets: targets.Metrics.Targets,
		clock: options.Clock, tracing: options.Tracing, log: options.Log, decoder: wire.NewDecoder(settings.Recommend), shares: options.Shares(),
	}
}
