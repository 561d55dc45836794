package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/internal/target"
)

// Recommender is the service, as package setpoint's Client has it.
type Recommender interface {
	// Recommend returns a recommendation.
	Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error)
	// ReportScale reports whether it was applied.
	ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error)
	// DeleteIncarnation deletes a target if it has the incarnation and the cluster that the
	// request names; NOT_FOUND: there was none.
	DeleteIncarnation(ctx context.Context, req *setpointv1.DeleteTargetRequest) error
}

// Stream is a stream of the service, as package setpoint's Stream is one.
type Stream interface {
	// Recommend returns a recommendation.
	Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error)
}

// Service is how the agent reaches the recommender.
type Service struct {
	// Calls are for all calls but recommendations. Required.
	Calls Recommender
	// Stream is for recommendations. Nil: Calls are used.
	Stream Stream
	// Announce announces the agent, so that agents of one platform know of one another. May be
	// nil.
	Announce Announce
	// Redial makes broken connections reconnect at once. May be nil.
	Redial func()
}

// Options are the settings of a loop. The zero value of a field is its default where one
// is named.
type Options struct {
	// Cluster is the cluster's name at the service. Required.
	Cluster string
	// ClusterUID distinguishes clusters of the same name. Empty: unknown.
	ClusterUID string
	// Acts returns what the agent scales, for other agents of the same platform to know; none if
	// the platform has no id. Nil: the agent is not announced. A shadow never is.
	Acts func(ctx context.Context) ([]Acting, error)
	// Sources maps the kinds of objects to the label of each in metrics.
	Sources map[string]string
	// Period is the time between two reconciles of an object that sets none. Default: DefaultPeriod.
	Period time.Duration
	// FirstWait bounds how long an object that is new, or whose count another agent has just
	// changed, waits for its first reconcile; below 0: no wait. Default: pace.MaxFirstWait.
	FirstWait time.Duration
	// RequestTimeout bounds a call of the service, and a third of one of the platform. Default:
	// DefaultRequestTimeout.
	RequestTimeout time.Duration
	// Shadow makes every object a shadow: nothing is applied.
	Shadow bool
	// Observers receive decisions.
	Observers []Observer
	// Registerer takes the metrics. Nil disables them.
	Registerer prometheus.Registerer
	// Log takes the lines. Nil: no log.
	Log *zap.Logger
}

// Defaults of settings.
const (
	DefaultPeriod         = 15 * time.Second
	DefaultRequestTimeout = 10 * time.Second
	DefaultWorkers        = 32
	DefaultDrainTimeout   = 20 * time.Second
)

// QueueOptions are for a platform with a queue of its own, in place of a Driver's.
type QueueOptions struct {
	// Wake makes objects due at once: the caller of Reconcile must reconcile them. Required.
	Wake func(keys ...Key)
	// ShortestPeriod receives the shortest period of all objects whenever it may have
	// changed. May be nil.
	ShortestPeriod func(time.Duration)
	// LogLevel returns the level for an error of the platform, given the usual one. Nil: the
	// usual one.
	LogLevel func(usual zapcore.Level, err error) zapcore.Level
}

func (o QueueOptions) withDefaults() (QueueOptions, error) {
	if o.LogLevel == nil {
		o.LogLevel = func(usual zapcore.Level, _ error) zapcore.Level { return usual }
	}
	if o.Wake == nil {
		return o, errors.New("wake: required")
	}
	return o, nil
}

// withDefaults fills in defaults and returns what is wrong.
func (o Options) withDefaults() (Options, error) {
	o.Period = cmp.Or(o.Period, DefaultPeriod)
	o.FirstWait = cmp.Or(o.FirstWait, pace.MaxFirstWait)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
	o.Log = cmp.Or(o.Log, zap.NewNop())
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !target.IsSegment(o.Cluster) {
		refuse("cluster %q: must be 1 to 253 characters of [A-Za-z0-9._-], and not \".\", \"..\" or \"-\"", o.Cluster)
	}
	if o.Period < pace.MinPeriod || o.Period > pace.MaxPeriod {
		refuse("period: %s is not from %s to %s", o.Period, pace.MinPeriod, pace.MaxPeriod)
	}
	if o.RequestTimeout < 0 {
		refuse("request timeout: must be above 0")
	}
	return o, errors.Join(problems...)
}
