package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// Options are the settings of an agent. The zero value of a field is its default where
// one is named.
type Options struct {
	// Cluster is the cluster's name at the service. Required.
	Cluster string
	// Sources are the kinds of objects to reconcile. Required, so that the agent does not
	// write the built-in controller's objects by default; with Shadow, which writes nothing,
	// the default is HPA.
	Sources []Source
	// Namespaces are the served namespaces. Default: all.
	Namespaces []string
	// SyncPeriod is the time between two reconciles of an object that sets none. 1 s to 1 h.
	// Default: 15 s.
	SyncPeriod time.Duration
	// ProfilePeriods are the periods of Autoscalers that set none, by the profile that their
	// options name. Default: SyncPeriod.
	ProfilePeriods map[string]time.Duration
	// Workers is how many reconciles run at once. Default: 32.
	Workers int
	// RequestTimeout bounds a call of the service or of the cluster. Default: 10 s.
	RequestTimeout time.Duration
	// DrainTimeout bounds how long a stop waits for reconciles in flight. Default: 20 s.
	DrainTimeout time.Duration
	// Shadow makes a shadow of every object: nothing is applied or written.
	Shadow bool
	// KeepOn makes the agent act on HorizontalPodAutoscalers even if another controller writes
	// their status. Otherwise it gives way.
	KeepOn bool
	// NamedMetrics provides metrics of Autoscalers from the operator's sources, before the
	// cluster's metrics APIs are asked. Nil disables them.
	NamedMetrics NamedMetrics
	// Election elects the acting agent of a cluster. Nil: this one always acts.
	Election *Election
	// Observers receive decisions.
	Observers []agent.Observer
	// Registerer takes the metrics. Nil disables them.
	Registerer prometheus.Registerer
	// Log takes the lines. Nil: no log.
	Log *zap.Logger
}

// Election is a leader election by a Lease.
type Election struct {
	// Namespace and Name are the Lease's. Required; in a pod the namespace defaults to the
	// pod's own.
	Namespace, Name string
	// LeaseDuration is how long others wait for a silent leader, RenewDeadline how long a
	// leader tries to renew before it gives up, RetryPeriod the time between attempts.
	// Defaults: 15 s, 10 s, 2 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// MaxFailover is the longest time without an acting agent after a leader was killed, while the
// API server answers at once: a standby sees the last renewal up to a retry period late, waits
// for the Lease to expire, and tries again up to a retry period after that.
func (e *Election) MaxFailover() time.Duration {
	pause := e.RetryPeriod + time.Duration(leaderelection.JitterFactor*float64(e.RetryPeriod))
	return e.LeaseDuration + 2*pause
}

// withDefaults fills in defaults and returns what is wrong.
func (o Options) withDefaults() (Options, error) {
	setDefault(&o.SyncPeriod, 15*time.Second)
	setDefault(&o.Workers, 32)
	setDefault(&o.RequestTimeout, 10*time.Second)
	setDefault(&o.DrainTimeout, 20*time.Second)
	if len(o.Sources) == 0 && o.Shadow {
		o.Sources = []Source{HPA}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Election != nil {
		e := *o.Election
		setDefault(&e.LeaseDuration, 15*time.Second)
		setDefault(&e.RenewDeadline, 10*time.Second)
		setDefault(&e.RetryPeriod, 2*time.Second)
		o.Election = &e
	}
	return o, o.validate()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *Options) validate() error {
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if _, err := kubernetes.TargetName(o.Cluster, "n", "n"); err != nil {
		problems = append(problems, err)
	}
	if len(o.Sources) == 0 {
		refuse("sources: none is set; %q are HorizontalPodAutoscalers, in place of the built-in controller, %q are Autoscalers, beside it", HPA, Autoscaler)
	}
	for _, s := range o.Sources {
		if s != HPA && s != Autoscaler {
			refuse("source %q is not one of %q", s, []Source{HPA, Autoscaler})
		}
	}
	if slices.Contains(o.Namespaces, "") {
		refuse("namespaces: one is empty")
	}
	if o.SyncPeriod < pace.MinPeriod || o.SyncPeriod > pace.MaxPeriod {
		refuse("sync period: %s is not from %s to %s", o.SyncPeriod, pace.MinPeriod, pace.MaxPeriod)
	}
	for profile, period := range o.ProfilePeriods {
		if period < pace.MinPeriod || period > pace.MaxPeriod {
			refuse("sync period of the profile %s: %s is not from %s to %s", profile, period, pace.MinPeriod, pace.MaxPeriod)
		}
	}
	if o.Workers < 0 || o.RequestTimeout < 0 || o.DrainTimeout < 0 {
		refuse("workers and timeouts must be above 0")
	}
	if e := o.Election; e != nil {
		if e.Name == "" {
			refuse("leader election: the Lease needs a name")
		}
		if e.RenewDeadline >= e.LeaseDuration || e.RetryPeriod >= e.RenewDeadline || e.RetryPeriod < 0 {
			refuse("leader election: want retry period %s below renew deadline %s below lease duration %s", e.RetryPeriod, e.RenewDeadline, e.LeaseDuration)
		}
	}
	return errors.Join(problems...)
}
